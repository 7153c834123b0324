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
use crate::bm25::index::{Bm25Index, Part};
use crate::bm25::params::Bm25Params;
use crate::bm25::terms::{Document, Query};

/// What the nearest neighbour on either side adds, and the one behind it.
const SHARES: [f64; 2] = [0.3, 0.15];

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
    /// The entry of each passage, ascending.
    owners: Vec<u32>,
    /// The first passage of each entry.
    firsts: Vec<u32>,
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
            owners: Vec::new(),
            firsts: Vec::new(),
            chain: Chain::default(),
        }
    }

    /// Adds an entry of these passages, which came from the messages `range`, and gives its number.
    ///
    /// An empty range is that of an entry which came from no message: it has no neighbours.
    pub fn add(&mut self, passages: impl IntoIterator<Item = Document>, range: (i64, i64)) -> u32 {
        let id = count(self.firsts.len());
        self.firsts.push(count(self.owners.len()));
        for passage in passages {
            self.passages.add(&passage);
            self.owners.push(id);
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
        let mut own = vec![0.0_f64; self.firsts.len()];
        for (&owner, sum) in self.owners.iter().zip(self.passages.sums(query)) {
            let best = &mut own[owner as usize];
            *best = best.max(sum);
        }
        own
    }

    /// Calls `visit` once for each entry with a score above 0, in ascending order of number.
    pub fn for_each_match(&self, query: &Query, mut visit: impl FnMut(Match)) {
        let ceiling = self.passages.ceiling(query);
        let own = self.own(query);
        for id in 0..count(own.len()) {
            let sum = self.smoothed(id, |id| own[id as usize]);
            if sum > 0.0 {
                visit(Match {
                    id,
                    score: (sum / ceiling).min(1.0),
                });
            }
        }
    }

    /// How the score of entry `id` came about.
    #[must_use]
    pub fn why(&self, query: &Query, id: u32) -> Why {
        let ceiling = self.passages.ceiling(query);
        let range = self.range(id);
        let (passage, own) = self.best(query, id);
        let mut neighbors = Vec::new();
        for (side, sign) in self.chain.neighbors(id).into_iter().zip([-1, 1]) {
            for (neighbor, (share, distance)) in side.into_iter().zip(SHARES.into_iter().zip(1..)) {
                let sum = neighbor.map_or(0.0, |neighbor| self.best(query, neighbor).1);
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
            parts: self.passages.parts(query, passage),
            passage: passage - range.start,
            passages: range.end - range.start,
            own: own / ceiling,
            neighbors,
        }
    }

    /// The best passage of an entry, the first of equal ones, and its sum.
    fn best(&self, query: &Query, id: u32) -> (u32, f64) {
        let mut best = (self.range(id).start, 0.0);
        for passage in self.range(id) {
            let sum = self.passages.sum(query, passage);
            if sum > best.1 {
                best = (passage, sum);
            }
        }
        best
    }

    fn range(&self, id: u32) -> Range<u32> {
        let end = self.firsts.get(id as usize + 1).copied();
        self.firsts[id as usize]..end.unwrap_or_else(|| count(self.owners.len()))
    }

    fn smoothed(&self, id: u32, own: impl Fn(u32) -> f64) -> f64 {
        let [before, after] = self.chain.neighbors(id);
        let beside = |step: usize| {
            let of = |neighbor: Option<u32>| neighbor.map_or(0.0, &own);
            SHARES[step] * (of(before[step]) + of(after[step]))
        };
        own(id) + beside(0) + beside(1)
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("an index in memory holds fewer than 2^32 passages")
}
