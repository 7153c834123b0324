//! The two constants of BM25 and their ranges.

use crate::error::{Error, ErrorKind, Result};

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
    /// [`ErrorKind::InvalidArgument`] where `k1` is not finite and >= 0, or `b` is not in 0..1.
    pub fn new(k1: f64, b: f64) -> Result<Self> {
        let refuse = |name: &'static str, bound, value: f64| {
            let message = format!("{name} must be {bound}, got {value}");
            let error = Error::new(ErrorKind::InvalidArgument, message);
            Err(error.with("field", name).with("value", value.to_string()))
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

#[cfg(test)]
mod tests {
    use super::*;

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
