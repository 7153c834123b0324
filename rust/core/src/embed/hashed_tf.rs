//! Hashed term frequencies: how often each bucket is hit, scaled to unit length.
//!
//! `value(b) = count(b) / sqrt(sum of count(x)^2 over all buckets x)`, computed in f64 and rounded to
//! f32 once. A text without words is the zero vector. The order of words does not matter.

use super::counter::Counter;
use super::hash::HashRule;
use crate::tokenize::words::Scanner;
use crate::vector::{BUCKETS, SparseRow};

/// The dimension of the embedding.
pub const DIMENSION: usize = BUCKETS;

/// The counts of one text, as an exact row.
#[must_use]
pub fn counts(text: &str, rule: HashRule) -> SparseRow {
    HashedTf::new(rule).counts(text)
}

/// Embeds texts one after another, and keeps its buffers between them.
///
/// ```
/// use siltstone_core::embed::hash::HashRule;
/// use siltstone_core::embed::hashed_tf::HashedTf;
///
/// let mut embedder = HashedTf::new(HashRule::Xxh3);
/// let mut values: Vec<f32> = embedder.embed("one fish, two fish").map(|(_, value)| value).collect();
/// values.sort_by(f32::total_cmp);
/// let length = 6.0_f64.sqrt(); // one, two, fish twice: 1 + 1 + 4
/// assert_eq!(values, [1.0, 1.0, 2.0].map(|count| (count / length) as f32));
/// ```
#[derive(Clone, Debug)]
pub struct HashedTf {
    rule: HashRule,
    scanner: Scanner,
    counter: Counter,
    /// The counts of the text at hand, kept here for its capacity.
    row: Vec<(u16, u32)>,
}

impl HashedTf {
    /// An embedder by `rule`.
    #[must_use]
    pub fn new(rule: HashRule) -> Self {
        Self {
            rule,
            scanner: Scanner::default(),
            counter: Counter::default(),
            row: Vec::new(),
        }
    }

    /// The buckets that `text` hits and their values, in ascending order of bucket.
    pub fn embed(&mut self, text: &str) -> impl ExactSizeIterator<Item = (u16, f32)> + Clone {
        self.count(text);
        let squares: u64 = self
            .row
            .iter()
            .map(|&(_, count)| u64::from(count).pow(2))
            .sum();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a sum above 2^53 takes 2^26 words or more"
        )]
        let length = (squares as f64).sqrt();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the embedding is defined in f32"
        )]
        let value = move |count: u32| (f64::from(count) / length) as f32;
        // Nearly all counts are small, and a look-up is cheaper than a division.
        let small = [0, 1, 2, 3, 4, 5, 6, 7].map(value);
        self.row.iter().map(move |&(bucket, count)| {
            let known = small.get(count as usize).copied();
            (bucket, known.unwrap_or_else(|| value(count)))
        })
    }

    /// The counts of `text`, as an exact row.
    pub fn counts(&mut self, text: &str) -> SparseRow {
        self.count(text);
        self.row.iter().copied().collect()
    }

    fn count(&mut self, text: &str) {
        let Self {
            rule,
            scanner,
            counter,
            row,
        } = self;
        rule.for_each_bucket(text, scanner, |bucket| counter.add(bucket));
        counter.drain_into(row);
    }
}
