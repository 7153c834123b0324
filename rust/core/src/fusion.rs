//! Fuses two scores of an entry into one, and lowers scores by age.

use crate::error::{Error, Result};

/// The number of milliseconds in a day.
const DAY: f64 = 86_400_000.0;

/// The decay of a score with age.
///
/// ```text
/// factor = max(floor, per_day ^ days)
/// ```
///
/// `days` may be fractional. It is 0 for a time in the future.
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
    /// The decay of the documented hybrid: 0.995 a day, without a floor. After half a year, 40 % are left.
    pub(crate) const DOCUMENTED: Self = Self {
        per_day: 0.995,
        floor: 0.0,
    };

    /// A decay by the factor that a day leaves, and by the least factor of all, both 0 to 1.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) where one of them is not in 0..1.
    pub fn new(per_day: f64, floor: f64) -> Result<Self> {
        for (field, value) in [("per_day", per_day), ("floor", floor)] {
            if !(0.0..=1.0).contains(&value) {
                let message = format!("{field} of a decay must be in 0..1, got {value}");
                return Err(Error::refused(field, value.to_string(), message));
            }
        }
        Ok(Self { per_day, floor })
    }

    /// The factor for the score of an entry. Both times are milliseconds since 1970.
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

/// The documented hybrid of a cosine and of the entry's share of the best BM25 score of the query:
/// `0.7 * max(0, cosine) + 0.3 * share`.
#[must_use]
pub(crate) fn hybrid(cosine: f64, share: f64) -> f64 {
    (0.7 * cosine.max(0.0) + 0.3 * share).min(1.0)
}

/// The constant that is added to ranks, from Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms
/// Condorcet and individual Rank Learning Methods" (2009).
const RRF_K: f64 = 60.0;

/// The sum of `1 / (60 + rank)` over both sides, with ranks from 1, divided by its highest value.
#[must_use]
pub(crate) fn reciprocal(ranks: [Option<u32>; 2]) -> f64 {
    let of = |rank: Option<u32>| rank.map_or(0.0, |rank| 1.0 / (RRF_K + f64::from(rank)));
    (of(ranks[0]) + of(ranks[1])) / (2.0 / (RRF_K + 1.0))
}

/// The distribution of the scores of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Their mean.
    pub(crate) mean: f64,
    /// Their population standard deviation.
    deviation: f64,
}

impl Spread {
    /// The mean and deviation of these scores, which are added in their order; zeros for no scores.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts in memory are far below 2^53"
    )]
    pub fn of(scores: impl Iterator<Item = f64> + Clone) -> Self {
        let (sum, count) = scores.clone().fold((0.0, 0_usize), |(sum, count), score| {
            (sum + score, count + 1)
        });
        if count == 0 {
            return Self::default();
        }
        let mean = sum / count as f64;
        let squares = scores.fold(0.0, |sum, score| sum + (score - mean) * (score - mean));
        Self {
            mean,
            deviation: (squares / count as f64).sqrt(),
        }
    }

    /// The number of deviations by which `score` is above the mean; 0 where all scores are equal.
    #[must_use]
    pub fn z(self, score: f64) -> f64 {
        if self.deviation > 0.0 {
            (score - self.mean) / self.deviation
        } else {
            0.0
        }
    }
}

/// The weights of two sides, terms first. They add up to 1, and the weighted sum has the order of the z-scores' sum in
/// which vectors have that `share`.
///
/// ```text
/// (1 - v) z1 + v z2 = (1 - v) (x1 - m1) / d1 + v (x2 - m2) / d2
/// w1                = (1 - v) d2 / ((1 - v) d2 + v d1),  w2 = 1 - w1
/// ```
///
/// So if both scores are in 0..1, the weighted sum is too, and it can be compared between queries, unlike a z-score.
/// A side whose scores are all equal has no weight. If both sides are like that, each has weight 0.5.
#[must_use]
pub fn weights(sides: [Spread; 2], share: f64) -> [f64; 2] {
    let [one, other] = sides.map(|side| side.deviation);
    if one > 0.0 && other > 0.0 {
        let (terms, vectors) = ((1.0 - share) * other, share * one);
        [terms / (terms + vectors), vectors / (terms + vectors)]
    } else if one > 0.0 {
        [1.0, 0.0]
    } else if other > 0.0 {
        [0.0, 1.0]
    } else {
        [0.5, 0.5]
    }
}

/// Where words find nothing and where they find enough: the best score by terms, of a query of [`SHORT`] words.
const FOUND: [f64; 2] = [0.15, 0.3];
/// A longer query has a lower ceiling: its best score counts as much more as it has more words.
const SHORT: f64 = 6.0;
/// Where the nearest vector is one of many alike, and where it is alone: its z-score, against the highest that is
/// expected of so many random numbers.
const ALONE: [f64; 2] = [0.8, 1.1];
/// The share of vectors where words find enough, and where they find nothing.
const SHARE: [f64; 2] = [0.5, 0.9];

/// How a query is decided between terms and vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decided {
    /// The share of vectors, 0..1.
    pub(crate) share: f64,
    /// How far words find nothing, 0..1. Then the vectors of neighbours do not count, either.
    pub(crate) lost: f64,
}

impl Decided {
    /// By the best score by terms, the number of words of the query, and the z-score of the nearest of `count` vectors.
    ///
    /// Vectors of an embedder that does not know the language are all alike, so they do not decide.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts in memory are far below 2^53"
    )]
    pub(crate) fn of(best: f64, words: usize, nearest: f64, count: usize) -> Self {
        let lost = 1.0 - ramp(best * (words as f64 / SHORT).max(1.0), FOUND);
        let expected = (2.0 * (count.max(2) as f64).ln()).sqrt();
        let share = SHARE[0] + (SHARE[1] - SHARE[0]) * lost;
        Self {
            share: share * ramp(nearest / expected, ALONE),
            lost,
        }
    }
}

/// 0 up to the first bound, 1 from the second on, and in between what lies between.
fn ramp(value: f64, [low, high]: [f64; 2]) -> f64 {
    ((value - low) / (high - low)).clamp(0.0, 1.0)
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
            assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
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

    #[test]
    fn the_spread_worked_by_hand() {
        let spread = Spread::of([1.0, 2.0, 3.0, 6.0].into_iter());
        // squares of -2, -1, 0, 3: 14 / 4
        assert!((spread.mean - 3.0).abs() < 1e-12);
        assert!((spread.deviation - 3.5_f64.sqrt()).abs() < 1e-12);
        assert!((spread.z(6.0) - 3.0 / 3.5_f64.sqrt()).abs() < 1e-12);
        assert!(Spread::of([2.0, 2.0].into_iter()).z(2.0).abs() < f64::MIN_POSITIVE);
    }

    #[test]
    fn weights_order_as_z_scores_do() {
        let sides = [[0.9, 0.1, 0.2, 0.1], [0.5, 0.6, 0.4, 0.55]];
        let spreads = sides.map(|side| Spread::of(side.into_iter()));
        for share in [0.1, 0.5, 0.9] {
            let weights = weights(spreads, share);
            assert!((weights[0] + weights[1] - 1.0).abs() < 1e-12);
            let sum = |at: usize| weights[0] * sides[0][at] + weights[1] * sides[1][at];
            let z = |at: usize| {
                (1.0 - share) * spreads[0].z(sides[0][at]) + share * spreads[1].z(sides[1][at])
            };
            for (one, other) in [(0, 1), (1, 2), (2, 3), (0, 3), (1, 3)] {
                assert_eq!(sum(one) < sum(other), z(one) < z(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn vectors_decide_as_words_find_less_and_only_if_one_is_near() {
        for (best, words, nearest, count, share, lost) in [
            (0.5, 5, 4.0, 100, 0.5, 0.0),   // words find it
            (0.1, 5, 4.0, 100, 0.9, 1.0),   // they find nothing
            (0.225, 5, 4.0, 100, 0.7, 0.5), // half way
            (0.1, 18, 4.0, 100, 0.5, 0.0),  // a long query: three times 0.1
            (0.1, 5, 2.0, 100, 0.0, 1.0),   // all vectors are alike
            (0.1, 5, 1.0, 2, 0.148, 1.0),   // 1 / sqrt(2 ln 2) = 0.849: a sixth of the way
        ] {
            let found = Decided::of(best, words, nearest, count);
            assert!((found.share - share).abs() < 1e-3, "{found:?}, not {share}");
            assert!((found.lost - lost).abs() < 1e-9, "{found:?}, not {lost}");
        }
    }

    #[test]
    fn the_first_of_both_has_all_that_reciprocal_ranks_give() {
        assert!((reciprocal([Some(1), Some(1)]) - 1.0).abs() < 1e-12);
        assert!((reciprocal([Some(1), None]) - 0.5).abs() < 1e-12);
        // (1 / 61 + 1 / 62) / (2 / 61) = (1 + 61 / 62) / 2 = 123 / 124
        assert!((reciprocal([Some(1), Some(2)]) - 123.0 / 124.0).abs() < 1e-12);
    }
}
