//! The sum of an entry together with its neighbours for a query, computed term by term.
//!
//! ```text
//! near(t, e) = sqrt(part(t, e)^2 + sum over k of share(k)^2 * (lent(t, e-k) + lent(t, e+k)))
//! lent(t, e) = part(t, e)^2 * min(1, 100 / length(e))
//! near(e)    = sum of near(t, e) over the terms of the query
//! ```
//!
//! `part(t, e)` is the part of the entry's best passage, `e-k` and `e+k` are the entries `k` places away in the
//! conversation, and `length(e)` is the number of terms of the best passage: a long answer says less about its
//! neighbours. A neighbour that has a term which the entry lacks adds its whole share; a neighbour that repeats a
//! term of the entry adds little. `near(e)` is never more than the sum of the entry's parts plus the shares of its
//! neighbours' sums, which is quick to compute: see `bound`.

use std::ops::Range;

use crate::bm25::neighbour_links::{Chain, REACH};
use crate::bm25::scorer::{Part, Scorer};

/// The share that a neighbour adds for a term that the entry lacks, the nearest first.
const SHARES: [f64; REACH] = [0.41, 0.4, 0.3, 0.2];

/// Their squares, written out so that every language has the same bits.
const SQUARES: [f64; REACH] = [0.1681, 0.16, 0.09, 0.04];

/// A passage of up to so many terms lends its whole share.
const LENDS: f64 = 100.0;

/// The most that all neighbours of an entry add together, as a multiple of the best neighbour's sum.
pub(super) const LIFT: f64 = 2.0 * (0.41 + 0.4 + 0.3 + 0.2);

/// The number of entries whose parts are cached: several windows of neighbours.
const KEPT: usize = 256;

/// The value of an unused slot.
const NONE: u32 = u32::MAX;

/// The explanation of an entry's score. All values are shares of the score.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The share of each term of the query, for the best passage.
    pub parts: Vec<Part>,
    /// The place of the best passage in the entry, from 0.
    pub passage: u32,
    /// How many passages the entry has.
    pub passages: u32,
    /// The share of that passage: the sum of `parts`.
    pub own: f64,
    /// The neighbours that add something: those before the entry first, each side with the nearest first.
    pub neighbors: Vec<Neighbor>,
    /// The share of the entry's day.
    pub day: f64,
    /// The factor on all shares except the day: more than 1 if the query names the speaker of the entry, less than 1
    /// if the query is about its asker and somebody else said the entry.
    pub speaker: f64,
}

/// An entry beside one that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// Its number in the index.
    pub id: u32,
    /// Its distance from the entry: -4 to -1 before it, 1 to 4 after it.
    pub place: i64,
    /// Its share; more than 0.
    pub score: f64,
}

/// The parts of entries for one query; a cache keeps the parts of recent entries.
pub(super) struct Parts<'a> {
    query: &'a Scorer<'a>,
    kept: Vec<Kept>,
    rows: Vec<f64>,
    /// `squares` has `near(t, e)^2` of the current entry; `beside` is room for the addends of a pair of neighbours.
    squares: Vec<f64>,
    beside: Vec<f64>,
}

/// A slot of the cache.
#[derive(Clone, Copy)]
struct Kept {
    entry: u32,
    /// The place of the entry's parts in `rows`.
    place: usize,
    /// The factor on the squared parts that it lends.
    lends: f64,
}

/// The factor on the squared part that a passage of `length` terms lends.
fn lending(length: u32) -> f64 {
    let length = f64::from(length);
    if length <= LENDS { 1.0 } else { LENDS / length }
}

impl<'a> Parts<'a> {
    pub(super) fn new(query: &'a Scorer<'a>) -> Self {
        Self {
            query,
            kept: vec![
                Kept {
                    entry: NONE,
                    place: 0,
                    lends: 1.0,
                };
                KEPT
            ],
            rows: Vec::new(),
            squares: vec![0.0; query.len()],
            beside: vec![0.0; query.len()],
        }
    }

    /// The range in `rows` of an entry's parts, one a term, and the factor on the squared parts that it lends. `best`
    /// names the entry's best passage; None where the entry has no term of the query.
    fn row(
        &mut self,
        entry: u32,
        best: impl Fn(u32) -> Option<u32>,
    ) -> Option<(Range<usize>, f64)> {
        let terms = self.query.len();
        let slot = entry as usize % KEPT;
        let mut kept = self.kept[slot];
        if kept.entry != entry {
            let passage = best(entry)?;
            if kept.entry == NONE {
                kept.place = self.rows.len();
                self.rows.resize(kept.place + terms, 0.0);
            }
            kept.entry = entry;
            kept.lends = lending(self.query.length(passage));
            self.kept[slot] = kept;
            let row = &mut self.rows[kept.place..kept.place + terms];
            self.query.addends(passage, row);
        }
        Some((kept.place..kept.place + terms, kept.lends))
    }

    /// Fills `squares` for an entry with neighbours on both `sides`.
    fn square(
        &mut self,
        entry: u32,
        sides: [[Option<u32>; REACH]; 2],
        best: impl Fn(u32) -> Option<u32> + Copy,
    ) {
        self.squares.fill(0.0);
        if let Some((row, _)) = self.row(entry, best) {
            add_squares(&mut self.squares, &self.rows[row], 1.0);
        }
        for (step, share) in SQUARES.into_iter().enumerate() {
            let mut is_any = false;
            for neighbor in sides.iter().filter_map(|side| side[step]) {
                if let Some((row, lends)) = self.row(neighbor, best) {
                    if !is_any {
                        self.beside.fill(0.0);
                    }
                    is_any = true;
                    add_squares(&mut self.beside, &self.rows[row], lends);
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

/// Adds the squares of `parts`, times `much`.
fn add_squares(to: &mut [f64], parts: &[f64], much: f64) {
    for (square, part) in to.iter_mut().zip(parts) {
        *square += much * (part * part);
    }
}

/// `near(e)`. `best` names the best passage of an entry; None where the entry has no term of the query.
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

/// `lent(t, e)` of an entry for a query of one term: `part` is the part of its best passage, of `length` terms.
pub(super) fn lent(part: f64, length: u32) -> f64 {
    lending(length) * (part * part)
}

/// `near(e)` for a query of one term, equal to the bit to [`near`]: from the part of the entry, and from what its
/// neighbours lend, the nearest first.
#[inline]
pub(super) fn near_of_one(part: f64, before: [f64; REACH], after: [f64; REACH]) -> f64 {
    let mut square = part * part;
    for (step, share) in SQUARES.into_iter().enumerate() {
        square += share * (before[step] + after[step]);
    }
    square.sqrt()
}

/// An upper bound of `near(e)`, from the sum of the entry and the sums of its neighbours, the nearest first.
#[inline]
pub(super) fn bound(own: f64, before: [f64; REACH], after: [f64; REACH]) -> f64 {
    let mut sum = own;
    for (step, share) in SHARES.into_iter().enumerate() {
        sum += share * (before[step] + after[step]);
    }
    sum
}

/// Another upper bound of `near(e)`, for a query of `terms` terms. It is closer where neighbours repeat the terms
/// of the entry.
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

/// The shares of `near(e)` that the entry's own terms have, and the shares of its neighbours: each in proportion to
/// its part of the square.
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
        let Some((row, _)) = parts.row(entry, best) else {
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
