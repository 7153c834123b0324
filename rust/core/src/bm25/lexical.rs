//! The `lexical` ranker: entries of passages, each lifted a little by what stands beside it.
//!
//! ```text
//! own(e)   = the largest S(p) over the passages p of the entry
//! sum(e)   = own(e) + 0.3 * (own(e-1) + own(e+1)) + 0.15 * (own(e-2) + own(e+2))
//! score(e) = min(1, sum(e) / ceiling)
//! ```
//!
//! `S` and `ceiling` are those of BM25 over passages (`score.rs`); `e-1` and `e+1` are the neighbours
//! in the conversation, 0 where there is none. So an answer that has no term of the query is found by the
//! question before it. Sums are taken in one order, so every way to a score gives the same bits.

use std::ops::Range;

use crate::bm25::chain::Chain;
use crate::bm25::index::Bm25Index;
use crate::bm25::params::Bm25Params;
use crate::bm25::scorer::{Part, Scorer};
use crate::bm25::smoothing::Smoothing;
use crate::bm25::terms::{Document, Query};

/// What the nearest neighbour on either side adds, and the one behind it.
pub const SHARES: [f64; 2] = [0.3, 0.15];

/// Entries, numbered from 0 in the order they were added.
///
/// ```
/// use siltstone_core::bm25::{Bm25Params, Document, LexicalIndex, Query};
///
/// let mut index = LexicalIndex::new(Bm25Params::default());
/// index.add([Document::of("Where does the silt settle?")], (0, 1));
/// index.add([Document::of("In the delta.")], (1, 2));
/// index.add([Document::of("The kettle is on.")], (9, 10));
/// let mut found = Vec::new();
/// index.for_each_match(&Query::of("silt"), |hit| found.push(hit.id));
/// assert_eq!(found, [0, 1]); // the answer stands beside the question
/// ```
#[derive(Clone, Debug)]
pub struct LexicalIndex {
    passages: Bm25Index,
    /// The first passage of each entry.
    firsts: Vec<u32>,
    /// The entries that have not exactly one.
    uneven: Vec<u32>,
    chain: Chain,
}

/// An entry that has a term of the query, or stands beside one that has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Its number in the index.
    pub id: u32,
    /// Above 0, up to 1.
    pub score: f64,
}

/// How the score of an entry came about. All shares are parts of the score.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// What each term of the query adds, for the best passage.
    pub parts: Vec<Part>,
    /// The best passage of the entry, from 0.
    pub passage: u32,
    /// How many it has.
    pub passages: u32,
    /// What that passage adds: the sum of the parts.
    pub own: f64,
    /// What stands beside it, those before it first, the nearest first.
    pub neighbors: Vec<Neighbor>,
}

/// An entry beside one that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// Its number in the index.
    pub id: u32,
    /// Where it stands: -2, -1, 1 or 2.
    pub place: i64,
    /// What it adds; more than 0.
    pub score: f64,
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
        }
    }

    /// Adds an entry of these passages, which came from the messages `range`, and gives its number.
    ///
    /// An empty range is that of an entry which came from no message: it has no neighbours.
    pub fn add(&mut self, passages: impl IntoIterator<Item = Document>, range: (i64, i64)) -> u32 {
        let id = count(self.firsts.len());
        self.firsts.push(count(self.passages.len()));
        for passage in passages {
            self.passages.add(&passage);
        }
        if self.range(id).len() != 1 {
            self.uneven.push(id);
        }
        self.chain.add(range);
        id
    }

    /// The passages of all entries.
    #[must_use]
    pub fn passages(&self) -> &Bm25Index {
        &self.passages
    }

    /// What each entry has of the query by itself, whatever stands beside it: the largest sum over its
    /// passages, in order of number.
    #[must_use]
    pub fn own(&self, query: &Query) -> Vec<f64> {
        self.largest(self.passages.scorer(query).sums())
    }

    /// Calls `visit` once for each entry with a score above 0, in ascending order of number.
    pub fn for_each_match(&self, query: &Query, mut visit: impl FnMut(Match)) {
        self.for_each_above(query, self.firsts.len(), |found| {
            visit(found);
            0.0
        });
    }

    /// Calls `visit` with each entry that may be among the `limit` best, in ascending order of number.
    ///
    /// `visit` gives the least score that is of interest from now on, and may be called for some that
    /// have less. Entries that score as much as the last of the best are among them.
    pub fn for_each_above(&self, query: &Query, limit: usize, mut visit: impl FnMut(Match) -> f64) {
        let scorer = self.passages.scorer(query);
        let ceiling = scorer.ceiling();
        let own = self.largest(scorer.sums());
        let beside = Smoothing::new(&self.chain, &own, SHARES);
        // What is above the ceiling scores as much as what is at it.
        let least = beside.at_least(limit).min(ceiling);
        beside.for_each_above(least, |id, sum| {
            let score = (sum / ceiling).min(1.0);
            visit(Match { id, score }) * ceiling
        });
    }

    /// The largest sum of each entry, of the sums of all passages.
    fn largest(&self, sums: Vec<f64>) -> Vec<f64> {
        if self.uneven.is_empty() {
            return sums;
        }
        let mut own = Vec::with_capacity(self.firsts.len());
        let mut read = 0;
        for &id in &self.uneven {
            // Those before it have one passage each.
            let (even, range) = (id as usize - own.len(), self.range(id));
            own.extend_from_slice(&sums[read..read + even]);
            let passages = &sums[range.start as usize..range.end as usize];
            own.push(passages.iter().copied().fold(0.0, f64::max));
            read = range.end as usize;
        }
        own.extend_from_slice(&sums[read..]);
        own
    }

    /// The nearest two before entry `id` in the conversation and after it, the nearest first.
    #[must_use]
    pub fn neighbors(&self, id: u32) -> [[Option<u32>; 2]; 2] {
        self.chain.neighbors(id)
    }

    /// How the score of entry `id` came about.
    #[must_use]
    pub fn why(&self, query: &Query, id: u32) -> Why {
        let scorer = self.passages.scorer(query);
        let ceiling = scorer.ceiling();
        let range = self.range(id);
        let (passage, own) = self.best(&scorer, id);
        let mut neighbors = Vec::new();
        for (side, sign) in self.chain.neighbors(id).into_iter().zip([-1, 1]) {
            for (neighbor, (share, distance)) in side.into_iter().zip(SHARES.into_iter().zip(1..)) {
                let sum = neighbor.map_or(0.0, |neighbor| self.best(&scorer, neighbor).1);
                if let Some(id) = neighbor.filter(|_| sum > 0.0) {
                    neighbors.push(Neighbor {
                        id,
                        place: sign * distance,
                        score: share * sum / ceiling,
                    });
                }
            }
        }
        Why {
            parts: scorer.parts(passage),
            passage: passage - range.start,
            passages: range.end - range.start,
            own: own / ceiling,
            neighbors,
        }
    }

    /// The best passage of an entry, the first of equal ones, and its sum.
    fn best(&self, scorer: &Scorer<'_>, id: u32) -> (u32, f64) {
        let mut best = (self.range(id).start, 0.0);
        for passage in self.range(id) {
            let sum = scorer.sum(passage);
            if sum > best.1 {
                best = (passage, sum);
            }
        }
        best
    }

    fn range(&self, id: u32) -> Range<u32> {
        let end = self.firsts.get(id as usize + 1).copied();
        self.firsts[id as usize]..end.unwrap_or_else(|| count(self.passages.len()))
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("an index in memory holds fewer than 2^32 passages")
}
