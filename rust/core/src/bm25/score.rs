//! The formula of BM25, and its scale of 0..1.
//!
//! ```text
//! idf(t)     = ln(1 + (N - df(t) + 0.5) / (df(t) + 0.5))
//! part(t, d) = qtf(t) * idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * dl / avgdl))
//! S(d)       = sum of part(t, d) over the terms of the query
//! ceiling    = 0.75 * (k1 + 1) * sum of qtf(t) * idf(t) over the terms of the query
//! score(d)   = min(1, S(d) / ceiling)
//! ```
//!
//! `idf` is Lucene's, which is never negative. A term that no text has counts for the ceiling with
//! `df = 0`: a query that is mostly unknown scores low. All of it is f64, and every sum is taken in
//! ascending order of the terms' hashes, so that scores are equal to the last bit wherever `ln` is.

use crate::bm25::params::Bm25Params;

/// The part of the largest possible sum that already counts as 1.
const CEILING: f64 = 0.75;

/// What the texts of an index have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collection {
    /// How many texts there are (`N`).
    pub(super) documents: u64,
    /// How many words they have together.
    pub(super) words: u64,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of what fits in memory are far below 2^53"
)]
impl Collection {
    /// How telling a term is that `df` texts have.
    pub(super) fn idf(self, df: usize) -> f64 {
        let (documents, df) = (self.documents as f64, df as f64);
        (1.0 + (documents - df + 0.5) / (df + 0.5)).ln()
    }

    /// What a term of that `weight` (`qtf * idf`) adds for `tf` occurrences in a text of `length` words:
    /// up to `k1 + 1` times its weight. Evaluated from left to right, as it is written.
    pub(super) fn part(self, params: Bm25Params, weight: f64, tf: u32, length: u64) -> f64 {
        let (k1, b, tf) = (params.k1(), params.b(), f64::from(tf));
        let average = self.words as f64 / self.documents as f64;
        weight * tf * (k1 + 1.0) / (tf + k1 * (1.0 - b + b * length as f64 / average))
    }
}

/// What a sum is divided by; `weights` is the sum of `qtf * idf`.
pub(super) fn ceiling(params: Bm25Params, weights: f64) -> f64 {
    CEILING * (params.k1() + 1.0) * weights
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two texts, "a b" and "a a c"; the query is "a c".
    /// N = 2, avgdl = 2.5; idf(a) = ln(1 + 0.5 / 2.5) = 0.1823, idf(c) = ln(1 + 1.5 / 1.5) = 0.6931.
    /// For "a a c": a has tf 2, c has tf 1, and 1 - b + b * 3 / 2.5 = 1.15:
    ///   a: 2 * 2.2 / (2 + 1.2 * 1.15) = 1.3018, c: 1 * 2.2 / (1 + 1.38) = 0.9244
    #[test]
    fn the_formula_worked_by_hand() {
        let (collection, params) = (
            Collection {
                documents: 2,
                words: 5,
            },
            Bm25Params::default(),
        );
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-4, "{value}");
        near(collection.idf(2), 0.1823);
        near(collection.idf(1), std::f64::consts::LN_2);
        near(collection.part(params, 1.0, 2, 3), 1.3018);
        near(collection.part(params, 1.0, 1, 3), 0.9244);
        near(ceiling(params, 0.8754), 1.4444);
    }
}
