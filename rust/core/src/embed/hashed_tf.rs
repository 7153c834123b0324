//! Hashed term frequencies: how often each bucket is hit, scaled to unit length.
//!
//! `value(b) = count(b) / sqrt(sum of count(x)^2 over all buckets x)`, computed in f64 and rounded to
//! f32 once. A text without words is the zero vector. The order of words does not matter.

use std::cell::Cell;

use super::counter::Counter;
use super::hash::{HashRule, reduce};
use crate::tokenize::words::Scanner;
use crate::vector::{BUCKETS, SparseRow};

/// The dimension of the embedding.
pub const DIMENSION: usize = BUCKETS;

thread_local! {
    /// The embedder of the thread. It has 30 KB, and clearing these takes longer than counting a short text.
    static KEPT: Cell<Option<Box<HashedTf>>> = const { Cell::new(None) };
}

/// The most bytes of buffers that the embedder of a thread may keep.
const ROOM: usize = 256 * 1024;

/// The counts of one text, as an exact row.
#[must_use]
pub fn counts(text: &str, rule: HashRule) -> SparseRow {
    with_embedder(rule, |embedder| embedder.counts(text))
}

/// Calls `read` with the counts of one text: each bucket that it hits, in no order, and its count.
pub fn with_counts<T>(text: &str, rule: HashRule, read: impl FnOnce(&[(u16, u32)]) -> T) -> T {
    with_embedder(rule, |embedder| read(embedder.pairs(text)))
}

/// Calls `work` with the embedder of this thread, set to `rule`.
pub(crate) fn with_embedder<T>(rule: HashRule, work: impl FnOnce(&mut HashedTf) -> T) -> T {
    // The embedder is taken out of the cell: a panic does not leave a half-filled one behind, and `work` may embed
    // other texts itself.
    let kept = KEPT.with(Cell::take);
    let mut embedder = kept.unwrap_or_else(|| Box::new(HashedTf::new(rule)));
    embedder.rule = rule;
    let made = work(&mut embedder);
    if embedder.scanner.room() <= ROOM {
        KEPT.with(|cell| cell.set(Some(embedder)));
    }
    made
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
    /// A buffer for the counts of the current text.
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

    /// The buckets that `text` hits, in no order, with their counts.
    pub fn pairs(&mut self, text: &str) -> &[(u16, u32)] {
        self.hit(text);
        self.counter.drain_unordered_into(&mut self.row);
        &self.row
    }

    /// The counts of `text`, as an exact row.
    pub fn counts(&mut self, text: &str) -> SparseRow {
        self.count(text);
        self.row.iter().copied().collect()
    }

    fn count(&mut self, text: &str) {
        self.hit(text);
        self.counter.drain_into(&mut self.row);
    }

    fn hit(&mut self, text: &str) {
        let counter = &mut self.counter;
        self.rule
            .for_each_hashes(text, &mut self.scanner, |hashes| {
                counter.add_all(hashes.iter().map(|&hash| reduce(hash)));
            });
    }
}
