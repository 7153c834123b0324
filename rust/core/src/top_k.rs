//! The greatest few of many items, in one pass and bounded space.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The highest limit for which items are kept in a sorted list.
const FEW: usize = 64;

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
    kept: Kept<T>,
}

/// The items that are kept. For a few items, insertion into a sorted list is faster than a heap.
#[derive(Debug)]
enum Kept<T> {
    /// Sorted, greatest first.
    Few(Vec<T>),
    /// A heap with the least item on top.
    Many(BinaryHeap<Reverse<T>>),
}

impl<T: Ord> TopK<T> {
    /// Keeps at most `limit` items; with 0 it keeps none.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let kept = if limit <= FEW {
            Kept::Few(Vec::with_capacity(limit))
        } else {
            Kept::Many(BinaryHeap::with_capacity(FEW))
        };
        Self { limit, kept }
    }

    /// Keeps `item` if it is among the greatest so far.
    #[inline]
    pub fn offer(&mut self, item: T) {
        match &mut self.kept {
            Kept::Few(kept) => {
                if kept.len() == self.limit {
                    if kept.last().is_none_or(|worst| item <= *worst) {
                        return;
                    }
                    kept.pop();
                }
                let place = kept.partition_point(|other| *other > item);
                kept.insert(place, item);
            }
            Kept::Many(kept) => {
                if kept.len() < self.limit {
                    kept.push(Reverse(item));
                } else if let Some(mut worst) = kept.peek_mut()
                    && item > worst.0
                {
                    *worst = Reverse(item);
                }
            }
        }
    }

    /// Keeps `item` as [`offer`](Self::offer) does, but of items that are `alike` only the greatest.
    pub fn offer_of_kind(&mut self, item: T, alike: impl Fn(&T, &T) -> bool) {
        if self.least().is_some_and(|least| item <= *least) {
            return;
        }
        match &mut self.kept {
            Kept::Few(kept) => {
                if let Some(place) = kept.iter().position(|other| alike(other, &item)) {
                    if kept[place] >= item {
                        return;
                    }
                    kept.remove(place);
                }
            }
            Kept::Many(kept) => {
                if let Some(Reverse(other)) = kept.iter().find(|other| alike(&other.0, &item)) {
                    if *other >= item {
                        return;
                    }
                    kept.retain(|other| !alike(&other.0, &item));
                }
            }
        }
        self.offer(item);
    }

    /// The least of the items kept, once there are `limit` of them. An item that is not greater will not be kept.
    #[inline]
    #[must_use]
    pub fn least(&self) -> Option<&T> {
        match &self.kept {
            Kept::Few(kept) => kept.last().filter(|_| kept.len() == self.limit),
            Kept::Many(kept) => {
                let worst = kept.peek().filter(|_| kept.len() == self.limit);
                worst.map(|Reverse(item)| item)
            }
        }
    }

    /// The items kept, greatest first.
    #[must_use]
    pub fn into_best_first(self) -> Vec<T> {
        match self.kept {
            Kept::Few(kept) => kept,
            Kept::Many(kept) => {
                let reversed = kept.into_sorted_vec();
                reversed.into_iter().map(|Reverse(item)| item).collect()
            }
        }
    }
}
