//! The `lexical` ranker: it scores entries by their best passage, raised by their neighbours in the conversation
//! and by their day.
//!
//! ```text
//! own(e)   = the largest S(p) over the passages p of the entry
//! near(e)  = own(e) with the shares of its neighbours (`neighbours.rs`)
//! day(e)   = min(1, 25 / mean length)^2 * the sum of BM25 of the day of the entry, among all days (`days.rs`)
//! score(e) = min(1, (near(e) * speaker(e) + day(e)) / ceiling), where near(e) is above 0
//! ```
//!
//! `speaker(e)` is 1.5 if the query names exactly one speaker and the entry is of that speaker, and 1 otherwise. If
//! the query names its asker, it is 1 for the asker's entries and 1 / 1.5 for all others (`speakers.rs`). `day(e)` is
//! smaller if entries are long on average. `S` and `ceiling` are those of BM25 over passages, with the query weighed as
//! `score.rs` says. So the question before an answer finds the answer, even if it has no term of the query. Sums are
//! taken in one order, so every way to compute a score gives the same bits.

use std::borrow::Cow;
use std::ops::Range;

use crate::analyse::{Language, Speaker};
use crate::bm25::chain::{Chain, REACH};
use crate::bm25::correct::corrected;
use crate::bm25::days::Days;
use crate::bm25::index::Bm25Index;
use crate::bm25::languages::OfEntries;
use crate::bm25::neighbours::{Parts, Why, shares};
use crate::bm25::params::Bm25Params;
use crate::bm25::score::Weighing;
use crate::bm25::scored::number;
use crate::bm25::scorer::Scorer;
use crate::bm25::spare;
use crate::bm25::speakers::Speakers;
use crate::bm25::terms::{Document, Query};

/// Entries, numbered from 0 in the order they were added.
///
/// ```
/// use siltstone_core::bm25::{Bm25Params, Document, LexicalIndex, Query};
///
/// let mut index = LexicalIndex::new(Bm25Params::default());
/// index.add([Document::of("Where does the silt settle?")], (0, 1), 0);
/// index.add([Document::of("In the delta.")], (1, 2), 0);
/// index.add([Document::of("The kettle is on.")], (9, 10), 0);
/// let mut found = Vec::new();
/// index.for_each_match(&Query::of("silt"), |hit| found.push(hit.id));
/// assert_eq!(found, [0, 1]); // the answer stands beside the question
/// ```
#[derive(Clone, Debug)]
pub struct LexicalIndex {
    pub(super) passages: Bm25Index,
    /// The first passage of each entry.
    pub(super) firsts: Vec<u32>,
    /// The entries that do not have exactly one passage.
    pub(super) uneven: Vec<u32>,
    pub(super) chain: Chain,
    pub(super) days: Days,
    pub(super) speakers: Speakers,
    pub(super) languages: OfEntries,
}

impl LexicalIndex {
    /// An index without entries.
    #[must_use]
    pub fn new(params: Bm25Params) -> Self {
        Self {
            passages: Bm25Index::new(params),
            firsts: Vec::new(),
            uneven: Vec::new(),
            chain: Chain::default(),
            days: Days::default(),
            speakers: Speakers::default(),
            languages: OfEntries::default(),
        }
    }

    /// Adds an entry with these passages, which came from the messages `range` at a moment in milliseconds since
    /// 1970, and returns its number.
    ///
    /// An empty range means that the entry came from no message: it then has no neighbours and no day.
    pub fn add(
        &mut self,
        passages: impl IntoIterator<Item = Document>,
        range: (i64, i64),
        created_at: i64,
    ) -> u32 {
        self.add_said(passages, range, created_at, None)
    }

    /// Adds an entry as [`add`](Self::add) does, with its speaker.
    pub fn add_said(
        &mut self,
        passages: impl IntoIterator<Item = Document>,
        range: (i64, i64),
        created_at: i64,
        speaker: Option<&Speaker>,
    ) -> u32 {
        let id = number(self.firsts.len());
        let first = number(self.passages.len());
        self.firsts.push(first);
        let (mut length, mut language) = (0, Language::English);
        for passage in passages {
            language = passage.language;
            self.passages.add(&passage);
            length += passage.length;
        }
        let said_at = (range.0 < range.1).then_some(created_at);
        self.days.add(said_at, first, length);
        if self.range(id).len() != 1 {
            self.uneven.push(id);
        }
        self.chain.add(range);
        self.speakers.add(speaker);
        self.languages.add(id, language);
        id
    }

    /// The passages of all entries.
    #[must_use]
    pub fn passages(&self) -> &Bm25Index {
        &self.passages
    }

    /// Its approximate bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let places = (self.firsts.capacity() + self.uneven.capacity()) * size_of::<u32>();
        let order = self.chain.bytes() + self.days.bytes();
        let of_entries = self.speakers.bytes() + self.languages.bytes();
        self.passages.bytes() + places + order + of_entries
    }

    /// The plain BM25 sum of each entry by itself, without neighbours, day and speaker: the largest sum of its
    /// passages, in order of number.
    #[must_use]
    pub fn own(&self, query: &Query) -> Vec<f64> {
        let asked = self.in_languages(query);
        query.note(&asked);
        let sums = self.passages.sums(&asked);
        if self.uneven.is_empty() {
            sums
        } else {
            self.largest(&sums)
        }
    }

    /// The language of entry `id`.
    #[must_use]
    pub fn language(&self, id: u32) -> Language {
        self.languages.get(id)
    }

    /// The neighbours of entry `id` in the conversation: those before it and those after it, each side with the
    /// nearest first.
    #[must_use]
    pub fn neighbors(&self, id: u32) -> [[Option<u32>; REACH]; 2] {
        self.chain.neighbors(id)
    }

    /// The largest passage sum of each entry, given the sums of all passages.
    pub(super) fn largest(&self, sums: &[f64]) -> Vec<f64> {
        let mut own = spare::list();
        own.reserve(self.firsts.len());
        let mut read = 0;
        for &id in &self.uneven {
            // The entries before it have one passage each.
            let (even, range) = (id as usize - own.len(), self.range(id));
            own.extend_from_slice(&sums[read..read + even]);
            let passages = &sums[range.start as usize..range.end as usize];
            own.push(passages.iter().copied().fold(0.0, f64::max));
            read = range.end as usize;
        }
        own.extend_from_slice(&sums[read..]);
        own
    }

    /// Explains the score of entry `id`.
    #[must_use]
    pub fn why(&self, query: &Query, id: u32) -> Why {
        self.with_scorer(query, |query, scorer| self.explained(query, scorer, id))
    }

    fn explained(&self, query: &Query, scorer: &Scorer<'_>, id: u32) -> Why {
        let factor = self.speakers.named(query).factor(id);
        let ceiling = scorer.ceiling() / factor;
        let best = |entry| self.best(entry, |passage| scorer.sum(passage));
        let mut found = Parts::new(scorer);
        let (own, neighbors) = shares(&mut found, &self.chain, id, best);
        let mut own = own.into_iter().filter(|&share| share > 0.0);
        let mut why = self.alone(scorer, id);
        why.speaker = factor;
        for part in &mut why.parts {
            part.score = own.next().unwrap_or(0.0) / ceiling;
        }
        // `sum` of no floats is -0.0.
        why.own = why.parts.iter().fold(0.0, |sum, part| sum + part.score);
        why.neighbors = neighbors;
        for neighbor in &mut why.neighbors {
            neighbor.score /= ceiling;
        }
        let days = self.days.sums(query, scorer);
        why.day = self.days.share(&days, id) / scorer.ceiling();
        why
    }

    /// Explains the plain BM25 score of the entry: without neighbours and without its day.
    #[must_use]
    pub fn why_alone(&self, query: &Query, id: u32) -> Why {
        self.alone(&self.passages.scorer(&self.in_languages(query)), id)
    }

    /// Calls `work` with the query, its unknown words corrected, and with its scorer in this index.
    pub(super) fn with_scorer<T>(
        &self,
        query: &Query,
        work: impl FnOnce(&Query, &Scorer<'_>) -> T,
    ) -> T {
        let asked = query;
        let query = &*self.in_languages(query);
        let scorer = Scorer::new(&self.passages, query, Weighing::Lexical);
        let Some(query) = corrected(&self.passages, query, &scorer) else {
            asked.note(query);
            return work(query, &scorer);
        };
        asked.note(&query);
        drop(scorer);
        work(
            &query,
            &Scorer::new(&self.passages, &query, Weighing::Lexical),
        )
    }

    /// The query read in all languages of the entries.
    fn in_languages<'a>(&self, query: &'a Query) -> Cow<'a, Query> {
        let languages = self.languages.present();
        if languages.is_empty() {
            return Cow::Borrowed(query);
        }
        let df = |terms: &Query| self.passages.scorer(terms).frequencies();
        Cow::Owned(query.in_languages(languages, df))
    }

    fn alone(&self, scorer: &Scorer<'_>, id: u32) -> Why {
        let range = self.range(id);
        let best = self.best(id, |passage| scorer.sum(passage));
        Why {
            parts: best.map_or_else(Vec::new, |passage| scorer.parts(passage)),
            passage: best.map_or(0, |passage| passage - range.start),
            passages: range.end - range.start,
            own: best.map_or(0.0, |passage| scorer.sum(passage)) / scorer.ceiling(),
            neighbors: Vec::new(),
            day: 0.0,
            speaker: 1.0,
        }
    }

    /// The best passage of an entry, the first of equal ones; None where it has no passage.
    pub(super) fn best(&self, id: u32, sum: impl Fn(u32) -> f64) -> Option<u32> {
        let range = self.range(id);
        if range.len() < 2 {
            return range.clone().next();
        }
        let mut best = (range.start, 0.0);
        for passage in range {
            let sum = sum(passage);
            if sum > best.1 {
                best = (passage, sum);
            }
        }
        Some(best.0)
    }

    pub(super) fn range(&self, id: u32) -> Range<u32> {
        let end = self.firsts.get(id as usize + 1).copied();
        self.firsts[id as usize]..end.unwrap_or_else(|| number(self.passages.len()))
    }
}
