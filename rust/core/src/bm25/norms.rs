//! The length normalization of BM25, in tables for the lengths that most passages have.
//!
//! ```text
//! norm(dl)       = k1 * (1 - b + b * dl / avgdl)
//! factor(tf, dl) = tf * (k1 + 1) / (tf + norm(dl))
//! ```
//!
//! So an addend of a sum is `w * factor(tf, dl)`. The norms are exactly those of the formula, in f64. The factors
//! are f32 and serve as upper bounds: none is smaller than that of the formula, except for the rounding of its last
//! bits.

use crate::bm25::params::Bm25Params;
use crate::bm25::score::{Collection, narrow};

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
    factors: [[f32; LENGTHS]; COUNTS],
    /// The upper bound of all factors.
    most: f64,
    has_factors: bool,
}

impl Norms {
    pub(super) fn new(params: Bm25Params, collection: Collection) -> Self {
        let k1 = params.k1();
        let norms = std::array::from_fn(|length| collection.norm(params, length as u64));
        let most = k1 + 1.0;
        let has_factors = k1 < LARGE;
        let mut factors = [[0.0; LENGTHS]; COUNTS];
        if has_factors {
            for (tf, row) in (0_u16..).zip(&mut factors).skip(1) {
                let tf = f64::from(tf);
                for (factor, norm) in row.iter_mut().zip(&norms) {
                    *factor = narrow(tf * most / (tf + norm));
                }
            }
            factors[COUNTS - 1] = [narrow(most); LENGTHS];
        }
        Self {
            by_length: norms,
            factors,
            most,
            has_factors,
        }
    }

    /// The norm of a length. The entry of [`Short::MAX`] is right for exactly that length, not for longer ones.
    #[inline]
    pub(super) fn norm(&self, short: Short) -> f64 {
        self.by_length[usize::from(short)]
    }

    /// An upper bound of the factor of a count up to 15 and a length. Only valid where
    /// [`has_factors`](Self::has_factors).
    #[inline]
    pub(super) fn factor(&self, count: u16, short: Short) -> f32 {
        self.factors[usize::from(count) % COUNTS][usize::from(short)]
    }

    /// The upper bound of all factors.
    pub(super) fn most(&self) -> f64 {
        self.most
    }

    /// Whether the factors were computed: `k1` is small enough for f32.
    pub(super) fn has_factors(&self) -> bool {
        self.has_factors
    }
}
