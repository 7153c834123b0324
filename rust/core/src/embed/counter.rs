//! Counts per bucket of one text after another.

use std::mem;

use crate::vector::BUCKETS;

/// Buckets that share a word of 64 bits.
const GROUP: usize = 64;
const GROUPS: usize = BUCKETS / GROUP;
/// Buckets of a group that are written down without asking whether they were hit.
const AT_ONCE: usize = 2;

/// Counts per bucket, a bit for each bucket that has one, and a bit for each group of such bits.
///
/// The bits give the buckets in ascending order without a sort, and starting over costs what was
/// counted, not 4,096 writes.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    counts: Box<[u32; BUCKETS]>,
    hit: [u64; GROUPS],
    groups: u64,
    /// The buckets that were hit; of no meaning between calls.
    buckets: Box<[u16; BUCKETS + AT_ONCE]>,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            hit: [0; GROUPS],
            groups: 0,
            buckets: Box::new([0; BUCKETS + AT_ONCE]),
        }
    }
}

impl Counter {
    /// Counts one more for `bucket`, which is below 4,096.
    #[inline]
    pub(super) fn add(&mut self, bucket: u16) {
        let bucket = usize::from(bucket) % BUCKETS; // so that the compiler sees the bound, too
        self.counts[bucket] += 1;
        self.hit[bucket / GROUP] |= 1 << (bucket % GROUP);
        self.groups |= 1 << (bucket / GROUP);
    }

    /// Replaces `row` by each bucket that was hit and its count, in ascending order, and starts over.
    pub(super) fn drain_into(&mut self, row: &mut Vec<(u16, u32)>) {
        row.clear();
        let hits = self.take_hits();
        let counts = &mut self.counts;
        row.extend(self.buckets[..hits].iter().map(|&bucket| {
            let count = &mut counts[usize::from(bucket) % BUCKETS];
            (bucket, mem::take(count))
        }));
    }

    /// Writes down the buckets that were hit, and says how many.
    ///
    /// Most groups have one or two, and which of the two is a coin toss for the processor. So two are
    /// written always, and what is not there is overwritten by what comes next.
    #[expect(clippy::cast_possible_truncation, reason = "a bucket is below 2^16")]
    fn take_hits(&mut self) -> usize {
        let mut hits = 0;
        let mut groups = mem::take(&mut self.groups);
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
            for &bucket in &added {
                counter.add(bucket);
            }
            counter.drain_into(&mut row);
            let mut expected: Vec<(u16, u32)> = Vec::new();
            for bucket in 0..4096 {
                let count = added.iter().filter(|&&each| each == bucket).count();
                if count > 0 {
                    expected.push((bucket, u32::try_from(count).unwrap()));
                }
            }
            assert_eq!(row, expected);
        }
    }
}
