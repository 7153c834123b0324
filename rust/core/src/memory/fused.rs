//! The `fused` ranker: terms and vectors in one score.
//!
//! ```text
//! l(e)     = the score by `lexical`, with neighbours and the day
//! c(e)     = the cosine of the nearest passage; the mean of all c where the entry has no vector yet
//! mix(e)   = w_l * l(e) + w_c * c(e), with the weights of z-scores (`fusion::weights`)
//! beside(e)= w_c * (0.3 * (d(e-1) + d(e+1)) + 0.15 * (d(e-2) + d(e+2))), with d(e) = c(e) - mean of c
//! score(e) = mix(e) + beside(e), cut to 0..1
//! ```
//!
//! The order of `mix` is the order by the sum of z-scores over the session's entries, but on a scale that can be
//! compared between queries. Cosines of neighbours are added like `lexical` adds its neighbours. Entries with score 0
//! are not found.

use crate::bm25::Query;
use crate::fusion::{Spread, weights};
use crate::index::{DenseIndex, Near};
use crate::memory::scope::Scope;

/// The shares of the cosines of the nearest and of the second nearest neighbour, on either side.
const SHARES: [f64; 2] = [0.3, 0.15];

/// Both scores of every entry of a session, for one query.
pub(super) struct Sides {
    /// The score of each entry by `lexical`.
    pub(super) lexical: Vec<f64>,
    /// The nearest vector of each entry; None for an entry without a vector.
    pub(super) near: Vec<Option<Near>>,
    pub(super) spreads: [Spread; 2],
    pub(super) weights: [f64; 2],
    pub(super) mix: Vec<f64>,
}

impl Sides {
    pub(super) fn of(scope: &Scope, query: &Query, index: &dyn DenseIndex, vector: &[f32]) -> Self {
        let mut lexical = vec![0.0; scope.entries.len()];
        scope
            .lexical
            .for_each_match(query, |found| lexical[found.id as usize] = found.score);
        let near = nearest(scope, index, vector);
        let cosines = near.iter().flatten().map(|near| near.cosine);
        let spreads = [Spread::of(lexical.iter().copied()), Spread::of(cosines)];
        let weights = weights(spreads);
        let mix: Vec<f64> = lexical
            .iter()
            .zip(&near)
            .map(|(lexical, near)| {
                let cosine = near.map_or(spreads[1].mean, |near| near.cosine);
                weights[0] * lexical + weights[1] * cosine
            })
            .collect();
        Self {
            lexical,
            near,
            spreads,
            weights,
            mix,
        }
    }

    /// The score of an entry, not yet cut to 0..1.
    pub(super) fn score(&self, scope: &Scope, point: u32) -> f64 {
        let [before, after] = scope.lexical.neighbors(point);
        let beside =
            |step: usize| SHARES[step] * (self.lift(before[step]) + self.lift(after[step]));
        self.mix[point as usize] + beside(0) + beside(1)
    }

    /// The neighbours of an entry: point, distance, and the score that it adds or subtracts. Neighbours before the
    /// entry come first.
    pub(super) fn beside(&self, scope: &Scope, point: u32) -> Vec<(u32, i64, f64)> {
        let mut found = Vec::new();
        for (side, sign) in scope.lexical.neighbors(point).into_iter().zip([-1, 1]) {
            for (neighbor, (share, distance)) in side.into_iter().zip(SHARES.into_iter().zip(1..)) {
                if let Some(id) = neighbor {
                    found.push((id, sign * distance, share * self.lift(neighbor)));
                }
            }
        }
        found
    }

    /// The distance of a neighbour's cosine from the mean, times the weight of cosines; 0 without a neighbour.
    fn lift(&self, neighbor: Option<u32>) -> f64 {
        let near = neighbor.and_then(|point| self.near[point as usize]);
        near.map_or(0.0, |near| {
            self.weights[1] * (near.cosine - self.spreads[1].mean)
        })
    }
}

/// The nearest vector of each entry of the scope, in the order of the entries.
pub(super) fn nearest(scope: &Scope, index: &dyn DenseIndex, vector: &[f32]) -> Vec<Option<Near>> {
    let mut near = vec![None; scope.entries.len()];
    index.for_each_near(vector, &mut |found| near[found.id as usize] = Some(found));
    near
}
