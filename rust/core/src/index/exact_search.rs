//! A search of the exact index: integer sums for each block, and distances for a few rows.

use crate::index::exact::HashedTfIndex;
use crate::index::neighbor::{Neighbor, distance_of};
use crate::postings::{BLOCK, Overflow, Tail, count, entry};
use crate::simd::columns::{Column, Sums, add_column};
use crate::top_k::TopK;
use crate::vector::{BUCKETS, SparseRow};

/// More than the relative rounding error of either side of the comparison.
const ROOM: f64 = 1e-6;

/// Rows that are compared with the bound at once, which the compiler does in registers.
const GROUP: usize = 64;

impl HashedTfIndex {
    /// The `limit` nearest rows that share a bucket with `query`, the nearest first, ties by number.
    #[must_use]
    pub fn search(&self, query: &SparseRow, limit: usize) -> Vec<Neighbor> {
        let counts: Vec<_> = query.iter().collect();
        self.search_counts(&counts, limit)
    }

    /// Calls `visit` with each row that shares a bucket with `query` and is near enough, in ascending order
    /// of number.
    ///
    /// `visit` returns the largest distance that is of interest from now on. It may still be called for
    /// rows that are farther.
    pub fn for_each_near(&self, query: &SparseRow, visit: impl FnMut(Neighbor) -> f64) {
        let counts: Vec<_> = query.iter().collect();
        Search::run(self, &counts, visit);
    }

    /// Like [`search`](Self::search), for these buckets and counts: each bucket once, in any order.
    #[must_use]
    pub fn search_counts(&self, counts: &[(u16, u32)], limit: usize) -> Vec<Neighbor> {
        let mut nearest: TopK<Neighbor> = TopK::new(limit);
        if limit > 0 {
            Search::run(self, counts, |neighbor| {
                nearest.offer(neighbor);
                nearest
                    .least()
                    .map_or(f64::INFINITY, |farthest| farthest.distance)
            });
        }
        nearest.into_best_first()
    }
}

/// The state of a search, which goes through the blocks.
struct Search<'a> {
    index: &'a HashedTfIndex,
    /// The buckets of the query and their counts.
    query: &'a [(u16, u32)],
    squared_norm: u64,
    /// The same number as f64.
    wide_norm: f64,
    /// The weight of each bucket, for rows that are not in lists.
    weights: [u16; BUCKETS],
    /// Rows with a larger distance are of no interest.
    max_distance: f64,
    /// A row is certainly farther if its squared dot product is not above this bound times its squared norm.
    bound: f32,
}

impl<'a> Search<'a> {
    /// Calls `visit` with the rows that are near enough, in ascending order of number. `visit` returns the largest
    /// distance that is of interest from now on.
    fn run(
        index: &'a HashedTfIndex,
        query: &'a [(u16, u32)],
        mut visit: impl FnMut(Neighbor) -> f64,
    ) {
        let squares = query.iter().map(|&(_, count)| u64::from(count).pow(2));
        let squared_norm = squares.sum();
        let mut weights = [0; BUCKETS];
        for &(bucket, weight) in query {
            weights[usize::from(bucket) % BUCKETS] = narrow(weight);
        }
        #[expect(clippy::cast_precision_loss, reason = "as distances take it")]
        let mut search = Self {
            index,
            query,
            squared_norm,
            wide_norm: squared_norm as f64,
            weights,
            max_distance: f64::INFINITY,
            bound: 0.0,
        };
        for number in 0..index.postings.blocks().len() {
            // By the Cauchy-Schwarz inequality, no dot product is above the root of this product.
            let largest = search.squared_norm.checked_mul(index.largest[number]);
            if largest.is_some_and(|squared| squared < 1 << (2 * u16::BITS)) {
                search.block(number, &mut visit);
            } else {
                search.large_block(number, &mut visit);
            }
        }
    }

    /// Searches a block in which all dot products are below 2^16.
    fn block(&mut self, number: usize, visit: &mut impl FnMut(Neighbor) -> f64) {
        let first = number * BLOCK;
        let norms = &self.index.norms[first..];
        let norms = &norms[..norms.len().min(BLOCK)];
        let mut sums = [0; BLOCK];
        self.sum(number, &mut sums, norms.len());
        let removed = self.index.postings.blocks()[number].removed();
        let is_removed = |place| {
            let place = u16::try_from(place).expect("a block has 4,096 entries");
            removed.is_some_and(|removed| removed.has(place))
        };
        for start in (0..norms.len()).step_by(GROUP) {
            let group = start..norms.len().min(start + GROUP);
            let squares = |place: usize| f32::from(sums[place]) * f32::from(sums[place]);
            // Most groups have no such row; without a branch, many rows are compared at once.
            let (mut some, bound) = (false, self.bound);
            for place in group.clone() {
                some |= squares(place) > bound * norms[place];
            }
            for place in group.take_while(|_| some) {
                if squares(place) > self.bound * norms[place] && !is_removed(place) {
                    self.visit(first + place, f64::from(sums[place]), visit);
                }
            }
        }
    }

    /// Adds to `sums` the dot product of each row of a block.
    fn sum(&self, number: usize, sums: &mut Sums, entries: usize) {
        let newest = self.index.postings.fresh(number);
        for &(bucket, weight) in self.query {
            let weight = narrow(weight);
            for list in self.index.postings.blocks()[number].lists(bucket) {
                add_list(sums, entries, list.column, list.codes, weight);
                for &Overflow { entry, more, .. } in list.overflow {
                    add(sums, entry, narrow(more), weight);
                }
            }
            if let Some(lists) = newest.and_then(Tail::lists) {
                let list = lists.get(bucket);
                add_list(sums, entries, list.column, list.codes, weight);
            }
        }
        if let Some(few) = newest.map(Tail::few) {
            few.for_each(|entry, bucket, count| {
                let weight = self.weights[usize::from(bucket) % BUCKETS];
                add(sums, entry, narrow(count), weight);
            });
        }
    }

    /// Searches a block with such a long text that dot products may reach 2^16.
    fn large_block(&mut self, number: usize, visit: &mut impl FnMut(Neighbor) -> f64) {
        let block = &self.index.postings.blocks()[number];
        let mut sums = vec![0_u64; BLOCK];
        let mut add = |code, weight: u64| {
            sums[usize::from(entry(code))] += weight * u64::from(count(code));
        };
        let newest = self.index.postings.fresh(number);
        for &(bucket, weight) in self.query {
            let weight = u64::from(weight);
            for list in block.lists(bucket) {
                list.for_each_code(|code| add(code, weight));
            }
            if let Some(lists) = newest.and_then(Tail::lists) {
                lists.get(bucket).for_each_code(|code| add(code, weight));
            }
        }
        for &(bucket, weight) in self.query {
            for above in block.lists(bucket).flat_map(|list| list.overflow) {
                sums[usize::from(above.entry)] += u64::from(weight) * u64::from(above.more);
            }
        }
        if let Some(few) = newest.map(Tail::few) {
            few.for_each(|entry, bucket, count| {
                let weights = self.query.iter().filter(|&&(hit, _)| hit == bucket);
                let weight: u64 = weights.map(|&(_, weight)| u64::from(weight)).sum();
                sums[usize::from(entry)] += weight * u64::from(count);
            });
        }
        for (place, sum) in (0_u16..).zip(sums).filter(|&(_, sum)| sum > 0) {
            if !block.removed().is_some_and(|removed| removed.has(place)) {
                #[expect(clippy::cast_precision_loss, reason = "as distances take it")]
                let dot = sum as f64;
                self.visit(number * BLOCK + usize::from(place), dot, visit);
            }
        }
    }

    /// Visits a row with its exact distance, unless that is too far.
    #[inline]
    fn visit(&mut self, id: usize, dot: f64, visit: &mut impl FnMut(Neighbor) -> f64) {
        let id = u32::try_from(id).expect("numbers are below 2^32");
        let distance = distance_of(dot, self.wide_norm, self.index.squared_norm(id));
        if distance <= self.max_distance {
            let max_distance = visit(Neighbor { id, distance });
            if max_distance.total_cmp(&self.max_distance).is_ne() {
                self.max_distance = max_distance;
                self.bound = bound(max_distance, self.wide_norm);
            }
        }
    }
}

/// The bound for a largest distance: `dot / sqrt(q * n) >= 1 - max_distance` is equivalent to
/// `dot^2 >= (1 - max_distance)^2 * q * n`. A margin for rounding is subtracted.
#[expect(clippy::cast_possible_truncation, reason = "ROOM is more than is lost")]
fn bound(max_distance: f64, squared_norm: f64) -> f32 {
    let cosine = (1.0 - max_distance - f64::EPSILON * 8.0).max(0.0);
    (cosine * cosine * squared_norm * (1.0 - ROOM)) as f32
}

/// A block that uses these weights has only dot products below 2^16, so a larger number is multiplied by 0.
fn narrow(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

fn add(sums: &mut Sums, entry: u16, count: u16, weight: u16) {
    let sum = &mut sums[usize::from(entry) % BLOCK];
    *sum = sum.wrapping_add(weight.wrapping_mul(count));
}

fn add_list(sums: &mut Sums, entries: usize, column: Option<&Column>, codes: &[u16], weight: u16) {
    if let Some(column) = column {
        add_column(sums, entries, column, weight);
    }
    for &code in codes {
        add(sums, entry(code), count(code), weight);
    }
}
