//! Words that a writer changes while readers read them: segments are added, and never move.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::growth::{FIRST, SEGMENTS, place};

/// Groups of `width` items, numbered from 0. Items are atomics, or have atomics.
///
/// Any thread may read a group and change its items, while another thread adds groups: nobody waits.
pub(crate) struct Segments<T> {
    width: usize,
    segments: [OnceLock<Box<[T]>>; SEGMENTS],
}

impl<T: Default> Segments<T> {
    /// No groups yet; each will have `width` items.
    pub(crate) fn new(width: usize) -> Self {
        Self {
            width,
            segments: [const { OnceLock::new() }; SEGMENTS],
        }
    }

    /// Makes room for the groups below `count`.
    pub(crate) fn grow(&self, count: u32) {
        let Some(last) = count.checked_sub(1) else {
            return;
        };
        let (wanted, _) = place(last as usize);
        for (number, segment) in self.segments.iter().enumerate().take(wanted + 1) {
            segment.get_or_init(|| {
                (0..(FIRST << number) * self.width)
                    .map(|_| T::default())
                    .collect()
            });
        }
    }

    /// A group.
    ///
    /// # Panics
    ///
    /// If no room was made for it.
    #[inline]
    pub(crate) fn get(&self, group: u32) -> &[T] {
        let (segment, offset) = place(group as usize);
        let segment = self.segments[segment].get();
        let segment = segment.expect("groups are looked at after room was made for them");
        &segment[offset * self.width..][..self.width]
    }
}

/// A set of numbers that grows while others read it.
pub(crate) struct Marks(Segments<AtomicU64>);

impl Marks {
    pub(crate) fn new() -> Self {
        Self(Segments::new(1))
    }

    /// Makes room for the numbers below `count`.
    pub(crate) fn grow(&self, count: u32) {
        self.0.grow(count.div_ceil(u64::BITS));
    }

    pub(crate) fn insert(&self, number: u32) {
        self.word(number).fetch_or(bit(number), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn contains(&self, number: u32) -> bool {
        self.word(number).load(Ordering::Relaxed) & bit(number) != 0
    }

    #[inline]
    fn word(&self, number: u32) -> &AtomicU64 {
        &self.0.get(number / u64::BITS)[0]
    }
}

#[inline]
fn bit(number: u32) -> u64 {
    1 << (number % u64::BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_stays_marked_while_the_set_grows() {
        let marks = Marks::new();
        for number in 0..10_000 {
            marks.grow(number + 1);
            assert!(!marks.contains(number));
            if number % 3 == 0 {
                marks.insert(number);
            }
        }
        assert!((0..10_000).all(|number| marks.contains(number) == (number % 3 == 0)));
    }
}
