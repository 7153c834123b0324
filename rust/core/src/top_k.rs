//! The greatest few of many items, in one pass and bounded space.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Keeps the `limit` greatest of the items that are offered.
///
/// The order of items must be total, ties included. Then the result does not depend on the order in which items are
/// offered.
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
    kept: BinaryHeap<Reverse<T>>,
}

impl<T: Ord> TopK<T> {
    /// Keeps at most `limit` items; with 0 it keeps none.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: BinaryHeap::new(),
        }
    }

    /// Keeps `item` if it is among the greatest so far.
    #[inline]
    pub fn offer(&mut self, item: T) {
        if self.kept.len() < self.limit {
            self.kept.push(Reverse(item));
        } else if let Some(mut worst) = self.kept.peek_mut()
            && item > worst.0
        {
            *worst = Reverse(item);
        }
    }

    /// Keeps `item` as [`offer`](Self::offer) does, but of items that are `alike` only the greatest.
    pub fn offer_of_kind(&mut self, item: T, alike: impl Fn(&T, &T) -> bool) {
        if self.least().is_some_and(|least| item <= *least) {
            return;
        }
        if let Some(Reverse(other)) = self.kept.iter().find(|other| alike(&other.0, &item)) {
            if *other >= item {
                return;
            }
            self.kept.retain(|other| !alike(&other.0, &item));
        }
        self.offer(item);
    }

    /// The least of the items kept, once there are `limit` of them. An item that is not greater will not be kept.
    #[inline]
    #[must_use]
    pub fn least(&self) -> Option<&T> {
        let worst = self.kept.peek().filter(|_| self.kept.len() == self.limit);
        worst.map(|Reverse(item)| item)
    }

    /// The items kept, greatest first.
    #[must_use]
    pub fn into_best_first(self) -> Vec<T> {
        let reversed = self.kept.into_sorted_vec();
        reversed.into_iter().map(|Reverse(item)| item).collect()
    }
}
