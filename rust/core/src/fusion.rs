//! How do two scores of an entry make one, and what does age take of it?

use crate::error::{Error, ErrorKind, Result};

/// Milliseconds of a day.
const DAY: f64 = 86_400_000.0;

/// How much of a score is left after a while.
///
/// ```text
/// factor = max(floor, per_day ^ days)
/// ```
///
/// `days` are fractional, and 0 for what is dated in the future.
///
/// ```
/// use siltstone_core::fusion::Decay;
///
/// let decay = Decay::new(0.5, 0.2)?;
/// assert!((decay.factor(0, 86_400_000) - 0.5).abs() < 1e-12); // a day
/// assert!((decay.factor(0, 9 * 86_400_000) - 0.2).abs() < 1e-12);
/// assert!((decay.factor(9, 0) - 1.0).abs() < 1e-12);
/// # Ok::<(), siltstone_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decay {
    per_day: f64,
    floor: f64,
}

impl Decay {
    /// That of the documented hybrid: 0.995 a day, without a floor. Half a year takes 60 %.
    pub const DOCUMENTED: Self = Self {
        per_day: 0.995,
        floor: 0.0,
    };

    /// What a day leaves, and what is left at least, both 0 to 1.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] where one of them is not in 0..1.
    pub fn new(per_day: f64, floor: f64) -> Result<Self> {
        for (field, value) in [("per_day", per_day), ("floor", floor)] {
            if !(0.0..=1.0).contains(&value) {
                let message = format!("{field} of a decay must be in 0..1, got {value}");
                return Err(Error::new(ErrorKind::InvalidArgument, message)
                    .with("field", field)
                    .with("value", value.to_string()));
            }
        }
        Ok(Self { per_day, floor })
    }

    /// What is left of the score of an entry, both times in milliseconds since 1970.
    #[expect(
        clippy::cast_precision_loss,
        reason = "2^53 milliseconds are 285,000 years"
    )]
    #[must_use]
    pub fn factor(self, created_at: i64, now: i64) -> f64 {
        let days = now.saturating_sub(created_at).max(0) as f64 / DAY;
        self.per_day.powf(days).max(self.floor)
    }
}

/// The documented hybrid of a cosine and of the share of the query's best BM25 that an entry has:
/// `0.7 * max(0, cosine) + 0.3 * share`.
#[must_use]
pub fn hybrid(cosine: f64, share: f64) -> f64 {
    (0.7 * cosine.max(0.0) + 0.3 * share).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decay_out_of_its_bounds_is_refused_by_name() {
        for (per_day, floor, message) in [
            (1.5, 0.0, "per_day of a decay must be in 0..1, got 1.5"),
            (f64::NAN, 0.0, "per_day of a decay must be in 0..1, got NaN"),
            (0.9, -0.5, "floor of a decay must be in 0..1, got -0.5"),
        ] {
            let error = Decay::new(per_day, floor).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn the_hybrid_worked_by_hand() {
        // 0.7 * 0.5 + 0.3 * 1; a cosine below 0 adds nothing
        assert!((hybrid(0.5, 1.0) - 0.65).abs() < 1e-12);
        assert!((hybrid(-0.5, 0.5) - 0.15).abs() < 1e-12);
        assert!(hybrid(1.0, 1.0) <= 1.0);
    }

    #[test]
    fn decay_of_the_longest_time_is_finite() {
        for (created_at, now) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN)] {
            assert!((0.0..=1.0).contains(&Decay::DOCUMENTED.factor(created_at, now)));
        }
    }
}
