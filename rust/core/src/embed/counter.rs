//! Counts the buckets of one text after another.

use std::mem;

use crate::vector::BUCKETS;

/// Buckets in one word of 64 bits.
const GROUP: usize = 64;
const GROUPS: usize = BUCKETS / GROUP;
/// Buckets of a group that are always written, whether they were hit or not.
const AT_ONCE: usize = 2;

/// The count of each bucket, and the buckets with a count in the order of their first hit.
///
/// So a reset costs as much as the text had buckets, not 4,096 writes. A bit for each bucket gives them in
/// ascending order without a sort.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    counts: Box<[u32; BUCKETS]>,
    /// The buckets that were hit, with room for one more, which is written but not counted.
    first: Box<[u16; BUCKETS + 1]>,
    known: usize,
    hit: [u64; GROUPS],
    /// A buffer for the same buckets in ascending order.
    buckets: Box<[u16; BUCKETS + AT_ONCE]>,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            first: Box::new([0; BUCKETS + 1]),
            known: 0,
            hit: [0; GROUPS],
            buckets: Box::new([0; BUCKETS + AT_ONCE]),
        }
    }
}

impl Counter {
    /// Adds one to the count of each of `buckets`, which are below 4,096.
    #[inline]
    pub(super) fn add_all(&mut self, buckets: impl Iterator<Item = u16>) {
        // A local variable: through memory, each step would wait for the write of the one before.
        let mut known = self.known;
        for bucket in buckets {
            let place = usize::from(bucket) % BUCKETS; // shows the bound to the compiler
            // Always written, and only counted if it is new: a branch here could not be predicted.
            self.first[known] = bucket;
            known += usize::from(self.counts[place] == 0);
            self.counts[place] += 1;
        }
        self.known = known;
    }

    /// Replaces `row` by the hit buckets and their counts, in the order of their first hit, and resets all counts.
    pub(super) fn drain_unordered_into(&mut self, row: &mut Vec<(u16, u32)>) {
        row.clear();
        let known = mem::take(&mut self.known);
        let counts = &mut self.counts;
        row.extend(self.first[..known].iter().map(|&bucket| {
            let count = &mut counts[usize::from(bucket) % BUCKETS];
            (bucket, mem::take(count))
        }));
    }

    /// Replaces `row` by the hit buckets and their counts, in ascending order, and resets all counts.
    pub(super) fn drain_into(&mut self, row: &mut Vec<(u16, u32)>) {
        row.clear();
        let hits = self.take_hits();
        let counts = &mut self.counts;
        row.extend(self.buckets[..hits].iter().map(|&bucket| {
            let count = &mut counts[usize::from(bucket) % BUCKETS];
            (bucket, mem::take(count))
        }));
    }

    /// Writes the buckets that were hit to `buckets`, in ascending order, and returns their number.
    ///
    /// Most groups have one or two hits, and the number cannot be predicted by the processor. So two are always
    /// written, and a bucket too many is overwritten by the next.
    #[expect(clippy::cast_possible_truncation, reason = "a bucket is below 2^16")]
    fn take_hits(&mut self) -> usize {
        let (mut hits, mut groups) = (0, 0_u64);
        for &bucket in &self.first[..mem::take(&mut self.known)] {
            let bucket = usize::from(bucket) % BUCKETS;
            self.hit[bucket / GROUP] |= 1 << (bucket % GROUP);
            groups |= 1 << (bucket / GROUP);
        }
        while groups != 0 {
            let group = groups.trailing_zeros() as usize;
            groups &= groups - 1;
            let mut bits = mem::take(&mut self.hit[group]);
            while bits != 0 {
                for _ in 0..AT_ONCE {
                    let bucket = group * GROUP + bits.trailing_zeros() as usize;
                    self.buckets[hits] = bucket as u16;
                    hits += usize::from(bits != 0);
                    bits &= bits.wrapping_sub(1);
                }
            }
        }
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_comes_out_once_in_order() {
        let mut counter = Counter::default();
        let mut row = vec![(9, 9)];
        for added in [
            vec![4095, 0, 63, 64, 0],
            vec![],
            (0..4096).rev().collect(),
            vec![65, 66, 67, 66],
        ] {
            counter.add_all(added.iter().copied());
            counter.drain_into(&mut row);
            let mut expected: Vec<(u16, u32)> = Vec::new();
            for bucket in 0..4096 {
                let count = added.iter().filter(|&&each| each == bucket).count();
                if count > 0 {
                    expected.push((bucket, u32::try_from(count).unwrap()));
                }
            }
            assert_eq!(row, expected);
            counter.add_all(added.iter().copied());
            counter.drain_unordered_into(&mut row);
            row.sort_unstable();
            assert_eq!(row, expected);
        }
    }
}
