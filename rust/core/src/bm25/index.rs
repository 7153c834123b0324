//! An inverted index: for each term, the passages that have it.

use std::ops::Deref;
use std::sync::OnceLock;

use hashbrown::HashSet;

use crate::bm25::lists::FREQUENT;
use crate::bm25::score::{Bm25Params, Collection, Norms, Short, short};
use crate::bm25::terms::{Document, Query};
use crate::postings::{Hashes, Postings};

/// Passages, numbered from 0 in the order they were added.
///
/// ```
/// use siltstone_core::bm25::{Bm25Index, Bm25Params, Document, Query};
///
/// let mut index = Bm25Index::new(Bm25Params::default());
/// index.add(&Document::of("silt settles where water is slow"));
/// index.add(&Document::of("the kettle is on"));
/// let sums = index.sums(&Query::of("Where does silt settle?"));
/// assert!(sums[0] > 0.0 && sums[1] == 0.0);
/// ```
#[derive(Clone, Debug)]
pub struct Bm25Index {
    pub(super) params: Bm25Params,
    pub(super) postings: Postings<Hashes>,
    /// How many terms each passage has.
    pub(super) lengths: Vec<u32>,
    /// The same lengths, cut to 8 bits, to look up norms by.
    pub(super) shorts: Vec<Short>,
    pub(super) words: u64,
    /// Computed at the first search after a change.
    pub(super) norms: OnceLock<Box<Norms>>,
}

impl Bm25Index {
    /// An index without passages.
    #[must_use]
    pub fn new(params: Bm25Params) -> Self {
        Self {
            params,
            postings: Postings::new(FREQUENT),
            lengths: Vec::new(),
            shorts: Vec::new(),
            words: 0,
            norms: OnceLock::new(),
        }
    }

    /// Its parameters.
    #[must_use]
    pub fn params(&self) -> Bm25Params {
        self.params
    }

    /// Adds a passage and returns its number. A passage without terms has a number too, and is never found.
    pub fn add(&mut self, document: &Document) -> u32 {
        let id = self.postings.add(document.terms.iter().copied());
        let length = u32::try_from(document.length).unwrap_or(u32::MAX);
        self.lengths.push(length);
        self.shorts.push(short(length));
        self.words += u64::from(length);
        self.norms.take();
        id
    }

    /// Whether there is a passage of that number that was not removed.
    #[must_use]
    pub fn has(&self, id: u32) -> bool {
        self.postings.has(id)
    }

    /// Removes a passage, as if it had never been added: scores are then computed over the remaining passages. Its
    /// number is not reused.
    ///
    /// False if there is none of that number, or it was removed before.
    pub fn remove(&mut self, id: u32) -> bool {
        let removed = self.postings.remove(id);
        if removed {
            self.words -= u64::from(self.lengths[id as usize]);
            self.norms.take();
        }
        removed
    }

    /// Merges the parts of the index and drops removed passages. The index also does so by itself, a little with
    /// each passage.
    pub fn settle(&mut self) {
        self.postings.settle();
    }

    /// How many passages were added, including removed ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether no passage was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// How many passages were removed.
    #[must_use]
    pub fn removed(&self) -> usize {
        self.postings.removed()
    }

    /// How many terms the passages have together.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.words
    }

    /// How many different terms. They are counted at every call.
    #[must_use]
    pub fn terms(&self) -> usize {
        let mut terms = HashSet::new();
        for (number, block) in self.postings.blocks().iter().enumerate() {
            let keys = block.parts().iter().flat_map(|part| part.keys());
            terms.extend(keys.copied());
            if let Some(fresh) = self.postings.fresh(number) {
                fresh.few().for_each(|_, term, _| {
                    terms.insert(term);
                });
                if let Some(lists) = fresh.lists() {
                    lists.for_each_term(|term| {
                        terms.insert(term);
                    });
                }
            }
        }
        terms.len()
    }

    /// How many pairs of a term and a passage that has it.
    #[must_use]
    pub fn postings(&self) -> usize {
        self.postings.postings()
    }

    /// Its size in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let lengths = self.lengths.capacity() * size_of::<u32>() + self.shorts.capacity();
        let norms = self.norms.get().map_or(0, |norms| size_of_val(&**norms));
        self.postings.bytes() + lengths + norms
    }

    pub(super) fn norms(&self) -> &Norms {
        let make = || Box::new(Norms::new(self.params, self.collection()));
        self.norms.get_or_init(make)
    }

    pub(super) fn collection(&self) -> Collection {
        Collection {
            documents: (self.len() - self.removed()) as u64,
            words: self.words,
        }
    }
}

/// The score of each of `texts` for `query`, 0 to 1: the score that an index of these texts gives.
///
/// ```
/// use siltstone_core::bm25::{Bm25Params, Query, scores};
///
/// let texts = ["silt settles where water is slow", "the kettle is on"];
/// let found = scores(&texts, &Query::of("Where does silt settle?"), Bm25Params::default());
/// assert!(found[0] > 0.0 && found[1] == 0.0);
/// ```
#[must_use]
pub fn scores(texts: &[impl Deref<Target = str>], query: &Query, params: Bm25Params) -> Vec<f64> {
    let mut index = Bm25Index::new(params);
    for text in texts {
        index.add(&Document::of(text));
    }
    let mut scores = vec![0.0; texts.len()];
    for found in index.search(query, texts.len()) {
        scores[found.id as usize] = found.score;
    }
    scores
}
