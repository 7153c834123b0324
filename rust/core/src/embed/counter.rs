//! Counts per bucket of one text after another.

use std::mem;

use crate::vector::BUCKETS;

/// Buckets that share a word of 64 bits.
const GROUP: usize = 64;
const GROUPS: usize = BUCKETS / GROUP;
/// Buckets of a group that are written down without asking whether they were hit.
const AT_ONCE: usize = 2;

/// Counts per bucket, and the buckets that have one as they were hit first.
///
/// So starting over costs what was counted, not 4,096 writes. A bit for each bucket gives them in ascending
/// order without a sort.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    counts: Box<[u32; BUCKETS]>,
    /// The buckets that were hit, and room for one that is not new.
    first: Box<[u16; BUCKETS + 1]>,
    known: usize,
    hit: [u64; GROUPS],
    /// The same buckets in ascending order; of no meaning between calls.
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
    /// Counts one more for each of `buckets`, which are below 4,096.
    #[inline]
    pub(super) fn add_all(&mut self, buckets: impl Iterator<Item = u16>) {
        // By itself, since what one writes to memory and the next one reads takes longer than all the rest.
        let mut known = self.known;
        for bucket in buckets {
            let place = usize::from(bucket) % BUCKETS; // so that the compiler sees the bound, too
            // Written whether it is new or not, which nobody can guess.
            self.first[known] = bucket;
            known += usize::from(self.counts[place] == 0);
            self.counts[place] += 1;
        }
        self.known = known;
    }

    /// Replaces `row` by each bucket that was hit and its count, as they were hit first, and starts over.
    pub(super) fn drain_unordered_into(&mut self, row: &mut Vec<(u16, u32)>) {
        row.clear();
        let known = mem::take(&mut self.known);
        let counts = &mut self.counts;
        row.extend(self.first[..known].iter().map(|&bucket| {
            let count = &mut counts[usize::from(bucket) % BUCKETS];
            (bucket, mem::take(count))
        }));
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
