//! The keys of a part, and the place of each key in it. Keys are buckets, or 64-bit hashes of terms.

use std::fmt::Debug;
use std::io::{self, Write};

use crate::cache::{Array, Number, Reader, Writer, are_bounds};
use crate::simd::prefetch::prefetch;

/// The keys of a part, in ascending order.
pub trait Dictionary: Clone + Debug {
    /// The type of the keys.
    type Key: Number + Ord + Into<u64> + TryFrom<u64>;

    /// Whether a key with a column keeps its list of codes too.
    const KEEPS_CODES: bool;

    /// The dictionary of these keys, which ascend.
    fn of(keys: Vec<Self::Key>) -> Self;

    /// The keys, ascending.
    fn keys(&self) -> &[Self::Key];

    /// The place of `key` among the keys.
    fn place(&self, key: Self::Key) -> Option<usize>;

    /// Sorts postings by key; postings of one key stay in their order.
    fn sort(postings: &mut Vec<(Self::Key, u16)>);

    /// Writes it to a cache.
    ///
    /// # Errors
    ///
    /// The errors of writing the file.
    fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()>;

    /// Reads the keys back; None where the data is damaged.
    fn read(from: &mut Reader) -> Option<Self>;
}

const GROUP: usize = 64;
/// The number of keys that [`Buckets`] may have.
pub(super) const BUCKETS: usize = 4096;

/// Keys below 4,096: a bit for each key that is present, and for each 64 bits the number of keys before them.
#[derive(Clone, Debug)]
pub struct Buckets {
    keys: Vec<u16>,
    bits: Box<[u64; BUCKETS / GROUP]>,
    before: Box<[u16; BUCKETS / GROUP]>,
}

impl Dictionary for Buckets {
    type Key = u16;

    const KEEPS_CODES: bool = false;

    fn of(keys: Vec<u16>) -> Self {
        let mut bits = Box::new([0_u64; BUCKETS / GROUP]);
        for &key in &keys {
            bits[usize::from(key) / GROUP % bits.len()] |= 1 << (usize::from(key) % GROUP);
        }
        let mut before = Box::new([0; BUCKETS / GROUP]);
        let mut sum = 0;
        for (before, bits) in before.iter_mut().zip(bits.iter()) {
            *before = sum;
            sum += narrow(bits.count_ones());
        }
        Self { keys, bits, before }
    }

    fn keys(&self) -> &[u16] {
        &self.keys
    }

    #[inline]
    fn place(&self, key: u16) -> Option<usize> {
        let (group, bit) = (
            usize::from(key) / GROUP % self.bits.len(),
            usize::from(key) % GROUP,
        );
        let bits = self.bits[group];
        let below = (bits & ((1 << bit) - 1)).count_ones();
        (bits >> bit & 1 == 1).then(|| usize::from(self.before[group]) + below as usize)
    }

    /// A counting sort: there are few buckets and many postings.
    fn sort(postings: &mut Vec<(u16, u16)>) {
        let mut ends = vec![0_u32; BUCKETS];
        for &(key, _) in postings.iter() {
            ends[usize::from(key) % BUCKETS] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let mut sorted = vec![(0, 0); postings.len()];
        for &posting in postings.iter().rev() {
            let end = &mut ends[usize::from(posting.0) % BUCKETS];
            *end -= 1;
            sorted[*end as usize] = posting;
        }
        *postings = sorted;
    }

    fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        to.put(&self.keys)
    }

    fn read(from: &mut Reader) -> Option<Self> {
        let keys = from.numbers::<u16>()?;
        let is_below = keys.last().is_none_or(|&last| usize::from(last) < BUCKETS);
        let ascends = keys.is_sorted_by(|one, next| one < next);
        (is_below && ascends).then(|| Self::of(keys))
    }
}

fn narrow(bits: u32) -> u16 {
    u16::try_from(bits).expect("a word has 64 bits")
}

/// Hashes as keys. They are spread evenly, so the high bits of a hash tell about where it is.
#[derive(Clone, Debug)]
pub struct Hashes {
    keys: Array<u64>,
    /// For each value of the high bits, where its keys begin.
    starts: Array<u32>,
    /// The shift that leaves the high bits of a key.
    shift: u32,
}

/// The average number of keys that share their high bits.
const NEAR: usize = 4;
/// Keys that are compared at once. Only hashes chosen on purpose share their high bits with more keys.
const WINDOW: usize = 8;

impl Hashes {
    /// The range of the keys that share the high bits of `key`: the first half of a look-up.
    #[inline]
    #[must_use]
    pub(crate) fn slot(&self, key: u64) -> (u32, u32) {
        let slot = usize::try_from(key >> self.shift).unwrap_or(usize::MAX);
        (self.starts[slot], self.starts[slot + 1])
    }

    /// Prefetches the memory that a look-up of `key` reads first.
    #[inline]
    pub(crate) fn prefetch_slot(&self, key: u64) {
        let slot = usize::try_from(key >> self.shift).unwrap_or(usize::MAX);
        prefetch(&self.starts[slot..=slot]);
    }

    /// Prefetches the memory that [`place_in`](Self::place_in) reads.
    #[inline]
    pub(crate) fn prefetch_keys(&self, (start, _): (u32, u32)) {
        let start = start as usize;
        prefetch(&self.keys[start..self.keys.len().min(start + WINDOW + 1)]);
    }

    /// The place of `key` if it is in the range of its slot: the second half of a look-up. Several keys are
    /// compared without a branch.
    #[inline]
    #[must_use]
    pub(crate) fn place_in(&self, (start, end): (u32, u32), key: u64) -> Option<usize> {
        let (start, end) = (start as usize, end as usize);
        let smaller = |keys: &[u64]| {
            keys.iter()
                .map(|&other| usize::from(other < key))
                .sum::<usize>()
        };
        let place = match self.keys[start..].first_chunk::<WINDOW>() {
            // The keys behind the slot are larger.
            Some(near) if end - start <= WINDOW => start + smaller(near),
            _ => start + self.keys[start..end].partition_point(|&other| other < key),
        };
        (self.keys.get(place) == Some(&key)).then_some(place)
    }
}

impl Dictionary for Hashes {
    type Key = u64;

    const KEEPS_CODES: bool = true;

    fn of(keys: Vec<u64>) -> Self {
        let slots = slots(keys.len());
        let shift = shift(slots);
        let mut starts = Vec::with_capacity(slots + 1);
        for (place, &key) in (0_u32..).zip(&keys) {
            while starts.len() as u64 <= key >> shift {
                starts.push(place);
            }
        }
        let end = u32::try_from(keys.len()).expect("a block has fewer than 2^32 keys");
        starts.resize(slots + 1, end);
        Self {
            keys: keys.into(),
            starts: starts.into(),
            shift,
        }
    }

    fn keys(&self) -> &[u64] {
        &self.keys
    }

    #[inline]
    fn place(&self, key: u64) -> Option<usize> {
        self.place_in(self.slot(key), key)
    }

    fn sort(postings: &mut Vec<(u64, u16)>) {
        postings.sort_unstable(); // codes ascend with their entries
    }

    fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        to.put(&self.keys)?;
        to.put(&self.starts)
    }

    fn read(from: &mut Reader) -> Option<Self> {
        let (keys, starts) = (from.array::<u64>()?, from.array::<u32>()?);
        let slots = slots(keys.len());
        let fits = starts.len() == slots + 1 && are_bounds(&starts, keys.len());
        fits.then(|| Self {
            keys,
            starts,
            shift: shift(slots),
        })
    }
}

/// The number of slots for `keys` keys.
fn slots(keys: usize) -> usize {
    (keys / NEAR + 1).next_power_of_two().max(2)
}

fn shift(slots: usize) -> u32 {
    u64::BITS - slots.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    fn holds<D: Dictionary>(keys: &BTreeSet<D::Key>, others: impl Iterator<Item = D::Key>) {
        let dictionary = D::of(keys.iter().copied().collect());
        for (place, &key) in keys.iter().enumerate() {
            assert_eq!(dictionary.place(key), Some(place));
        }
        for other in others.filter(|other| !keys.contains(other)) {
            assert_eq!(dictionary.place(other), None, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn every_key_is_where_it_is_and_no_other(
            buckets in btree_set(0_u16..4096, 0..500),
            hashes in btree_set(any::<u64>(), 0..500),
            near in btree_set(0_u64..300, 0..200), // they share their high bits
        ) {
            holds::<Buckets>(&buckets, 0..4096);
            holds::<Hashes>(&hashes, [0, 1, u64::MAX].into_iter());
            holds::<Hashes>(&near, 0..400);
        }
    }
}
