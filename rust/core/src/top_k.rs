//! The best few of many, in one pass and bounded space.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Room for so many is taken at once.
const FEW: usize = 64;

/// Keeps the `limit` greatest of the items offered.
///
/// What is greater is the item's own order. It must be total, ties included: then what is kept, and in
/// which order, does not depend on the order of offering.
///
/// ```
/// use std::cmp::Reverse;
/// use siltstone_core::TopK;
///
/// let mut best = TopK::new(2);
/// for (score, id) in [(5, 3), (9, 7), (5, 1)] {
///     best.offer((score, Reverse(id))); // of equal scores, the smaller id is greater
/// }
/// assert_eq!(best.into_best_first(), [(9, Reverse(7)), (5, Reverse(1))]);
/// ```
#[derive(Debug)]
pub struct TopK<T> {
    limit: usize,
    /// The worst item that is kept lies on top.
    kept: BinaryHeap<Reverse<T>>,
}

impl<T: Ord> TopK<T> {
    /// Keeps at most `limit` items; none for 0.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: BinaryHeap::with_capacity(limit.min(FEW)),
        }
    }

    /// Keeps `item` if it is among the greatest so far.
    pub fn offer(&mut self, item: T) {
        if self.kept.len() < self.limit {
            self.kept.push(Reverse(item));
        } else if let Some(mut worst) = self.kept.peek_mut()
            && item > worst.0
        {
            *worst = Reverse(item);
        }
    }

    /// The least of the items kept, once there are `limit` of them: what is not greater is not kept.
    #[must_use]
    pub fn least(&self) -> Option<&T> {
        let is_full = self.kept.len() == self.limit;
        let least = self.kept.peek().filter(|_| is_full);
        least.map(|Reverse(item)| item)
    }

    /// What was kept, the greatest first.
    #[must_use]
    pub fn into_best_first(self) -> Vec<T> {
        let reversed = self.kept.into_sorted_vec();
        reversed.into_iter().map(|Reverse(item)| item).collect()
    }
}
