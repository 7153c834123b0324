//! The best few of many, in one pass and bounded space.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// So many lie in order, and room for so many is taken at once.
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
    kept: Kept<T>,
}

/// Of few the next one finds its place sooner where they lie in order.
#[derive(Debug)]
enum Kept<T> {
    /// The greatest first.
    Few(Vec<T>),
    /// The worst item that is kept lies on top.
    Many(BinaryHeap<Reverse<T>>),
}

impl<T: Ord> TopK<T> {
    /// Keeps at most `limit` items; none for 0.
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

    /// The least of the items kept, once there are `limit` of them: what is not greater is not kept.
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

    /// What was kept, the greatest first.
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
