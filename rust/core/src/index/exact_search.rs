//! A search of the exact index: integer sums for each block, and distances for a few rows.

use std::cell::Cell;
use std::mem;

use crate::index::exact::HashedTfIndex;
use crate::index::neighbor::{Neighbor, distance_of};
use crate::postings::{BLOCK, Fresh, Overflow, Tail, count, entry};
use crate::simd::Level;
use crate::simd::columns::{Column, Sums, set_columns};
use crate::simd::lanes::{LANES, reached};
use crate::simd::prefetch::prefetch;
use crate::simd::scan::{GROUP, factor, next_above};
use crate::top_k::TopK;
use crate::vector::{BUCKETS, SparseRow};

/// More than the relative rounding error of either side of the comparison.
const ROOM: f64 = 1e-6;

/// The buffers of a search. A thread keeps them for its next search.
struct Scratch {
    sums: Sums,
    /// The weight of each bucket; all 0 between searches.
    weights: [u16; BUCKETS],
    /// Empty lists of two blocks, kept for their memory.
    gathered: [Gathered<'static>; 2],
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            sums: [0; BLOCK],
            weights: [0; BUCKETS],
            gathered: Default::default(),
        }
    }
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

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
        Search::run(self, &counts, None, visit);
    }

    /// Like [`search`](Self::search), for these buckets and counts: each bucket once, in any order.
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
}

/// The postings of a bucket, and the weight of the bucket in the query.
struct Scattered<'a> {
    codes: &'a [u16],
    overflow: &'a [Overflow],
    weight: u16,
}

/// The state of a search, which goes through the blocks.
struct Search<'a> {
    index: &'a HashedTfIndex,
    /// The buckets of the query and their counts.
    query: &'a [(u16, u32)],
    squared_norm: u64,
    /// The same number as f64.
    wide_norm: f64,
    level: Level,
    /// The number of nearest rows that are wanted, if it is known.
    limit: Option<usize>,
    /// Rows with a larger distance are of no interest.
    max_distance: f64,
    /// A row is certainly farther if its squared dot product is not above this bound times its squared norm.
    bound: f32,
    /// The bound from the estimate before any row was visited.
    least_bound: f32,
    /// The postings of the present block.
    now: Gathered<'a>,
    /// The postings of the next block, looked up early so that they are prefetched into the cache.
    next: Gathered<'a>,
}

/// The postings of the query's buckets in a block.
#[derive(Default)]
struct Gathered<'a> {
    columns: Vec<(&'a Column, u16)>,
    lists: Vec<Scattered<'a>>,
}

impl<'a> Gathered<'a> {
    /// Empty lists that reuse the same memory.
    fn emptied<'b>(mut self) -> Gathered<'b> {
        self.clear();
        // The vectors are empty, so only their types change, and their memory is reused.
        Gathered {
            columns: self.columns.into_iter().map_while(|_| None).collect(),
            lists: self.lists.into_iter().map_while(|_| None).collect(),
        }
    }

    fn clear(&mut self) {
        self.columns.clear();
        self.lists.clear();
    }

    fn push(&mut self, list: Scattered<'a>, column: Option<&'a Column>) {
        if let Some(column) = column {
            column.prefetch();
            self.columns.push((column, list.weight));
        }
        if !(list.codes.is_empty() && list.overflow.is_empty()) {
            prefetch(list.codes);
            self.lists.push(list);
        }
    }
}

impl<'a> Search<'a> {
    /// Calls `visit` with the rows that are near enough, in ascending order of number. `visit` returns the largest
    /// distance that is of interest from now on.
    ///
    /// With `limit`, rows may be left out that are certainly not among the `limit` nearest.
    fn run(
        index: &'a HashedTfIndex,
        query: &'a [(u16, u32)],
        limit: Option<usize>,
        mut visit: impl FnMut(Neighbor) -> f64,
    ) {
        let squares = query.iter().map(|&(_, count)| u64::from(count).pow(2));
        let squared_norm = squares.sum();
        // The buffers are taken out, so that a search inside `visit` gets buffers of its own.
        let mut scratch = SCRATCH.with(Cell::take).unwrap_or_default();
        let [now, next] = mem::take(&mut scratch.gathered);
        #[expect(clippy::cast_precision_loss, reason = "as distances take it")]
        let mut search = Self {
            index,
            query,
            squared_norm,
            wide_norm: squared_norm as f64,
            level: Level::current(),
            limit,
            max_distance: f64::INFINITY,
            bound: 0.0,
            least_bound: 0.0,
            now: now.emptied(),
            next: next.emptied(),
        };
        let blocks = index.postings.blocks().len();
        if blocks > 0 {
            search.gather(0);
        }
        for number in 0..blocks {
            mem::swap(&mut search.now, &mut search.next);
            if number + 1 < blocks {
                search.gather(number + 1);
            }
            // By the Cauchy-Schwarz inequality, no dot product is above the root of this product.
            let largest = search.squared_norm.checked_mul(index.largest[number]);
            if largest.is_some_and(|squared| squared < 1 << (2 * u16::BITS)) {
                search.block(number, &mut scratch, &mut visit);
            } else {
                search.large_block(number, &mut visit);
            }
        }
        scratch.gathered = [search.now.emptied(), search.next.emptied()];
        SCRATCH.with(|cell| cell.set(Some(scratch)));
    }

    /// Searches a block in which all dot products are below 2^16.
    fn block(
        &mut self,
        number: usize,
        scratch: &mut Scratch,
        visit: &mut impl FnMut(Neighbor) -> f64,
    ) {
        let block = &self.index.postings.blocks()[number];
        let first = number * BLOCK / GROUP;
        let norms = &self.index.norms[first..];
        let norms = &norms[..norms.len().min(BLOCK / GROUP)];
        let roots = &self.index.roots[first..];
        self.sum(number, norms.len() * GROUP, scratch);
        let groups = &mut scratch.sums.as_chunks_mut::<GROUP>().0[..norms.len()];
        if let Some(removed) = block.removed() {
            for (group, sums) in groups.iter_mut().enumerate() {
                let mut bits = removed.group(group);
                while bits != 0 {
                    sums[bits.trailing_zeros() as usize] = 0;
                    bits &= bits - 1;
                }
            }
        }
        self.estimate(groups, norms);
        let (mut from, mut known, mut factor_of) = (0, self.bound, factor(self.bound));
        while let Some((group, mut live)) = next_above(groups, roots, factor_of, from) {
            from = group + 1;
            while live != 0 {
                let place = live.trailing_zeros() as usize;
                live &= live - 1;
                let (sum, norm) = (groups[group][place], norms[group][place]);
                if f32::from(sum) * f32::from(sum) > self.bound * norm {
                    self.visit((first + group) * GROUP + place, f64::from(sum), visit);
                }
            }
            if self.bound > known {
                (known, factor_of) = (self.bound, factor(self.bound));
            }
        }
    }

    /// Looks up the postings of the query's buckets in a block.
    fn gather(&mut self, number: usize) {
        let (index, query) = (self.index, self.query);
        self.next.clear();
        // Blocks that use these weights have only dot products below 2^16, so a larger weight has no effect.
        let narrow = |weight| u16::try_from(weight).unwrap_or(u16::MAX);
        for part in index.postings.blocks()[number].parts() {
            for &(bucket, weight) in query {
                let Some(list) = part.list(bucket) else {
                    continue;
                };
                let (codes, overflow, weight) = (list.codes, list.overflow, narrow(weight));
                let scattered = Scattered {
                    codes,
                    overflow,
                    weight,
                };
                self.next.push(scattered, list.column);
            }
        }
        let newest = index.postings.fresh(number);
        if let Some(lists) = newest.and_then(Tail::lists) {
            for &(bucket, weight) in query {
                let list = lists.get(bucket);
                let scattered = Scattered {
                    codes: list.codes,
                    overflow: &[],
                    weight: narrow(weight),
                };
                self.next.push(scattered, list.column);
            }
        }
    }

    /// Computes the dot product of each row of the present block.
    fn sum(&self, number: usize, entries: usize, scratch: &mut Scratch) {
        let Scratch { sums, weights, .. } = scratch;
        set_columns(self.level, sums, entries, &self.now.columns);
        for list in &self.now.lists {
            for &code in list.codes {
                let sum = &mut sums[usize::from(entry(code))];
                *sum = sum.wrapping_add(list.weight.wrapping_mul(count(code)));
            }
            for above in list.overflow {
                let more = u16::try_from(above.more).unwrap_or(u16::MAX);
                let sum = &mut sums[usize::from(above.entry)];
                *sum = sum.wrapping_add(list.weight.wrapping_mul(more));
            }
        }
        let newest = self.index.postings.fresh(number);
        if let Some(few) = newest.map(Tail::few) {
            self.add_few(few, sums, weights);
        }
    }

    /// Adds the newest rows, which are not in lists yet: each of their buckets is looked up in the query.
    fn add_few(&self, few: &Fresh<u16>, sums: &mut Sums, weights: &mut [u16; BUCKETS]) {
        if few.is_empty() {
            return;
        }
        for &(bucket, weight) in self.query {
            weights[usize::from(bucket) % BUCKETS] = u16::try_from(weight).unwrap_or(u16::MAX);
        }
        few.for_each_row(|entry, row| {
            let mut sum = 0_u16;
            for (&bucket, &count) in row {
                let weight = weights[usize::from(bucket) % BUCKETS];
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "of a product below 2^16, or of 0"
                )]
                let count = count as u16;
                sum = sum.wrapping_add(weight.wrapping_mul(count));
            }
            sums[usize::from(entry) % BLOCK] = sum;
        });
        for &(bucket, _) in self.query {
            weights[usize::from(bucket) % BUCKETS] = 0;
        }
    }

    /// Finds a bound before any row is visited, which at least `limit` rows reach.
    ///
    /// By the Cauchy-Schwarz inequality, no value is above the squared norm of the query.
    #[expect(clippy::cast_possible_truncation, reason = "ROOM is more than is lost")]
    fn estimate(&mut self, sums: &[[u16; GROUP]], norms: &[[f32; GROUP]]) {
        let Some(limit) = self.limit.filter(|&limit| limit <= LANES / 2) else {
            return;
        };
        if self.bound > 0.0 || sums.len() < 4 {
            return;
        }
        let largest = self.wide_norm as f32;
        let reached = reached(sums, norms, largest, limit);
        let bound = (f64::from(reached) * (1.0 - ROOM)) as f32;
        (self.bound, self.least_bound) = (bound, bound);
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
                self.bound = bound(max_distance, self.wide_norm).max(self.least_bound);
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
