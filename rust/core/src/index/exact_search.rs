//! One search of the exact index: sums of integers a block at a time, and a distance for few of them.

use std::cell::Cell;
use std::mem;

use crate::index::base::{Neighbor, VectorIndex, distance_of};
use crate::index::exact::HashedTfIndex;
use crate::postings::{BLOCK, Fresh, Overflow, Tail, count, entry};
use crate::simd::Level;
use crate::simd::columns::{Column, Sums, set_columns};
use crate::simd::lanes::{LANES, reached};
use crate::simd::prefetch::prefetch;
use crate::simd::scan::{GROUP, factor, next_above};
use crate::top_k::TopK;
use crate::vector::{BUCKETS, SparseRow};

/// What rounding takes at most of either side of the comparison, and more.
const ROOM: f64 = 1e-6;

/// What a search writes to. A thread keeps one from search to search.
struct Scratch {
    sums: Sums,
    /// The weight of each bucket; all 0 between searches.
    weights: [u16; BUCKETS],
    /// What blocks have, kept for its room.
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
    /// Calls `visit` with each row that shares a bucket with `query` and is near enough, in ascending order
    /// of number.
    ///
    /// `visit` gives the largest distance that is of interest from now on, and may be called for some
    /// that are farther.
    pub fn for_each_near(&self, query: &SparseRow, visit: impl FnMut(Neighbor) -> f64) {
        let counts: Vec<_> = query.iter().collect();
        Search::run(self, &counts, None, visit);
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

/// Postings of a bucket, and the weight of it.
struct Scattered<'a> {
    codes: &'a [u16],
    overflow: &'a [Overflow],
    weight: u16,
}

/// A search on its way through the blocks.
struct Search<'a> {
    index: &'a HashedTfIndex,
    /// Buckets and their counts.
    query: &'a [(u16, u32)],
    squared_norm: u64,
    /// The same, as distances take it.
    wide_norm: f64,
    level: Level,
    /// How many of the nearest are asked for, if it is known.
    limit: Option<usize>,
    /// What is farther is of no interest.
    max_distance: f64,
    /// A row whose dot squared is not above this times its squared norm is certainly farther.
    bound: f32,
    /// The same, of what was known before a row was visited.
    least_bound: f32,
    /// Of the block at hand.
    now: Gathered<'a>,
    /// Of the block that comes, so that they are in the cache by then.
    next: Gathered<'a>,
}

/// What the buckets of the query have in a block.
#[derive(Default)]
struct Gathered<'a> {
    columns: Vec<(&'a Column, u16)>,
    lists: Vec<Scattered<'a>>,
}

impl<'a> Gathered<'a> {
    /// No lists, and the same memory.
    fn emptied<'b>(mut self) -> Gathered<'b> {
        self.clear();
        // The vectors are empty: only their types change, and their memory stays.
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
    /// Calls `visit` with the rows that are near enough, in ascending order of number. It gives the largest
    /// distance that is of interest from now on.
    ///
    /// Where `limit` is given, rows that are certainly not among so many of the nearest may be left out.
    fn run(
        index: &'a HashedTfIndex,
        query: &'a [(u16, u32)],
        limit: Option<usize>,
        mut visit: impl FnMut(Neighbor) -> f64,
    ) {
        let squares = query.iter().map(|&(_, count)| u64::from(count).pow(2));
        let squared_norm = squares.sum();
        // Taken, so that a search inside of `visit` has one of its own.
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
            // By Cauchy and Schwarz no dot is above the root of the product.
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

    /// The rows of a block whose dots are below 2^16.
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
        while let Some((group, mut live)) = next_above(self.level, groups, roots, factor_of, from) {
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

    /// Looks up what the buckets of the query have in a block.
    fn gather(&mut self, number: usize) {
        let (index, query) = (self.index, self.query);
        self.next.clear();
        // Every product is part of a dot that is below 2^16.
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

    /// The dot of each row of the block at hand.
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

    /// Rows that lie as they came: each of their buckets is looked up in the query.
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

    /// Looks for a bound before any row is visited: as many rows reach it as are asked for.
    ///
    /// No value is above the square of the query's length, by Cauchy and Schwarz.
    #[expect(clippy::cast_possible_truncation, reason = "ROOM is more than is lost")]
    fn estimate(&mut self, sums: &[[u16; GROUP]], norms: &[[f32; GROUP]]) {
        let Some(limit) = self.limit.filter(|&limit| limit <= LANES / 2) else {
            return;
        };
        if self.bound > 0.0 || sums.len() < 4 {
            return;
        }
        let largest = self.wide_norm as f32;
        let reached = reached(self.level, sums, norms, largest, limit);
        let bound = (f64::from(reached) * (1.0 - ROOM)) as f32;
        (self.bound, self.least_bound) = (bound, bound);
    }

    /// The rows of a block with a text so long that a dot may be of any size.
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

    /// Visits a row by its exact distance, unless that is too far.
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

/// `dot / sqrt(q * n) >= 1 - max_distance` is `dot^2 >= (1 - max_distance)^2 * q * n`, and what rounding
/// takes goes off.
#[expect(clippy::cast_possible_truncation, reason = "ROOM is more than is lost")]
fn bound(max_distance: f64, squared_norm: f64) -> f32 {
    let cosine = (1.0 - max_distance - f64::EPSILON * 8.0).max(0.0);
    (cosine * cosine * squared_norm * (1.0 - ROOM)) as f32
}
