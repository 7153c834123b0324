//! Exact cosine search: for each bucket the rows that hit it, a block of rows at a time.
//!
//! The dots of a block are sums of integers, 16 bits each, in 8 KB. Buckets that many rows hit are columns,
//! which are multiplied and added a register at a time. What is left is one comparison a row, in f32 and
//! with room for its rounding; the distance of a row that passes it is made of the integers, in f64. So
//! every path of the kernels gives the same rows and the same bits.

use std::path::Path;

use hashbrown::HashMap;

use crate::error::Result;
use crate::index::base::{Neighbor, VectorIndex, distance};
use crate::postings::{self, BLOCK, Block, Buckets, Fresh, List, Postings, count, entry};
use crate::simd::Level;
use crate::simd::columns::{Column, Sums, add_columns};
use crate::simd::scan::{GROUP, next_above};
use crate::top_k::TopK;
use crate::vector::{BUCKETS, SparseRow};

/// What the label of a file begins with.
const KIND: &str = "exact ";
/// Rows of a block that make a bucket frequent: measured, a column costs less from there on.
const FREQUENT: usize = 512;
/// From here on an f32 does not hold every integer.
const LARGE: u64 = 1 << f32::MANTISSA_DIGITS;
/// What rounding takes at most of either side of the comparison, and more.
const ROOM: f64 = 1e-6;

/// Inverted lists over the buckets, with counts; dots are sums of integers.
///
/// ```
/// use siltstone_core::index::{ExactIndex, VectorIndex};
/// use siltstone_core::SparseRow;
///
/// let row = |counts: &[(u16, u32)]| counts.iter().copied().collect::<SparseRow>();
/// let mut index = ExactIndex::default();
/// index.add(&row(&[(1, 1), (2, 1)]));
/// index.add(&row(&[(3, 1)]));
/// let found = index.search(&row(&[(1, 2), (2, 2)]), 5);
/// assert_eq!(found.len(), 1); // the other row shares no bucket
/// assert!((found[0].id, found[0].distance) == (0, 0.0)); // the same direction
/// ```
#[derive(Clone, Debug)]
pub struct ExactIndex {
    postings: Postings<Buckets>,
    /// The squared norm of each row, with zeros behind the last up to the end of a group.
    norms: Vec<[f32; GROUP]>,
    /// Those that an f32 may not hold.
    large: HashMap<u32, u64>,
    /// The largest of each block.
    largest: Vec<u64>,
}

impl Default for ExactIndex {
    fn default() -> Self {
        Self {
            postings: Postings::new(FREQUENT),
            norms: Vec::new(),
            large: HashMap::new(),
            largest: Vec::new(),
        }
    }
}

impl ExactIndex {
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
        let norms = size_of_val(&self.norms[..]) + size_of_val(&self.largest[..]);
        self.postings.bytes() + norms + self.large.allocation_size()
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
    pub fn for_each_near(&self, query: &SparseRow, mut visit: impl FnMut(Neighbor) -> f64) {
        let query = Query::of(query);
        let mut search = Search {
            index: self,
            query: &query,
            level: Level::current(),
            max_distance: f64::INFINITY,
            bound: 0.0,
        };
        let mut sums = Box::new([0; BLOCK]);
        for number in 0..self.postings.blocks().len() {
            // By Cauchy and Schwarz no dot is above the root of the product.
            let largest = query.squared_norm.checked_mul(self.largest[number]);
            if largest.is_some_and(|squared| squared < 1 << (2 * u16::BITS)) {
                search.block(number, &mut sums, &mut visit);
            } else {
                search.large_block(number, &mut visit);
            }
        }
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
        }
        #[expect(clippy::cast_precision_loss, reason = "large ones are kept beside")]
        let norm = squared_norm as f32;
        self.norms[group][place] = norm;
        if squared_norm >= LARGE {
            self.large.insert(id, squared_norm);
        }
    }

    fn squared_norm(&self, id: u32) -> u64 {
        let norm = self.norms[id as usize / GROUP][id as usize % GROUP];
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an integer below 2^24"
        )]
        let known = norm as u64;
        if known < LARGE {
            known
        } else {
            self.large[&id]
        }
    }
}

impl VectorIndex for ExactIndex {
    fn add(&mut self, row: &SparseRow) -> u32 {
        let id = self.postings.add(row.iter());
        let squared_norm = row.squared_norm();
        self.set_norm(id, squared_norm);
        if self.largest.len() < self.postings.blocks().len() {
            self.largest.push(0);
        }
        if let Some(largest) = self.largest.last_mut() {
            *largest = squared_norm.max(*largest);
        }
        id
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
        let mut nearest: TopK<Neighbor> = TopK::new(limit);
        if limit > 0 {
            self.for_each_near(query, |neighbor| {
                nearest.offer(neighbor);
                nearest
                    .least()
                    .map_or(f64::INFINITY, |farthest| farthest.distance)
            });
        }
        nearest.into_best_first()
    }
}

/// A query, and which buckets it hits.
struct Query {
    buckets: Vec<(u16, u32)>,
    hit: [u64; BUCKETS / 64],
    squared_norm: u64,
}

impl Query {
    fn of(row: &SparseRow) -> Self {
        let buckets: Vec<_> = row.iter().collect();
        let mut hit = [0; BUCKETS / 64];
        for &(bucket, _) in &buckets {
            hit[usize::from(bucket) / 64] |= 1 << (bucket % 64);
        }
        Self {
            buckets,
            hit,
            squared_norm: row.squared_norm(),
        }
    }

    /// Calls `visit` with each newest row that has a bucket of the query, and the product of the counts.
    #[inline]
    fn for_each_fresh(&self, fresh: &Fresh<u16>, mut visit: impl FnMut(u16, u64)) {
        fresh.for_each(|row, bucket, count| {
            if self.hit[usize::from(bucket) / 64 % self.hit.len()] >> (bucket % 64) & 1 == 1
                && let Ok(place) = self
                    .buckets
                    .binary_search_by_key(&bucket, |&(bucket, _)| bucket)
            {
                visit(row, u64::from(self.buckets[place].1) * u64::from(count));
            }
        });
    }
}

struct Search<'a> {
    index: &'a ExactIndex,
    query: &'a Query,
    level: Level,
    /// What is farther is of no interest.
    max_distance: f64,
    /// A row whose dot squared is not above this times its squared norm is certainly farther.
    bound: f32,
}

impl<'a> Search<'a> {
    /// The rows of a block whose dots are below 2^16.
    fn block(&mut self, number: usize, sums: &mut Sums, visit: &mut impl FnMut(Neighbor) -> f64) {
        let block = &self.index.postings.blocks()[number];
        self.sum(number, block, sums);
        let (level, first) = (self.level, number * BLOCK / GROUP);
        let norms = &self.index.norms[first..];
        let (groups, _) = sums.as_chunks::<GROUP>();
        let mut from = 0;
        while let Some((group, mask)) = next_above(level, groups, norms, self.bound, from) {
            from = group + 1;
            let mut live = mask & !block.removed().map_or(0, |removed| removed.group(group));
            while live != 0 {
                let place = live.trailing_zeros() as usize;
                live &= live - 1;
                let (sum, norm) = (groups[group][place], norms[group][place]);
                if f32::from(sum) * f32::from(sum) > self.bound * norm {
                    self.visit((first + group) * GROUP + place, u64::from(sum), visit);
                }
            }
        }
    }

    /// The dot of each row of a block.
    fn sum(&self, number: usize, block: &'a Block<Buckets>, sums: &mut Sums) {
        sums.fill(0);
        let mut columns: Vec<(&Column, u16)> = Vec::new();
        for part in block.parts() {
            for &(bucket, weight) in &self.query.buckets {
                let Some(list) = part.list(bucket) else {
                    continue;
                };
                // Every product is part of a dot that is below 2^16.
                let weight = u16::try_from(weight).unwrap_or(u16::MAX);
                match list.column {
                    Some(column) => columns.push((column, weight)),
                    None => {
                        for &code in list.codes {
                            let sum = &mut sums[usize::from(entry(code))];
                            *sum = sum.wrapping_add(weight.wrapping_mul(count(code)));
                        }
                    }
                }
                for above in list.overflow {
                    let more = u16::try_from(above.more).unwrap_or(u16::MAX);
                    let sum = &mut sums[usize::from(above.entry)];
                    *sum = sum.wrapping_add(weight.wrapping_mul(more));
                }
            }
        }
        if !columns.is_empty() {
            add_columns(self.level, sums, &columns);
        }
        if let Some(fresh) = self.index.postings.fresh(number) {
            self.query.for_each_fresh(fresh, |row, product| {
                let sum = &mut sums[usize::from(row)];
                *sum = sum.wrapping_add(u16::try_from(product).unwrap_or(u16::MAX));
            });
        }
    }

    /// The rows of a block with a text so long that a dot may be of any size.
    fn large_block(&mut self, number: usize, visit: &mut impl FnMut(Neighbor) -> f64) {
        let block = &self.index.postings.blocks()[number];
        let mut sums = vec![0_u64; BLOCK];
        for &(bucket, weight) in &self.query.buckets {
            let weight = u64::from(weight);
            for list in block.lists(bucket) {
                list.for_each_code(|code| {
                    sums[usize::from(entry(code))] += weight * u64::from(count(code));
                });
                for above in list.overflow {
                    sums[usize::from(above.entry)] += weight * u64::from(above.more);
                }
            }
        }
        if let Some(fresh) = self.index.postings.fresh(number) {
            self.query
                .for_each_fresh(fresh, |row, product| sums[usize::from(row)] += product);
        }
        for (place, sum) in (0_u16..).zip(sums).filter(|&(_, sum)| sum > 0) {
            if !block.removed().is_some_and(|removed| removed.has(place)) {
                self.visit(number * BLOCK + usize::from(place), sum, visit);
            }
        }
    }

    /// Visits a row by its exact distance, unless that is too far.
    fn visit(&mut self, id: usize, dot: u64, visit: &mut impl FnMut(Neighbor) -> f64) {
        let id = u32::try_from(id).expect("numbers are below 2^32");
        let distance = distance(dot, self.query.squared_norm, self.index.squared_norm(id));
        if distance <= self.max_distance {
            self.max_distance = visit(Neighbor { id, distance });
            self.bound = bound(self.max_distance, self.query.squared_norm);
        }
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

/// `dot / sqrt(q * n) >= 1 - max_distance` is `dot^2 >= (1 - max_distance)^2 * q * n`, and what rounding
/// takes goes off.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "ROOM is more than is lost"
)]
fn bound(max_distance: f64, squared_norm: u64) -> f32 {
    let cosine = (1.0 - max_distance - f64::EPSILON * 8.0).max(0.0);
    (cosine * cosine * squared_norm as f64 * (1.0 - ROOM)) as f32
}
