//! An inverted index: for each term, the passages that have it.

use std::path::Path;
use std::sync::OnceLock;

use hashbrown::HashSet;

use crate::bm25::best::search;
use crate::bm25::norms::{Norms, Short, short};
use crate::bm25::params::Bm25Params;
use crate::bm25::score::{Collection, Weighing};
use crate::bm25::scorer::Scorer;
use crate::bm25::terms::{Document, Query};
use crate::error::Result;
use crate::postings::{self, BLOCK, Hashes, Postings, count, entry};

/// From how many passages of a block on a term has a column of counts beside its list, to be looked up in.
pub(super) const FREQUENT: usize = 512;

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
    /// The same, to look up norms by.
    pub(super) shorts: Vec<Short>,
    pub(super) words: u64,
    /// Made for the first search after a change.
    pub(super) norms: OnceLock<Box<Norms>>,
}

/// A passage that was found.
///
/// The order is that of preference: the higher score is greater, and of equal ones the smaller id.
#[derive(Clone, Copy, Debug)]
pub struct Scored {
    /// Its number in the index.
    pub id: u32,
    /// Above 0, up to 1.
    pub score: f64,
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score
            .total_cmp(&other.score)
            .then_with(|| other.id.cmp(&self.id))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scored {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scored {}

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

    /// Adds a passage and gives its number. One without terms has a number too, and is never found.
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

    /// Removes a passage, as if it had never been added: scores are those of what is left. Its number is
    /// not used again.
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

    /// Puts together what was added and removed. It would happen by itself, a little with each passage.
    pub fn settle(&mut self) {
        self.postings.settle();
    }

    /// How many passages were added, those included that were removed.
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
                fresh.for_each_term(|term| {
                    terms.insert(term);
                });
            }
        }
        terms.len()
    }

    /// How many pairs of a term and a passage that has it.
    #[must_use]
    pub fn postings(&self) -> usize {
        self.postings.postings()
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.postings.bytes() + size_of_val(&self.lengths[..]) + size_of_val(&self.shorts[..])
    }

    /// Writes the passages to a file, all of them or nothing. `label` says how terms were made of texts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreIo`](crate::ErrorKind::StoreIo)
    pub fn save(&self, path: &Path, label: &str) -> Result<()> {
        let (k1, b) = (self.params.k1(), self.params.b());
        postings::save(path, &format!("bm25 {k1:?} {b:?} {label}"), &self.postings)
    }

    /// The passages of a file that was saved with `label`, and their parameters.
    ///
    /// # Errors
    ///
    /// Those of [`postings::load`].
    pub fn load(path: &Path, label: &str) -> Result<Self> {
        let accept = |found: &str| {
            let mut words = found.strip_prefix("bm25 ")?.splitn(3, ' ');
            let mut number = || words.next()?.parse().ok();
            let params = Bm25Params::new(number()?, number()?).ok()?;
            (words.next()? == label).then_some(params)
        };
        let (postings, params) = postings::load::<Hashes, _>(path, FREQUENT, accept)?;
        let mut lengths = vec![0_u32; postings.len()];
        for (block, lengths) in postings.blocks().iter().zip(lengths.chunks_mut(BLOCK)) {
            for part in block.parts() {
                for list in (0..part.keys().len()).map(|place| part.list_at(place)) {
                    list.for_each_code(|code| {
                        let tf = list.more_of(entry(code)).saturating_add(count(code).into());
                        let length = &mut lengths[usize::from(entry(code))];
                        *length = length.saturating_add(tf);
                    });
                }
            }
        }
        Ok(Self {
            params,
            postings,
            words: lengths.iter().copied().map(u64::from).sum(),
            shorts: lengths.iter().copied().map(short).collect(),
            lengths,
            norms: OnceLock::new(),
        })
    }

    /// What `query` is held against: its terms, as telling as they are in this index now.
    #[must_use]
    pub fn scorer<'a>(&'a self, query: &'a Query) -> Scorer<'a> {
        Scorer::new(self, query, Weighing::Plain)
    }

    /// The `limit` best passages that have a term of the query: the best first, ties by number.
    ///
    /// A score is the sum by the ceiling, up to 1.
    #[must_use]
    pub fn search(&self, query: &Query, limit: usize) -> Vec<Scored> {
        search(&self.scorer(query), limit)
    }

    /// The sum of each passage, in order; 0 for one that has no term of the query.
    #[must_use]
    pub fn sums(&self, query: &Query) -> Vec<f64> {
        self.scorer(query).sums()
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
