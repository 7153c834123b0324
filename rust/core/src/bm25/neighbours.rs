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
//! neighbours' sums, which is quick to compute.

use crate::bm25::neighbour_links::{Chain, REACH};
use crate::bm25::scorer::{Part, Scorer};

/// The share that a neighbour adds for a term that the entry lacks, the nearest first.
pub(super) const SHARES: [f64; REACH] = [0.41, 0.4, 0.3, 0.2];

/// Their squares, written out so that every language has the same bits.
pub(super) const SQUARES: [f64; REACH] = [0.1681, 0.16, 0.09, 0.04];

/// A passage of up to so many terms lends its whole share.
const LENDS: f64 = 100.0;

/// The most that all neighbours of an entry add together, as a multiple of the best neighbour's sum.
pub(super) const LIFT: f64 = 2.0 * (0.41 + 0.4 + 0.3 + 0.2);

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

/// The factor on the squared part that a passage of `length` terms lends.
pub(super) fn lending(length: u32) -> f64 {
    let length = f64::from(length);
    if length <= LENDS { 1.0 } else { LENDS / length }
}

/// `near(t, e)^2` of an entry for each term of the query, with neighbours on both `sides`. `best` names the best passage
/// of an entry; None where it has no term of the query.
pub(super) fn squares(
    scorer: &Scorer<'_>,
    entry: u32,
    sides: [[Option<u32>; REACH]; 2],
    best: impl Fn(u32) -> Option<u32>,
) -> Vec<f64> {
    let mut squares = vec![0.0; scorer.len()];
    let add = |id: Option<u32>, to: &mut [f64], lends: fn(u32) -> f64| {
        let Some(passage) = id.and_then(&best) else {
            return;
        };
        let lends = lends(scorer.length(passage));
        scorer.for_each_addend(passage, |term, _, part| to[term] += lends * (part * part));
    };
    add(Some(entry), &mut squares, |_| 1.0);
    let mut beside = vec![0.0; scorer.len()];
    for (step, share) in SQUARES.into_iter().enumerate() {
        beside.fill(0.0);
        add(sides[0][step], &mut beside, lending);
        add(sides[1][step], &mut beside, lending);
        for (square, beside) in squares.iter_mut().zip(&beside) {
            *square += share * beside;
        }
    }
    squares
}

/// The shares of `near(e)` that the entry's own terms have, and the shares of its neighbours: each in proportion to
/// its part of the square.
pub(super) fn shares(
    scorer: &Scorer<'_>,
    chain: &Chain,
    entry: u32,
    best: impl Fn(u32) -> Option<u32> + Copy,
) -> (Vec<f64>, Vec<Neighbor>) {
    let sides = chain.neighbors(entry);
    let squares = squares(scorer, entry, sides, best);
    let of = |entry: u32, share: f64| -> Vec<f64> {
        let mut row = vec![0.0; scorer.len()];
        if let Some(passage) = best(entry) {
            scorer.for_each_addend(passage, |term, _, part| {
                row[term] = share * part * part / squares[term].sqrt();
            });
        }
        row
    };
    let mut neighbors = Vec::new();
    let lent = |id: u32| best(id).map_or(1.0, |passage| lending(scorer.length(passage)));
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
