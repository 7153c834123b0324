//! Spelling correction: a word of a query that no entry has is replaced by a word at an edit distance of one that
//! entries have.
//!
//! A word that only says that something is asked is not corrected.
//!
//! The correction needs no data of its own: it makes the few hundred words at one edit, and looks them up like the
//! terms of a query. Words that entries have cost nothing.

use std::borrow::Cow;

use crate::analyse::{Edits, Normalizer, for_each_correctable, hash};
use crate::bm25::index::Bm25Index;
use crate::bm25::score::Weighing;
use crate::bm25::scorer::Scorer;
use crate::bm25::terms::{Correction, Query};

/// At most so many unknown words of a query are corrected, the first ones.
const MOST: usize = 4;

/// A query with more terms is not corrected: a long text is not a question with a typo.
const LONGEST: usize = 20;

/// `query` with its unknown words corrected; None where there is nothing to correct. `scorer` is the scorer of the
/// query.
pub(super) fn corrected(index: &Bm25Index, query: &Query, scorer: &Scorer<'_>) -> Option<Query> {
    if scorer.len() > LONGEST || scorer.knows_all() {
        return None;
    }
    let mut unknown: Vec<(u64, String)> = Vec::new();
    for_each_correctable(query.text(), |word, hash| {
        let is_new = unknown.len() < MOST && unknown.iter().all(|(known, _)| *known != hash);
        if is_new && scorer.lacks(hash) && !query.only_asks(hash) {
            unknown.push((hash, word.to_owned()));
        }
    });
    let languages = query.languages().with_english();
    let normalizers: Vec<Normalizer> = languages.map(Normalizer::of).collect();
    let mut corrections: Vec<Correction> = Vec::new();
    for (unknown, word) in unknown {
        let edits = Edits::of(&word);
        let mut near: Vec<(u64, &Normalizer, &str)> = Vec::new();
        for edit in edits.iter() {
            let own = hash(edit);
            // Most words are their own normal form in most languages.
            let term = |normalizer: &Normalizer| match normalizer.normal(edit) {
                Cow::Borrowed(normal) if normal == edit => own,
                normal => hash(&normal),
            };
            let first = near.len();
            for normalizer in &normalizers {
                let term = term(normalizer);
                if near[first..].iter().all(|&(known, ..)| known != term) {
                    near.push((term, normalizer, edit));
                }
            }
        }
        near.sort_unstable_by_key(|&(hash, ..)| hash);
        near.dedup_by_key(|&mut (hash, ..)| hash);
        let is_used = |hash: u64| corrections.iter().any(|each| each.hash == hash);
        near.retain(|&(hash, ..)| !scorer.has(hash) && !is_used(hash));
        let terms = Query::of_hashes(near.iter().map(|&(hash, ..)| hash));
        let known = Scorer::new(index, &terms, Weighing::Plain);
        // The most frequent term wins; of equally frequent terms the one with the smallest hash.
        if let Some(found) = known.most_frequent()
            && let Some((hash, normalizer, edit)) = near.iter().find(|&&(hash, ..)| hash == found)
        {
            corrections.push(Correction {
                unknown,
                word,
                hash: *hash,
                normal: normalizer.normal(edit).into_owned(),
            });
        }
    }
    (!corrections.is_empty()).then(|| query.corrected(corrections))
}
