//! Exact cosine search: for each bucket the rows that hit it, a block of rows at a time.
//!
//! The dots of a block are sums of integers, 16 bits each, in 8 KB. Buckets that many rows hit are columns,
//! which are multiplied and added a register at a time. What is left is one comparison a row, in f32 and
//! with room for its rounding; the distance of a row that passes it is made of the integers, in f64. So
//! every path of the kernels gives the same rows and the same bits.

use std::path::Path;

use hashbrown::HashMap;

use crate::error::Result;
use crate::index::base::{Neighbor, VectorIndex};
use crate::index::exact_search::Search;
use crate::postings::{self, BLOCK, Buckets, List, Postings, count, entry};
use crate::simd::scan::{GROUP, root};
use crate::top_k::TopK;
use crate::vector::SparseRow;

/// What the label of a file begins with.
const KIND: &str = "exact ";
/// Rows of a block that make a bucket frequent: measured, a column costs less from there on.
pub(super) const FREQUENT: usize = 512;
/// From here on, 2^24, an f32 does not hold every integer.
pub(super) const LARGE: f32 = 16_777_216.0;

/// Inverted lists over the buckets, with counts; dots are sums of integers.
///
/// ```
/// use siltstone_core::index::{HashedTfIndex, VectorIndex};
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
    /// The squared norm of each row, with zeros behind the last up to the end of a group.
    pub(super) norms: Vec<[f32; GROUP]>,
    /// Its root, in the same places: what a block is scanned by.
    pub(super) roots: Vec<[u16; GROUP]>,
    /// Those that an f32 may not hold.
    pub(super) large: HashMap<u32, u64>,
    /// The largest of each block.
    pub(super) largest: Vec<u64>,
}

impl Default for HashedTfIndex {
    fn default() -> Self {
        Self {
            postings: Postings::new(FREQUENT),
            norms: Vec::new(),
            roots: Vec::new(),
            large: HashMap::new(),
            largest: Vec::new(),
        }
    }
}

impl HashedTfIndex {
    /// How many pairs of a row and a bucket it holds.
    #[must_use]
    pub fn postings(&self) -> usize {
        self.postings.postings()
    }

    /// How many rows were removed.
    #[must_use]
    pub fn removed(&self) -> usize {
        self.postings.removed()
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let norms = size_of_val(&self.norms[..]) + size_of_val(&self.roots[..]);
        let largest = size_of_val(&self.largest[..]) + self.large.allocation_size();
        self.postings.bytes() + norms + largest
    }

    /// Whether there is a row of that number that was not removed.
    #[must_use]
    pub fn has(&self, id: u32) -> bool {
        self.postings.has(id)
    }

    /// Removes a row: it is not found again, and its number is not used again.
    ///
    /// False if there is none of that number, or it was removed before.
    pub fn remove(&mut self, id: u32) -> bool {
        self.postings.remove(id)
    }

    /// Puts together what was added and removed. It would happen by itself, a little with each row.
    pub fn settle(&mut self) {
        self.postings.settle();
    }

    /// Calls `visit` with each row that shares a bucket with `query` and is near enough, in ascending order
    /// of number.
    ///
    /// `visit` gives the largest distance that is of interest from now on, and may be called for some
    /// that are farther.
    pub fn for_each_near(&self, query: &SparseRow, visit: impl FnMut(Neighbor) -> f64) {
        let counts: Vec<_> = query.iter().collect();
        Search::run(self, &counts, None, visit);
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
        self.set_norm(id, squared_norm);
        if self.largest.len() < self.postings.blocks().len() {
            self.largest.push(0);
        }
        if let Some(largest) = self.largest.last_mut() {
            *largest = squared_norm.max(*largest);
        }
        id
    }

    /// [`search`](VectorIndex::search) for these buckets and counts, each bucket once, in any order.
    #[must_use]
    pub fn search_counts(&self, counts: &[(u16, u32)], limit: usize) -> Vec<Neighbor> {
        let mut nearest: TopK<Neighbor> = TopK::new(limit);
        if limit > 0 {
            Search::run(self, counts, Some(limit), |neighbor| {
                nearest.offer(neighbor);
                nearest
                    .least()
                    .map_or(f64::INFINITY, |farthest| farthest.distance)
            });
        }
        nearest.into_best_first()
    }

    /// Writes the rows to a file, all of them or nothing. `label` says what they are of.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreIo`](crate::ErrorKind::StoreIo)
    pub fn save(&self, path: &Path, label: &str) -> Result<()> {
        postings::save(path, &format!("{KIND}{label}"), &self.postings)
    }

    /// The rows of a file that was saved with a label which `accept` takes, and what it makes of that.
    ///
    /// # Errors
    ///
    /// Those of [`postings::load`].
    pub fn load<T>(path: &Path, accept: impl FnOnce(&str) -> Option<T>) -> Result<(Self, T)> {
        let accept = |label: &str| accept(label.strip_prefix(KIND)?);
        let (postings, accepted) = postings::load(path, FREQUENT, accept)?;
        let mut index = Self::default();
        let mut squared_norms = vec![0_u64; postings.len()];
        for (block, norms) in postings
            .blocks()
            .iter()
            .zip(squared_norms.chunks_mut(BLOCK))
        {
            for part in block.parts() {
                for place in 0..part.keys().len() {
                    add_squares(norms, &part.list_at(place));
                }
            }
            index.largest.push(norms.iter().copied().max().unwrap_or(0));
        }
        for (id, &squared_norm) in (0..).zip(&squared_norms) {
            index.set_norm(id, squared_norm);
        }
        index.postings = postings;
        Ok((index, accepted))
    }

    fn set_norm(&mut self, id: u32, squared_norm: u64) {
        let (group, place) = (id as usize / GROUP, id as usize % GROUP);
        if place == 0 {
            self.norms.push([0.0; GROUP]);
            self.roots.push([0; GROUP]);
        }
        #[expect(clippy::cast_precision_loss, reason = "large ones are kept beside")]
        let norm = squared_norm as f32;
        self.norms[group][place] = norm;
        self.roots[group][place] = root(norm);
        if norm >= LARGE {
            self.large.insert(id, squared_norm);
        }
    }

    /// The squared norm of a row that there is.
    #[inline]
    pub(super) fn squared_norm(&self, id: u32) -> f64 {
        let norm = self.norms[id as usize / GROUP][id as usize % GROUP];
        if norm < LARGE {
            return f64::from(norm); // an integer
        }
        #[expect(clippy::cast_precision_loss, reason = "as distances take it")]
        let squared_norm = self.large[&id] as f64;
        squared_norm
    }
}

impl VectorIndex for HashedTfIndex {
    fn add(&mut self, row: &SparseRow) -> u32 {
        let counts: Vec<_> = row.iter().collect();
        self.add_counts(&counts)
    }

    fn len(&self) -> usize {
        self.postings.len()
    }

    fn for_each_match(&self, query: &SparseRow, visit: &mut dyn FnMut(Neighbor)) {
        self.for_each_near(query, |neighbor| {
            visit(neighbor);
            f64::INFINITY
        });
    }

    fn search(&self, query: &SparseRow, limit: usize) -> Vec<Neighbor> {
        let counts: Vec<_> = query.iter().collect();
        self.search_counts(&counts, limit)
    }
}

/// What the rows of a block have for one bucket, squared.
fn add_squares(squared_norms: &mut [u64], list: &List<'_>) {
    list.for_each_code(|code| {
        let count = u64::from(list.more_of(entry(code))) + u64::from(count(code));
        let norm = &mut squared_norms[usize::from(entry(code))];
        *norm = norm.saturating_add(count.saturating_mul(count));
    });
}
