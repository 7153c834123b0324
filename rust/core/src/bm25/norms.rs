//! The part of a score that the length of a passage takes off, looked up for the lengths that most passages have.
//!
//! ```text
//! norm(dl)       = k1 * (1 - b + b * dl / avgdl)
//! factor(tf, dl) = tf * (k1 + 1) / (tf + norm(dl))
//! ```
//!
//! So a part of a sum is `w * factor(tf, dl)`. The norms are the very numbers of the formula. The factors are
//! f32 and for bounds: none is smaller than the formula's, but for the rounding of its last bits.

use crate::bm25::params::Bm25Params;
use crate::bm25::score::Collection;

/// Lengths that are looked up, all from the last on as one.
const LENGTHS: usize = 256;
/// Counts that are looked up, the last one for all that are larger.
const COUNTS: usize = 16;

/// A length that stands for itself; the largest for all that are longer.
pub(super) type Short = u8;

/// The short form of a length.
pub(super) fn short(length: u32) -> Short {
    Short::try_from(length).unwrap_or(Short::MAX)
}

/// `k1` from which on a factor might leave the numbers of f32.
const LARGE: f64 = 1e6;

/// Norms and factors of an index as it is.
#[derive(Clone, Debug)]
pub(super) struct Norms {
    by_length: [f64; LENGTHS],
    factors: [[f32; LENGTHS]; COUNTS],
    /// No factor is larger.
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

    /// The norm of a length. That of [`Short::MAX`] is of that length alone.
    #[inline]
    pub(super) fn norm(&self, short: Short) -> f64 {
        self.by_length[usize::from(short)]
    }

    /// At least the factor of a count up to 15 and a length, where there are factors.
    #[inline]
    pub(super) fn factor(&self, count: u16, short: Short) -> f32 {
        self.factors[usize::from(count) % COUNTS][usize::from(short)]
    }

    /// No factor is larger.
    pub(super) fn most(&self) -> f64 {
        self.most
    }

    /// Whether factors are numbers that can be added.
    pub(super) fn has_factors(&self) -> bool {
        self.has_factors
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bounds have room for it")]
fn narrow(factor: f64) -> f32 {
    factor as f32
}
