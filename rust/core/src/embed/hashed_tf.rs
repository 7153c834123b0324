//! Hashed term frequencies: how often each bucket is hit, scaled to unit length.
//!
//! `value(b) = count(b) / sqrt(sum of count(x)^2 over all buckets x)`, computed in f64 and rounded to
//! f32 once. A text without words is the zero vector. The order of words does not matter.

use super::hash::HashRule;
use crate::vector::{BUCKETS, SparseRow};

/// The dimension of the embedding.
pub const DIMENSION: usize = BUCKETS;

/// The buckets that a text hits, in ascending order, with their counts.
#[must_use]
pub fn bucket_counts(text: &str, rule: HashRule) -> Vec<(u16, u32)> {
    let mut hits = Vec::new();
    rule.for_each_bucket(text, |bucket| hits.push(bucket));
    hits.sort_unstable();
    let mut counts: Vec<(u16, u32)> = Vec::with_capacity(hits.len());
    for bucket in hits {
        match counts.last_mut() {
            Some((last, count)) if *last == bucket => *count += 1,
            _ => counts.push((bucket, 1)),
        }
    }
    counts
}

/// The counts of one text, as an exact row.
#[must_use]
pub fn counts(text: &str, rule: HashRule) -> SparseRow {
    bucket_counts(text, rule).into_iter().collect()
}

/// The buckets that a text hits, in ascending order, with their values.
///
/// ```
/// use siltstone_core::embed::hash::HashRule;
/// use siltstone_core::embed::hashed_tf::embed;
///
/// let row = embed("one fish, two fish", HashRule::Xxh3);
/// let mut values: Vec<f32> = row.map(|(_, value)| value).collect();
/// values.sort_by(f32::total_cmp);
/// let length = 6.0_f64.sqrt(); // one, two, fish twice: 1 + 1 + 4
/// assert_eq!(values, [1.0, 1.0, 2.0].map(|count| (count / length) as f32));
/// ```
#[must_use]
pub fn embed(text: &str, rule: HashRule) -> impl ExactSizeIterator<Item = (u16, f32)> {
    let counts = bucket_counts(text, rule);
    let squares: u64 = counts
        .iter()
        .map(|&(_, count)| u64::from(count).pow(2))
        .sum();
    #[expect(
        clippy::cast_precision_loss,
        reason = "a sum above 2^53 takes 2^26 words or more"
    )]
    let length = (squares as f64).sqrt();
    counts.into_iter().map(move |(bucket, count)| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the embedding is defined in f32"
        )]
        let value = (f64::from(count) / length) as f32;
        (bucket, value)
    })
}
