//! The formula of BM25, and its scale of 0..1.
//!
//! ```text
//! idf(t)     = ln(1 + (N - df(t) + 0.5) / (df(t) + 0.5))
//! w(t)       = qtf(t) * idf(t)
//! part(t, d) = w(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * dl / avgdl))
//! S(d)       = sum of part(t, d) over the terms of the query
//! ceiling    = 0.75 * (k1 + 1) * sum of w(t) over the terms of the query
//! score(d)   = min(1, S(d) / ceiling)
//! ```
//!
//! `idf` is Lucene's, which is never negative. A term that no text has counts for the ceiling with `df = 0`, so a
//! query of mostly unknown words scores low. All values are f64, and every sum is taken in ascending order of the
//! terms' hashes, so scores are equal to the last bit on every machine whose `ln` gives the same bits.
//!
//! The `lexical` ranker weighs a query in its own way:
//!
//! ```text
//! w(t)       = qtf(t) * (k3 + 1) / (qtf(t) + k3) * idf(t), with k3 = 2
//! ceiling    = 1.2 * (k1 + 1) * sum of w(t) over the terms of the query
//! ```
//!
//! `k3` (Robertson and Walker 1994) limits the weight of a word that the query repeats; a query may be a whole
//! conversation. A term that replaces a misspelt word weighs 0.8 of that, and a term that only says that something is
//! asked weighs half. The ceiling is higher than that of plain BM25, because neighbours and days add to the sum of a
//! passage. With this ceiling one best hit in a hundred is cut at 1; a lower ceiling would make more best hits equal.

use std::sync::OnceLock;

use crate::bm25::terms::QueryTerm;
use crate::error::{Error, Result};

/// A weight or a sum for a bound: bounds have room for the digits that are lost.
#[expect(clippy::cast_possible_truncation, reason = "bounds have room for it")]
pub(super) fn narrow(value: f64) -> f32 {
    value as f32
}

/// How soon the effect of a repeated query term saturates.
const K3: f64 = 2.0;

/// The factor on the weight of a term that replaces a misspelt word.
const NEAR: f64 = 0.8;

/// The factor on the weight of a term that only says that something is asked. Values from a quarter to a half find
/// the same.
const ASKING: f64 = 0.5;

/// How a query is weighed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Weighing {
    /// Plain BM25: each repetition in the query counts in full.
    Plain,
    /// The weighing of the `lexical` ranker.
    Lexical,
}

impl Weighing {
    /// `w` of a term that the query has `count` times.
    pub(super) fn weight(self, count: u32, idf: f64) -> f64 {
        let count = f64::from(count);
        match self {
            Self::Plain => count * idf,
            Self::Lexical => count * (K3 + 1.0) / (count + K3) * idf,
        }
    }

    /// `w` of a term of a query.
    pub(super) fn weight_of(self, term: QueryTerm, idf: f64) -> f64 {
        let near = if term.is_near { NEAR } else { 1.0 };
        let factor = match self {
            Self::Lexical if term.is_asking => near * ASKING,
            _ => near,
        };
        self.weight(term.count, idf) * factor
    }

    /// The ceiling, which sums are divided by; `weights` is the sum of `w`.
    pub(super) fn ceiling(self, params: Bm25Params, weights: f64) -> f64 {
        // The sum that scores 1, as a share of the most that a passage can have by itself.
        let share = match self {
            Self::Plain => 0.75,
            Self::Lexical => 1.2,
        };
        share * (params.k1() + 1.0) * weights
    }
}

/// The statistics of all texts of an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collection {
    /// How many texts there are (`N`).
    pub(super) documents: u64,
    /// How many words they have together.
    pub(super) words: u64,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts in memory are far below 2^53"
)]
impl Collection {
    /// The inverse document frequency of a term that `df` texts have.
    pub(super) fn idf(self, df: usize) -> f64 {
        let (documents, df) = (self.documents as f64, df as f64);
        (1.0 + (documents - df + 0.5) / (df + 0.5)).ln()
    }

    /// The addend of a term of that `weight` (`w` above) with `tf` occurrences in a text of `length` words: up to
    /// `k1 + 1` times its weight. Evaluated from left to right, as it is written.
    pub(super) fn part(self, params: Bm25Params, weight: f64, tf: u32, length: u64) -> f64 {
        Self::part_by(params, weight, tf, self.norm(params, length))
    }

    /// The same, where the norm of the text's length is known.
    pub(super) fn part_by(params: Bm25Params, weight: f64, tf: u32, norm: f64) -> f64 {
        let (k1, tf) = (params.k1(), f64::from(tf));
        weight * tf * (k1 + 1.0) / (tf + norm)
    }

    /// The norm of a text of `length` words: `k1 * (1 - b + b * dl / avgdl)`.
    pub(super) fn norm(self, params: Bm25Params, length: u64) -> f64 {
        let (k1, b) = (params.k1(), params.b());
        let average = self.words as f64 / self.documents as f64;
        k1 * (1.0 - b + b * length as f64 / average)
    }
}

// The two constants of BM25 and their ranges.

/// `k1` and `b` as in Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009).
///
/// ```
/// use siltstone_core::bm25::Bm25Params;
///
/// let error = Bm25Params::new(-1.0, 0.75).unwrap_err();
/// assert_eq!(error.to_string(), "k1 must be finite and >= 0, got -1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bm25Params {
    k1: f64,
    b: f64,
}

impl Bm25Params {
    /// The parameters of days: a day is a long text, in which a repeated word counts for more.
    pub(super) const OF_DAYS: Self = Self { k1: 2.0, b: 0.75 };

    /// Parameters with these values.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) where `k1` is not finite and >= 0, or `b` is not in 0..1.
    pub fn new(k1: f64, b: f64) -> Result<Self> {
        let refuse = |name: &'static str, bound, value: f64| {
            let message = format!("{name} must be {bound}, got {value}");
            Err(Error::refused(name, value.to_string(), message))
        };
        if !(k1.is_finite() && k1 >= 0.0) {
            return refuse("k1", "finite and >= 0", k1);
        }
        if !(0.0..=1.0).contains(&b) {
            return refuse("b", "in 0..1", b);
        }
        Ok(Self { k1, b })
    }

    /// How slowly the effect of a repeated word saturates. At 0 a word counts once; the larger `k1`, the more
    /// repetitions count.
    #[must_use]
    pub fn k1(self) -> f64 {
        self.k1
    }

    /// How much long texts are discounted: 0 not at all, 1 in proportion to their length.
    #[must_use]
    pub fn b(self) -> f64 {
        self.b
    }
}

impl Default for Bm25Params {
    /// `k1` 1.2 and `b` 0.75, the values with the best mean quality over conversations and long answers.
    fn default() -> Self {
        Self { k1: 1.2, b: 0.75 }
    }
}

// The length normalization of BM25, in tables for the lengths that most passages have.
//
// ```text
// norm(dl)       = k1 * (1 - b + b * dl / avgdl)
// factor(tf, dl) = tf * (k1 + 1) / (tf + norm(dl))
// ```
//
// So an addend of a sum is `w * factor(tf, dl)`. The norms are exactly those of the formula, in f64. The factors
// are f32 and serve as upper bounds: none is smaller than that of the formula, except for the rounding of its last
// bits.

/// Lengths in the table; the last entry stands for all longer ones.
const LENGTHS: usize = 256;
/// Counts in the table; the last entry stands for all larger ones.
const COUNTS: usize = 16;

/// A length in 8 bits; the largest value stands for all longer lengths.
pub(super) type Short = u8;

/// The short form of a length.
pub(super) fn short(length: u32) -> Short {
    Short::try_from(length).unwrap_or(Short::MAX)
}

/// From this `k1` on, a factor might be too large for f32.
const LARGE: f64 = 1e6;

/// The norms and factors of one state of an index.
#[derive(Clone, Debug)]
pub(super) struct Norms {
    by_length: [f64; LENGTHS],
    /// Made by the first search that needs them.
    factors: OnceLock<Box<Factors>>,
    /// The upper bound of all factors.
    most: f64,
}

/// The factors, by count and by length.
#[derive(Clone, Debug)]
pub(super) struct Factors([[f32; LENGTHS]; COUNTS]);

impl Factors {
    /// An upper bound of the factor of a count up to 15 and a length.
    #[inline]
    pub(super) fn factor(&self, count: u16, short: Short) -> f32 {
        self.0[usize::from(count) % COUNTS][usize::from(short)]
    }
}

impl Norms {
    pub(super) fn new(params: Bm25Params, collection: Collection) -> Self {
        let k1 = params.k1();
        Self {
            by_length: std::array::from_fn(|length| collection.norm(params, length as u64)),
            factors: OnceLock::new(),
            most: k1 + 1.0,
        }
    }

    /// Upper bounds of all factors; only valid where [`has_factors`](Self::has_factors).
    pub(super) fn factors(&self) -> &Factors {
        self.factors.get_or_init(|| {
            let mut factors = [[0.0; LENGTHS]; COUNTS];
            for (tf, row) in (0_u16..).zip(&mut factors).skip(1) {
                let tf = f64::from(tf);
                for (factor, norm) in row.iter_mut().zip(&self.by_length) {
                    *factor = narrow(tf * self.most / (tf + norm));
                }
            }
            factors[COUNTS - 1] = [narrow(self.most); LENGTHS];
            Box::new(Factors(factors))
        })
    }

    /// The norm of a length. The entry of [`Short::MAX`] is right for exactly that length, not for longer ones.
    #[inline]
    pub(super) fn norm(&self, short: Short) -> f64 {
        self.by_length[usize::from(short)]
    }

    /// The upper bound of all factors.
    pub(super) fn most(&self) -> f64 {
        self.most
    }

    /// Whether there are factors: `k1` is small enough for f32.
    pub(super) fn has_factors(&self) -> bool {
        self.most < LARGE
    }
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
        near(Weighing::Plain.ceiling(params, 0.8754), 1.4444);
        near(Weighing::Lexical.ceiling(params, 0.8754), 2.3111);
    }

    #[test]
    fn what_a_query_repeats_counts_in_full_or_for_less_each_time() {
        for (count, plain, lexical) in [(1, 2.0, 2.0), (2, 4.0, 3.0), (4, 8.0, 4.0)] {
            let weight = |weighing: Weighing| weighing.weight(count, 2.0).to_bits();
            assert_eq!(weight(Weighing::Plain), f64::to_bits(plain));
            assert_eq!(weight(Weighing::Lexical), f64::to_bits(lexical));
        }
    }

    #[test]
    fn values_out_of_bounds_are_refused_by_name() {
        for (k1, b, name) in [
            (f64::NAN, 0.75, "k1"),
            (f64::INFINITY, 0.75, "k1"),
            (-0.1, 0.75, "k1"),
            (1.2, -0.1, "b"),
            (1.2, 1.1, "b"),
            (1.2, f64::NAN, "b"),
        ] {
            let error = Bm25Params::new(k1, b).unwrap_err();
            assert!(error.to_string().starts_with(name), "{k1} {b}: {error}");
        }
        assert_eq!(Bm25Params::new(1.2, 0.75).unwrap(), Bm25Params::default());
    }
}
