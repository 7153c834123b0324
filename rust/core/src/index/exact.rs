//! Exact cosine search over inverted lists: each bucket lists the rows that hit it, in blocks of rows.
//!
//! The dot products of a block are sums of 16-bit integers in 8 KB. Buckets with many rows are stored as columns,
//! which are multiplied and added a register at a time. Then each row takes one comparison in f32, with a
//! margin for rounding. For a row that passes, the distance is computed from the integers in f64.

use std::io::{self, Write};

use hashbrown::HashMap;

use crate::cache::{Reader, Writer};
use crate::error::Result;
use crate::index_file;
use crate::postings::{BLOCK, Buckets, Postings};
use crate::vector::SparseRow;

/// The number of rows in a block from which a bucket gets a column. Measured: a column is cheaper from here on.
pub(super) const FREQUENT: usize = 512;
/// 2^24: an f32 does not hold every integer above it.
pub(super) const LARGE: f32 = 16_777_216.0;

/// The exact index: inverted lists over the buckets, with counts. Dot products are sums of integers.
///
/// ```
/// use siltstone_core::index::HashedTfIndex;
/// use siltstone_core::SparseRow;
///
/// let row = |counts: &[(u16, u32)]| counts.iter().copied().collect::<SparseRow>();
/// let mut index = HashedTfIndex::default();
/// index.add(&row(&[(1, 1), (2, 1)]));
/// index.add(&row(&[(3, 1)]));
/// let found = index.search(&row(&[(1, 2), (2, 2)]), 5);
/// assert_eq!(found.len(), 1); // the other row shares no bucket
/// assert!((found[0].id, found[0].distance) == (0, 0.0)); // the same direction
/// ```
#[derive(Clone, Debug)]
pub struct HashedTfIndex {
    pub(super) postings: Postings<Buckets>,
    /// The squared norm of each row.
    pub(super) norms: Vec<f32>,
    /// The exact squared norms that an f32 may not hold, by row.
    pub(super) large: HashMap<u32, u64>,
    /// The largest squared norm of each block.
    pub(super) largest: Vec<u64>,
}

impl Default for HashedTfIndex {
    fn default() -> Self {
        Self {
            postings: Postings::new(FREQUENT),
            norms: Vec::new(),
            large: HashMap::new(),
            largest: Vec::new(),
        }
    }
}

impl HashedTfIndex {
    /// The number of pairs of a row and a bucket.
    #[must_use]
    pub fn postings(&self) -> usize {
        self.postings.postings()
    }

    /// The number of removed rows.
    #[must_use]
    pub fn removed(&self) -> usize {
        self.postings.removed()
    }

    /// Its bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let norms = size_of_val(&self.norms[..]);
        let largest = size_of_val(&self.largest[..]) + self.large.allocation_size();
        self.postings.bytes() + norms + largest
    }

    /// Whether there is a row of that number, and it was not removed.
    #[must_use]
    pub fn has(&self, id: u32) -> bool {
        self.postings.has(id)
    }

    /// Removes a row. It is not found again, and its number is not used again.
    ///
    /// False if there is no such row, or it was removed before.
    pub fn remove(&mut self, id: u32) -> bool {
        self.postings.remove(id)
    }

    /// Merges added and removed rows into the postings now. Otherwise each added row merges a little.
    pub fn settle(&mut self) {
        self.postings.settle();
    }

    /// The number of rows that were added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.postings.len()
    }

    /// Whether no row was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a row and gives its number. A zero row gets a number too, but is never found.
    pub fn add(&mut self, row: &SparseRow) -> u32 {
        let counts: Vec<_> = row.iter().collect();
        self.add_counts(&counts)
    }

    /// Adds a row of these buckets and counts, each bucket once, in any order.
    ///
    /// # Panics
    ///
    /// For a bucket of 4,096 or more: that is a defect of the caller.
    pub fn add_counts(&mut self, counts: &[(u16, u32)]) -> u32 {
        let id = self.postings.add(counts.iter().copied());
        let squares = counts
            .iter()
            .map(|&(_, count)| u64::from(count) * u64::from(count));
        let squared_norm = squares.sum();
        #[expect(clippy::cast_precision_loss, reason = "large ones are kept beside")]
        let norm = squared_norm as f32;
        self.norms.push(norm);
        if norm >= LARGE {
            self.large.insert(id, squared_norm);
        }
        if self.largest.len() < self.postings.blocks().len() {
            self.largest.push(0);
        }
        if let Some(largest) = self.largest.last_mut() {
            *largest = squared_norm.max(*largest);
        }
        id
    }

    /// The squared norm of an existing row.
    #[inline]
    pub(super) fn squared_norm(&self, id: u32) -> f64 {
        let norm = self.norms[id as usize];
        if norm < LARGE {
            return f64::from(norm); // an integer
        }
        #[expect(clippy::cast_precision_loss, reason = "as distances take it")]
        let squared_norm = self.large[&id] as f64;
        squared_norm
    }
}

// Removes rows from the exact index. The result equals an index that never had them.

impl HashedTfIndex {
    /// A copy of the index with only the rows `left`, as if the others had never been added. The numbers in `left` must
    /// ascend. The rows get new numbers.
    #[must_use]
    pub fn only(&self, left: impl IntoIterator<Item = u32>) -> Self {
        let mut index = Self::default();
        let mut block = None;
        for id in left {
            let (number, place) = (id as usize / BLOCK, id as usize % BLOCK);
            let known = block.take().filter(|(known, _)| *known == number);
            let rows = || (number, self.postings.rows(number));
            let (_, rows) = block.insert(known.unwrap_or_else(rows));
            index.add_counts(rows.row(place));
        }
        index
    }
}

// The exact index as arrays of a file: a cache file of a store, or an index that a user saves.

/// The prefix of the label of a saved file.
const KIND: &str = "exact ";

impl HashedTfIndex {
    /// The index as the bytes of a file. `label` describes its rows.
    ///
    /// # Errors
    ///
    /// The errors of [`index_file::to_bytes`].
    pub fn to_bytes(&self, label: &str) -> Result<Vec<u8>> {
        index_file::to_bytes(&format!("{KIND}{label}"), |to| self.write(to))
    }

    /// Reads an index from a file. `accept` gets its label and refuses it with None; its result is returned as well.
    ///
    /// # Errors
    ///
    /// The errors of [`index_file::from_bytes`].
    pub fn from_bytes<T>(file: &[u8], accept: impl FnOnce(&str) -> Option<T>) -> Result<(Self, T)> {
        let accept = |label: &str| accept(label.strip_prefix(KIND)?);
        index_file::from_bytes(file, accept, Self::read)
    }

    /// Writes all rows as arrays.
    ///
    /// # Errors
    ///
    /// The errors of the file.
    pub fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        self.postings.write(to)?;
        to.put(&self.norms)?;
        let mut large: Vec<(u32, u64)> = self.large.iter().map(|(&id, &norm)| (id, norm)).collect();
        large.sort_unstable();
        let (ids, norms): (Vec<u32>, Vec<u64>) = large.into_iter().unzip();
        to.put(&ids)?;
        to.put(&norms)?;
        to.put(&self.largest)
    }

    /// Reads the rows that [`write`](Self::write) wrote. None for invalid arrays.
    #[must_use]
    pub fn read(from: &mut Reader) -> Option<Self> {
        let postings = Postings::read(from, FREQUENT)?;
        let norms = from.numbers::<f32>()?;
        let (ids, large) = (from.array::<u32>()?, from.array::<u64>()?);
        let largest = from.numbers::<u64>()?;
        if norms.len() != postings.len()
            || ids.len() != large.len()
            || largest.len() != postings.len().div_ceil(BLOCK)
        {
            return None;
        }
        let index = Self {
            large: ids.iter().copied().zip(large.iter().copied()).collect(),
            norms,
            postings,
            largest,
        };
        let mut beside = (0..).zip(&index.norms);
        let is_known = |(id, norm): (u32, &f32)| *norm < LARGE || index.large.contains_key(&id);
        beside.all(is_known).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Writer;
    use proptest::prelude::*;

    fn bytes(index: &HashedTfIndex) -> Vec<u8> {
        let mut to = Writer::new(Vec::new()).unwrap();
        index.write(&mut to).unwrap();
        to.finish().unwrap().0
    }

    proptest! {
        /// Tests runs of equal rows, which fill columns, counts above 15, and norms that an f32 does not hold.
        #[test]
        fn what_is_left_is_an_index_that_never_had_the_others(
            runs in proptest::collection::vec(
                (
                    proptest::collection::btree_map(0_u16..40, prop_oneof![9 => 1_u32..40, 1 => 4_000_u32..9_000], 0..6),
                    any::<bool>(),
                    prop_oneof![9 => 1_u32..12, 1 => 1_u32..700],
                ),
                1..30,
            ),
        ) {
            let (mut whole, mut fresh, mut left) = (HashedTfIndex::default(), HashedTfIndex::default(), Vec::new());
            for (row, stays, often) in &runs {
                let row: Vec<_> = row.iter().map(|(&bucket, &count)| (bucket, count)).collect();
                for number in 0..*often {
                    let id = whole.add_counts(&row);
                    if *stays || number % 3 == 0 {
                        left.push(id);
                        fresh.add_counts(&row);
                    }
                }
            }
            let mut left = whole.only(left);
            prop_assert_eq!(bytes(&left), bytes(&fresh));
            for row in [[(1, 2), (2, 1)], [(3, 1), (4, 20)]] {
                left.add_counts(&row);
                fresh.add_counts(&row);
                let found = |index: &HashedTfIndex| -> Vec<(u32, u64)> {
                    let near = index.search_counts(&[(1, 1), (3, 2), (7, 1)], 50);
                    near.iter().map(|near| (near.id, near.distance.to_bits())).collect()
                };
                prop_assert_eq!(found(&left), found(&fresh));
            }
            prop_assert_eq!(bytes(&left), bytes(&fresh));
        }
    }
}
