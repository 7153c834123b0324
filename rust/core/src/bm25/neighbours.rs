//! The share of an entry and of its neighbours in a query, term by term.
//!
//! ```text
//! near(t, e) = sqrt(part(t, e)^2 + sum over k of share(k)^2 * (lent(t, e-k) + lent(t, e+k)))
//! lent(t, e) = part(t, e)^2 * min(1, 100 / length(e))
//! near(e)    = sum of near(t, e) over the terms of the query
//! ```
//!
//! `part(t, e)` is that of the entry's best passage, `e-k` and `e+k` are the entries `k` places away in the
//! conversation, and `length(e)` is the number of terms of that passage: what stands in a long answer says less
//! of what is beside it. A neighbour that has what the entry lacks adds its whole share; one that repeats what the
//! entry has adds little. `near(e)` is never more than the sum of the entry's parts and of the shares of
//! its neighbours', which is quick to say: see `bound`.

use std::ops::Range;

use crate::bm25::chain::{Chain, REACH};
use crate::bm25::scorer::{Part, Scorer};

/// What a neighbour adds of a term that the entry lacks, the nearest first.
const SHARES: [f64; REACH] = [0.41, 0.4, 0.3, 0.2];

/// Their squares, written out so that every language has the same bits.
const SQUARES: [f64; REACH] = [0.1681, 0.16, 0.09, 0.04];

/// Terms of the longest passage that lends its whole share.
const LENDS: f64 = 100.0;

/// What all neighbours of an entry add at most, in parts of the best of them.
pub(super) const LIFT: f64 = 2.0 * (0.41 + 0.4 + 0.3 + 0.2);

/// Entries whose parts are kept at a time: some windows of neighbours.
const KEPT: usize = 256;

/// Stands for no entry.
const NONE: u32 = u32::MAX;

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
    /// What was said on the same day adds.
    pub day: f64,
    /// What all of that but the day was multiplied by: more than 1 where the query names who said the entry, less
    /// where it is about the one who asks, and somebody else said it.
    pub speaker: f64,
}

/// An entry beside one that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// Its number in the index.
    pub id: u32,
    /// Where it stands: -4 to -1, or 1 to 4.
    pub place: i64,
    /// What it adds; more than 0.
    pub score: f64,
}

/// The parts of entries for one query; those that were asked for last are kept.
pub(super) struct Parts<'a> {
    query: &'a Scorer<'a>,
    /// Which entry is kept where, and its place in `rows`.
    kept: Vec<(u32, usize)>,
    rows: Vec<f64>,
    /// `near(t, e)^2` of the entry that was asked for last, and what it gets from a pair of neighbours.
    squares: Vec<f64>,
    beside: Vec<f64>,
}

/// What a passage of that many terms lends, in parts of the square of its share.
fn lending(length: u32) -> f64 {
    (LENDS / f64::from(length)).min(1.0)
}

impl<'a> Parts<'a> {
    pub(super) fn new(query: &'a Scorer<'a>) -> Self {
        Self {
            query,
            kept: vec![(NONE, 0); KEPT],
            rows: Vec::new(),
            squares: vec![0.0; query.len()],
            beside: vec![0.0; query.len()],
        }
    }

    /// The parts of an entry, one a term, whose best passage `best` names; None where it has no term.
    fn row(&mut self, entry: u32, best: impl Fn(u32) -> Option<u32>) -> Option<Range<usize>> {
        let passage = best(entry)?;
        let terms = self.query.len();
        let slot = entry as usize % KEPT;
        let (known, mut place) = self.kept[slot];
        if known != entry {
            if known == NONE {
                place = self.rows.len();
                self.rows.resize(place + terms, 0.0);
            }
            self.kept[slot] = (entry, place);
            self.query
                .addends(passage, &mut self.rows[place..place + terms]);
        }
        Some(place..place + terms)
    }

    /// What a neighbour lends of the square of its share.
    fn lending(&self, neighbor: u32, best: impl Fn(u32) -> Option<u32>) -> f64 {
        best(neighbor).map_or(1.0, |passage| lending(self.query.length(passage)))
    }

    /// Fills `squares` for an entry with neighbours on both `sides`.
    fn square(
        &mut self,
        entry: u32,
        sides: [[Option<u32>; REACH]; 2],
        best: impl Fn(u32) -> Option<u32> + Copy,
    ) {
        self.squares.fill(0.0);
        if let Some(row) = self.row(entry, best) {
            add_squares(&mut self.squares, &self.rows[row], 1.0);
        }
        for (step, share) in SQUARES.into_iter().enumerate() {
            let mut is_any = false;
            for neighbor in sides.iter().filter_map(|side| side[step]) {
                if let Some(row) = self.row(neighbor, best) {
                    if !is_any {
                        self.beside.fill(0.0);
                    }
                    is_any = true;
                    let part = self.lending(neighbor, best);
                    add_squares(&mut self.beside, &self.rows[row], part);
                }
            }
            if is_any {
                for (square, beside) in self.squares.iter_mut().zip(&self.beside) {
                    *square += share * beside;
                }
            }
        }
    }
}

/// Adds so much of the squares of `parts`.
fn add_squares(to: &mut [f64], parts: &[f64], much: f64) {
    for (square, part) in to.iter_mut().zip(parts) {
        *square += much * (part * part);
    }
}

/// `near(e)`; `best` names the best passage of an entry, None where none has a term.
pub(super) fn near(
    parts: &mut Parts<'_>,
    entry: u32,
    sides: [[Option<u32>; REACH]; 2],
    best: impl Fn(u32) -> Option<u32> + Copy,
) -> f64 {
    parts.square(entry, sides, best);
    let roots = parts.squares.iter().map(|square| square.sqrt());
    roots.fold(0.0, |sum, next| sum + next)
}

/// At least `near(e)`, of what an entry has and what those beside it have, the nearest first: each with its
/// share.
#[inline]
pub(super) fn bound(own: f64, before: [f64; REACH], after: [f64; REACH]) -> f64 {
    let mut sum = own;
    for (step, share) in SHARES.into_iter().enumerate() {
        sum += share * (before[step] + after[step]);
    }
    sum
}

/// At least `near(e)` as well, for a query of so many terms; nearer to it where neighbours repeat the entry.
///
/// `sum of sqrt(x) <= sqrt(terms * sum of x)` (Cauchy and Schwarz), and the squares of an entry's parts sum
/// up to no more than the square of their sum.
pub(super) fn bound_of_squares(
    terms: f64,
    own: f64,
    before: [f64; REACH],
    after: [f64; REACH],
) -> f64 {
    let mut sum = own * own;
    for (step, share) in SQUARES.into_iter().enumerate() {
        sum += share * (before[step] * before[step] + after[step] * after[step]);
    }
    (terms * sum).sqrt()
}

/// What the terms of an entry add to `near(e)`, and what its neighbours add: each its part of the square.
pub(super) fn shares(
    parts: &mut Parts<'_>,
    chain: &Chain,
    entry: u32,
    best: impl Fn(u32) -> Option<u32> + Copy,
) -> (Vec<f64>, Vec<Neighbor>) {
    let sides = chain.neighbors(entry);
    parts.square(entry, sides, best);
    let scorer = parts.query;
    let length = |passage: u32| scorer.length(passage);
    let mut of = |entry: u32, share: f64| -> Vec<f64> {
        let Some(row) = parts.row(entry, best) else {
            return Vec::new();
        };
        let row = parts.rows[row].iter().zip(&parts.squares);
        row.map(|(&part, square)| {
            if part > 0.0 {
                share * part * part / square.sqrt()
            } else {
                0.0
            }
        })
        .collect()
    };
    let mut neighbors = Vec::new();
    let lent = |id: u32| best(id).map_or(1.0, |passage| lending(length(passage)));
    for (side, sign) in sides.into_iter().zip([-1, 1]) {
        for ((neighbor, share), distance) in side.into_iter().zip(SQUARES).zip(1..) {
            let Some(id) = neighbor else { continue };
            let score: f64 = of(id, share * lent(id)).iter().sum();
            if score > 0.0 {
                neighbors.push(Neighbor {
                    id,
                    place: sign * distance,
                    score,
                });
            }
        }
    }
    (of(entry, 1.0), neighbors)
}
