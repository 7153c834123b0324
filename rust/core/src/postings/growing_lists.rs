//! The newest entries of a block in growing posting lists: one for each term, or one for each bucket.
//!
//! Terms are hashes, and most of them are rare. They are stored in several hash tables, one for each value of their
//! first bits: a single table is small enough to be enlarged or sorted within one insert. Up to [`INLINE`] codes
//! lie in the table itself, longer lists in a pool. The rest of a count above 15 is stored beside the codes, as in
//! a part.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use crate::postings::dictionary::{BUCKETS, Buckets, Hashes};
use crate::postings::newest::{Growing, Lists};
use crate::postings::part::{Builder, MAX_CODE, code, count, entry};
use crate::simd::columns::{BLOCK, Column};

/// The first bits of a term, which select its table.
const TABLE_BITS: u32 = 6;
const TABLES: usize = 1 << TABLE_BITS;
/// The largest number of codes that lie in the table itself.
const INLINE: u16 = 2;

/// A term, and where its codes lie.
#[derive(Clone, Debug)]
struct Slot {
    term: u64,
    /// The codes themselves where the list is not in the pool (`room` is 0); otherwise the two halves of its place
    /// there.
    place: [u16; INLINE as usize],
    len: u16,
    room: u16,
}

impl Slot {
    fn start(&self) -> usize {
        let [low, high] = self.place;
        usize::from(high) << u16::BITS | usize::from(low)
    }

    /// Gives a full list more room.
    fn grow(&mut self, pool: &mut Pool) {
        let from = if self.room == 0 { 0 } else { self.start() };
        let (start, room) = pool.grow(from, self.room);
        if self.room == 0 {
            let len = usize::from(self.len);
            pool.codes[start as usize..][..len].copy_from_slice(&self.place[..len]);
        }
        let [low0, low1, high0, high1] = start.to_le_bytes();
        self.place = [[low0, low1], [high0, high1]].map(u16::from_le_bytes);
        self.room = room;
    }
}

/// A list for each term.
#[derive(Clone, Debug)]
pub struct TermLists {
    tables: Box<[HashTable<Slot>; TABLES]>,
    hasher: DefaultHashBuilder,
    pool: Pool,
    /// The rest of each count above 15, by term and entry.
    above: HashMap<(u64, u16), u32>,
    postings: usize,
}

impl Default for TermLists {
    fn default() -> Self {
        Self {
            tables: Box::new([const { HashTable::new() }; TABLES]),
            hasher: DefaultHashBuilder::default(),
            pool: Pool::default(),
            above: HashMap::new(),
            postings: 0,
        }
    }
}

impl TermLists {
    /// The codes of `term`, ascending by entry; none where no entry has it.
    #[inline]
    #[must_use]
    pub fn get(&self, term: u64) -> &[u16] {
        let table = &self.tables[table_of(term)];
        let slot = table.find(self.hasher.hash_one(term), |slot| slot.term == term);
        slot.map_or(&[], |slot| self.codes(slot))
    }

    /// How often `entry` has `term` beyond 15 times.
    #[must_use]
    pub(crate) fn more_of(&self, term: u64, entry: u16) -> u32 {
        self.above.get(&(term, entry)).copied().unwrap_or(0)
    }

    /// Calls `visit` with each term.
    pub(crate) fn for_each_term(&self, mut visit: impl FnMut(u64)) {
        let slots = self.tables.iter().flatten();
        slots.for_each(|slot| visit(slot.term));
    }

    #[inline]
    fn codes<'a>(&'a self, slot: &'a Slot) -> &'a [u16] {
        if slot.room == 0 {
            &slot.place[..usize::from(slot.len)]
        } else {
            &self.pool.codes[slot.start()..][..usize::from(slot.len)]
        }
    }

    #[inline]
    fn push_code(&mut self, term: u64, code: u16) {
        let hasher = &self.hasher;
        let table = &mut self.tables[table_of(term)];
        let slot = table
            .entry(
                hasher.hash_one(term),
                |slot| slot.term == term,
                |slot| hasher.hash_one(slot.term),
            )
            .or_insert_with(|| Slot {
                term,
                place: [0; INLINE as usize],
                len: 0,
                room: 0,
            })
            .into_mut();
        if slot.room == 0 && slot.len < INLINE {
            slot.place[usize::from(slot.len)] = code;
        } else {
            if slot.len >= slot.room {
                slot.grow(&mut self.pool);
            }
            self.pool.codes[slot.start() + usize::from(slot.len)] = code;
        }
        slot.len += 1;
    }

    /// Moves the postings of a table to `builder`. Returns the amount of work.
    fn move_table(&self, table: &HashTable<Slot>, builder: &mut Builder<Hashes>) -> usize {
        let mut slots: Vec<&Slot> = table.iter().collect();
        slots.sort_unstable_by_key(|slot| slot.term);
        let mut moved = slots.len() + 1;
        for slot in slots {
            let codes = self.codes(slot);
            moved += codes.len();
            builder.extend(codes);
            if !self.above.is_empty() {
                for &code in codes
                    .iter()
                    .filter(|&&code| u32::from(count(code)) == MAX_CODE)
                {
                    if let Some(&more) = self.above.get(&(slot.term, entry(code))) {
                        builder.overflow(entry(code), more);
                    }
                }
            }
            builder.end_key(slot.term);
        }
        moved
    }
}

impl Growing for Hashes {
    type Lists = TermLists;
}

impl Lists<Hashes> for TermLists {
    const FEW: usize = 32;

    fn push(&mut self, entry: u16, row: impl IntoIterator<Item = (u64, u32)>) {
        for (term, count) in row {
            self.postings += 1;
            if count > MAX_CODE {
                self.above.insert((term, entry), count - MAX_CODE);
            }
            self.push_code(term, code(entry, count));
        }
    }

    fn postings(&self) -> usize {
        self.postings
    }

    fn bytes(&self) -> usize {
        let tables = self.tables.iter().map(HashTable::allocation_size);
        size_of_val(&*self.tables)
            + tables.sum::<usize>()
            + self.pool.bytes()
            + self.above.allocation_size()
    }

    fn move_to(&self, builder: &mut Builder<Hashes>, from: usize, budget: usize) -> Option<usize> {
        let mut moved = 0;
        for (number, table) in self.tables.iter().enumerate().skip(from) {
            if moved >= budget {
                return Some(number);
            }
            moved += self.move_table(table, builder);
        }
        None
    }
}

fn table_of(term: u64) -> usize {
    usize::try_from(term >> (u64::BITS - TABLE_BITS)).unwrap_or(0) % TABLES
}

// The newest entries of a block, by bucket: one growing posting list for each of the 4,096 buckets.
//
// A list of more than [`LARGEST`] codes becomes a column. A count above 15 is stored as several codes of one
// entry.

/// The largest capacity of a list, in codes. Above it a column, which takes 2 KB, is cheaper for a query.
const LARGEST: u16 = 256;
/// Codes that found their list full, and are added together afterwards.
const AT_ONCE: usize = 64;
/// A place in the pool that belongs to no list.
const NO_PLACE: usize = 0;
/// The length value that marks a list as a column.
const DENSE: u16 = u16::MAX;

/// The counts of the newest entries for one bucket: the sum of `codes` and `column`.
#[derive(Clone, Copy, Debug)]
pub struct GrowingList<'a> {
    /// Codes, ascending by entry; an entry with a count above 15 has several.
    pub codes: &'a [u16],
    /// For a frequent bucket, the counts up to 15 of the entries.
    pub column: Option<&'a Column>,
}

impl GrowingList<'_> {
    /// Calls `visit` with each code of both, in no order.
    pub(crate) fn for_each_code(&self, mut visit: impl FnMut(u16)) {
        if let Some(column) = self.column {
            let codes = column
                .iter()
                .map(|(entry, count)| code(entry, count.into()));
            codes.for_each(&mut visit);
        }
        self.codes.iter().copied().for_each(visit);
    }
}

/// The place of a bucket's codes in the pool, or the number of its column.
#[derive(Clone, Copy, Debug, Default)]
struct BucketSlot {
    start: u32,
    len: u16,
    room: u16,
}

/// A list that became a column.
#[derive(Clone, Debug)]
struct Dense {
    column: Column,
    entries: usize,
    /// Further codes of entries that are in the column already.
    above: Vec<u16>,
}

impl Dense {
    fn push(&mut self, code: u16) {
        if self.column.get(entry(code)) == 0 {
            self.column.set(entry(code), count(code));
            self.entries += 1;
        } else {
            self.above.push(code);
        }
    }
}

/// A list for each bucket.
#[derive(Clone, Debug)]
pub struct BucketLists {
    slots: Box<[BucketSlot; BUCKETS]>,
    pool: Pool,
    dense: Vec<Dense>,
    postings: usize,
}

impl Default for BucketLists {
    fn default() -> Self {
        let slots = vec![BucketSlot::default(); BUCKETS].into_boxed_slice();
        Self {
            slots: slots.try_into().expect("one for each bucket"),
            pool: Pool::reserving(NO_PLACE + 1),
            dense: Vec::new(),
            postings: 0,
        }
    }
}

impl BucketLists {
    /// The counts of `bucket`, which is below 4,096.
    #[inline]
    #[must_use]
    pub fn get(&self, bucket: u16) -> GrowingList<'_> {
        let slot = self.slots[usize::from(bucket) % BUCKETS];
        let start = slot.start as usize;
        if slot.len == DENSE {
            let dense = &self.dense[start];
            return GrowingList {
                codes: &dense.above,
                column: Some(&dense.column),
            };
        }
        GrowingList {
            codes: &self.pool.codes[start..start + usize::from(slot.len)],
            column: None,
        }
    }

    #[inline(never)]
    fn push_rest(&mut self, rest: &[(u16, u16)]) {
        for &(bucket, code) in rest {
            self.push_to_full(bucket, code);
        }
    }

    #[inline(never)]
    fn push_to_any(&mut self, bucket: u16, code: u16) {
        let slot = &mut self.slots[usize::from(bucket) % BUCKETS];
        if slot.len < slot.room {
            self.pool.codes[slot.start as usize + usize::from(slot.len)] = code;
            slot.len += 1;
        } else {
            self.push_to_full(bucket, code);
        }
    }

    fn push_to_full(&mut self, bucket: u16, code: u16) {
        let number = usize::from(bucket) % BUCKETS;
        let slot = self.slots[number];
        if slot.len == DENSE {
            self.dense[slot.start as usize].push(code);
            return;
        }
        if slot.room == LARGEST {
            self.make_dense(number);
            self.dense[self.slots[number].start as usize].push(code);
            return;
        }
        let (start, room) = self.pool.grow(slot.start as usize, slot.room);
        self.pool.codes[start as usize + usize::from(slot.len)] = code;
        let len = slot.len + 1;
        self.slots[number] = BucketSlot { start, len, room };
    }

    fn make_dense(&mut self, number: usize) {
        let slot = self.slots[number];
        let mut dense = Dense {
            column: Column::default(),
            entries: 0,
            above: Vec::new(),
        };
        let start = slot.start as usize;
        for &code in &self.pool.codes[start..start + usize::from(slot.len)] {
            dense.push(code);
        }
        self.pool.leave(start, slot.room);
        self.slots[number] = BucketSlot {
            start: u32::try_from(self.dense.len()).expect("there are 4,096 buckets"),
            len: DENSE,
            room: 0,
        };
        self.dense.push(dense);
    }

    /// Moves the postings of `bucket` to `builder`. Returns the amount of work, in codes.
    fn move_bucket(&self, bucket: u16, builder: &mut Builder<Buckets>) -> usize {
        let GrowingList { codes, column } = self.get(bucket);
        let mut moved = codes.len();
        if let Some(column) = column {
            moved += BLOCK / 8;
            let slot = self.slots[usize::from(bucket) % BUCKETS];
            builder.column(column, self.dense[slot.start as usize].entries);
            for same in codes.chunk_by(|&one, &other| entry(one) == entry(other)) {
                builder.overflow(entry(same[0]), sum(same));
            }
        } else if codes.is_sorted_by(|&one, &other| entry(one) < entry(other)) {
            builder.extend(codes);
        } else {
            for same in codes.chunk_by(|&one, &other| entry(one) == entry(other)) {
                builder.push(same[0]);
                if same.len() > 1 {
                    builder.overflow(entry(same[0]), sum(&same[1..]));
                }
            }
        }
        if moved > 0 {
            builder.end_key(bucket);
        }
        moved
    }
}

impl Growing for Buckets {
    type Lists = BucketLists;
}

impl Lists<Buckets> for BucketLists {
    const FEW: usize = 64;

    /// Whether a list has room cannot be predicted by the processor, since most rows have some frequent buckets. So
    /// each code is written without a branch: to its list, or to an unused place if the list is full. The codes
    /// that found no room are added afterwards.
    #[inline]
    fn push(&mut self, entry: u16, row: impl IntoIterator<Item = (u16, u32)>) {
        let (mut rest, mut waiting) = ([(0_u16, 0_u16); AT_ONCE], 0);
        for (bucket, mut count) in row {
            self.postings += 1;
            while count > MAX_CODE {
                self.push_to_any(bucket, code(entry, MAX_CODE));
                count -= MAX_CODE;
            }
            let code = code(entry, count);
            let slot = &mut self.slots[usize::from(bucket) % BUCKETS];
            let has_room = slot.len < slot.room;
            let place = slot.start as usize + usize::from(slot.len);
            self.pool.codes[if has_room { place } else { NO_PLACE }] = code;
            slot.len += u16::from(has_room);
            rest[waiting] = (bucket, code);
            waiting += usize::from(!has_room);
            if waiting == AT_ONCE {
                self.push_rest(&rest);
                waiting = 0;
            }
        }
        self.push_rest(&rest[..waiting]);
    }

    fn postings(&self) -> usize {
        self.postings
    }

    fn bytes(&self) -> usize {
        let above = self.dense.iter().map(|dense| dense.above.capacity() * 2);
        size_of_val(&*self.slots)
            + self.pool.bytes()
            + above.sum::<usize>()
            + self.dense.len() * (size_of::<Dense>() + BLOCK / 2)
    }

    fn move_to(&self, builder: &mut Builder<Buckets>, from: usize, budget: usize) -> Option<usize> {
        let mut moved = 0;
        for (number, bucket) in (0_u16..).take(BUCKETS).enumerate().skip(from) {
            if moved >= budget {
                return Some(number);
            }
            moved += self.move_bucket(bucket, builder) + 1;
        }
        None
    }
}

fn sum(codes: &[u16]) -> u32 {
    codes.iter().map(|&code| u32::from(count(code))).sum()
}

// The memory of growing lists: each has room for 4 codes, then 16, then 64 and so on, all in one vector.
//
// A full list moves to a place with four times as much room. Its old place is reused by the next list of that
// size.

/// The first capacity of a list, in codes.
const SMALLEST: u16 = 4;
/// The factor by which a list grows. A factor of 2 would save memory, and cost more moves.
const GROWTH: u16 = 4;
const SIZES: usize = (BLOCK / SMALLEST as usize).ilog(GROWTH as usize) as usize + 1;
/// The least number of codes that the pool grows by.
const LEAST: usize = 256;

/// The codes of all lists, and the places that are free.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    pub(super) codes: Vec<u16>,
    /// The starts of free places, by size.
    free: [Vec<u32>; SIZES],
}

impl Pool {
    /// A pool whose first codes belong to no list.
    fn reserving(codes: usize) -> Self {
        Self {
            codes: vec![0; codes],
            free: Default::default(),
        }
    }

    /// Moves the full list at `start` to a larger place; a list without a place gets its first. Returns the start
    /// of the new place, and its size.
    pub(super) fn grow(&mut self, start: usize, room: u16) -> (u32, u16) {
        let larger = (GROWTH * room).max(SMALLEST);
        let to = self.take(larger);
        if room > 0 {
            self.codes
                .copy_within(start..start + usize::from(room), to as usize);
            self.leave(start, room);
        }
        (to, larger)
    }

    /// Frees the place of a list for the next list of its size.
    pub(super) fn leave(&mut self, start: usize, room: u16) {
        self.free[size(room)].push(narrow(start));
    }

    fn take(&mut self, room: u16) -> u32 {
        if let Some(start) = self.free[size(room)].pop() {
            return start;
        }
        let start = self.codes.len();
        let end = start + usize::from(room);
        if end > self.codes.capacity() {
            // A quarter more, not twice as much: it is one large piece of memory.
            let more = (start / 4).max(LEAST).max(usize::from(room));
            self.codes.reserve_exact(more);
        }
        self.codes.resize(end, 0);
        narrow(start)
    }

    /// Its size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let free = self.free.iter().map(|free| free.capacity() * 4);
        self.codes.capacity() * 2 + free.sum::<usize>()
    }
}

/// The number of a size.
fn size(room: u16) -> usize {
    (room / SMALLEST).ilog(GROWTH) as usize
}

fn narrow(start: usize) -> u32 {
    u32::try_from(start).expect("the lists of a block have fewer than 2^32 codes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postings::newest::{Fresh, Tail};
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Terms that many entries have, that share a table, and that are anywhere.
    fn row() -> impl Strategy<Value = BTreeMap<u64, u32>> {
        let term = prop_oneof![
            8 => (0_u64..20).prop_map(|term| term << 59),
            2 => (0_u64..200).prop_map(|term| 7 << 60 | term),
            1 => any::<u64>(),
        ];
        btree_map(term, prop_oneof![9 => 1_u32..15, 1 => 14_u32..40], 0..12)
    }

    proptest! {
        #[test]
        fn lists_are_what_the_entries_have_and_so_is_their_part(
            first in 0_u16..20,
            rows in prop_oneof![vec(row(), 0..60), vec(row(), 100..1_200)],
            budget in 1_usize..300,
        ) {
            let (mut tail, mut plain) = (Tail::<Hashes>::new(first), Fresh::new(first));
            let mut expected = BTreeMap::<u64, Vec<(u16, u32)>>::new();
            for (entry, row) in (first..).zip(&rows) {
                tail.push(row.iter().map(|(&term, &count)| (term, count)));
                plain.push(row.iter().map(|(&term, &count)| (term, count)));
                for (&term, &count) in row {
                    expected.entry(term).or_default().push((entry, count));
                }
            }
            prop_assert_eq!(tail.is_empty(), rows.is_empty());
            prop_assert_eq!(tail.postings(), plain.postings());
            prop_assert_eq!(tail.lists().is_some(), rows.len() > TermLists::FEW);
            if let Some(lists) = tail.lists() {
                prop_assert_eq!(tail.few().postings(), 0);
                let absent = (1..=20_000).find(|term| !expected.contains_key(term));
                prop_assert!(absent.is_some_and(|term| lists.get(term).is_empty()));
                for (&term, has) in &expected {
                    let found = lists.get(term).iter().map(|&code| {
                        let more = lists.more_of(term, entry(code));
                        (entry(code), u32::from(count(code)) + more)
                    });
                    prop_assert_eq!(&found.collect::<Vec<_>>(), has);
                }
            }
            let mut terms = BTreeSet::new();
            tail.few().for_each(|_, term, _| { terms.insert(term); });
            if let Some(lists) = tail.lists() {
                lists.for_each_term(|term| { terms.insert(term); });
            }
            prop_assert!(terms.iter().eq(expected.keys()));

            let mut builder = Builder::<Hashes>::new(usize::MAX, 0);
            let mut from = Some(0);
            while let Some(next) = from {
                from = tail.move_to(&mut builder, next, budget);
            }
            let mut twin = Builder::<Hashes>::new(usize::MAX, 0);
            plain.move_to(&mut twin);
            let (part, twin) = (builder.finish(), twin.finish());
            prop_assert_eq!(part.keys(), twin.keys());
            for place in 0..part.keys().len() {
                let (list, other) = (part.list_at(place), twin.list_at(place));
                prop_assert_eq!(list.codes, other.codes);
                prop_assert_eq!(list.overflow, other.overflow);
            }
        }
    }
}
