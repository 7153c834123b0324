//! An entry in the form that the indexes of its session take.

use crate::analyse::{Fields, LanguageChoice, Speaker, for_each_passage};
use crate::bm25::Document;
use crate::embed::hashed_tf::counts;
use crate::memory::reading::Reading;
use crate::memory::required_indexes::RequiredIndexes;
use crate::sqlite::NewEntry;
use crate::vector::SparseRow;

/// An entry after analysis, for the indexes that need it.
pub(super) struct Analysed {
    /// Its passages, for the postings of terms.
    pub(super) passages: Option<Vec<Document>>,
    /// Its bucket counts, for the postings of buckets and for the graph.
    pub(super) row: Option<SparseRow>,
    /// Its speaker, for the postings of terms.
    pub(super) speaker: Option<Speaker>,
    /// The messages it came from.
    pub(super) range: (i64, i64),
    pub(super) created_at: i64,
    pub(super) expires_at: Option<i64>,
}

impl Analysed {
    /// Analyses `entry` for the indexes of `needs`.
    pub(super) fn of(entry: &NewEntry, reading: Reading, needs: RequiredIndexes) -> Self {
        let passages = || {
            let mut passages = Vec::with_capacity(1); // nearly all have one
            let name = entry.name.as_deref();
            for_each_passage(
                &entry.text,
                &entry.role,
                name,
                entry.created_at,
                reading.languages,
                |terms, words, language| {
                    passages.push(Document::of_text(terms, words, language));
                },
            );
            passages
        };
        let has_row = needs.buckets || needs.graph.is_some();
        Self {
            passages: needs.terms.then(passages),
            speaker: needs
                .terms
                .then(|| Speaker::of(&entry.role, entry.name.as_deref(), &entry.kind))
                .flatten(),
            row: has_row.then(|| counts(&entry.text, reading.hash_rule)),
            range: (entry.start, entry.end),
            created_at: entry.created_at,
            expires_at: entry.expires_at,
        }
    }

    /// Whether the analysis covers these indexes.
    pub(super) fn is_enough_for(&self, needs: RequiredIndexes) -> bool {
        let has_row = needs.buckets || needs.graph.is_some();
        (!needs.terms || self.passages.is_some()) && (!has_row || self.row.is_some())
    }
}

/// The fields of an entry that the lexical index reads.
pub(super) fn fields(entry: &NewEntry, languages: LanguageChoice) -> Fields {
    let name = entry.name.as_deref();
    Fields::of(&entry.text, &entry.role, name, entry.created_at, languages)
}
