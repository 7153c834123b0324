//! The newest entries of a block, term by term: lists that grow where they lie.
//!
//! As [`Tail`](crate::postings::Tail) has them for buckets, but terms are hashes, and most of them are rare.
//! So they are looked up in tables, one for all that share their first bits: a table is small enough to be
//! made larger, or to be put in order, while an insert waits. Up to [`INLINE`] codes lie in the table itself,
//! and more of them in a pool: room for 4, 16, 64 and so on; what a list leaves is given to the next one of
//! that size. Counts above 15 are beside the codes, as they are in a part.

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use std::hash::BuildHasher;

use crate::postings::dictionary::Dictionary;
use crate::postings::fresh::Fresh;
use crate::postings::newest::Newest;
use crate::postings::part::{Builder, MAX_CODE, code, count, entry};
use crate::simd::columns::BLOCK;

/// Entries that lie as they came: fewer bytes, and a query reads them nearly as fast.
const FEW: usize = 32;
/// Bits of a term that say in which table it is.
const TABLE_BITS: u32 = 6;
const TABLES: usize = 1 << TABLE_BITS;
/// Codes that lie in the table.
const INLINE: u16 = 2;
/// The room of a list in the pool at first, and how many times as much it gets when it moves.
const SMALLEST: u16 = 4;
const GROWTH: u16 = 4;
const SIZES: usize = (BLOCK / SMALLEST as usize).ilog(GROWTH as usize) as usize + 1;

/// The newest entries of a block.
#[derive(Clone, Debug)]
pub struct TermTail {
    first: u16,
    len: u16,
    few: Fresh<u64>,
    lists: Option<Box<TermLists>>,
}

impl TermTail {
    /// The entries that lie as they came; there are none where there are lists.
    #[must_use]
    pub fn few(&self) -> &Fresh<u64> {
        &self.few
    }

    /// The lists, where there are some.
    #[must_use]
    pub fn lists(&self) -> Option<&TermLists> {
        self.lists.as_deref()
    }

    /// Calls `visit` with each term, with some more than once.
    pub fn for_each_term(&self, mut visit: impl FnMut(u64)) {
        self.few.for_each(|_, term, _| visit(term));
        let tables = self.lists.iter().flat_map(|lists| lists.tables.iter());
        tables.flatten().for_each(|slot| visit(slot.term));
    }
}

impl Newest<u64> for TermTail {
    fn new(first: u16) -> Self {
        Self {
            first,
            len: 0,
            few: Fresh::new(first),
            lists: None,
        }
    }

    fn push(&mut self, row: impl IntoIterator<Item = (u64, u32)>) {
        let entry = self.first + self.len;
        self.len += 1;
        if let Some(lists) = &mut self.lists {
            lists.push(entry, row);
            return;
        }
        self.few.push(row);
        if self.few.len() > FEW {
            let mut lists = Box::new(TermLists::default());
            self.few
                .for_each(|entry, term, count| lists.push(entry, [(term, count)]));
            self.lists = Some(lists);
            self.few = Fresh::new(self.first);
        }
    }

    fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn postings(&self) -> usize {
        let lists = self.lists.as_ref().map_or(0, |lists| lists.postings);
        self.few.postings() + lists
    }

    fn bytes(&self) -> usize {
        self.few.bytes() + self.lists.as_ref().map_or(0, |lists| lists.bytes())
    }

    fn move_to<D: Dictionary<Key = u64>>(
        &self,
        builder: &mut Builder<D>,
        from: usize,
        budget: usize,
    ) -> Option<usize> {
        let Some(lists) = &self.lists else {
            return self.few.move_to(builder, from, budget);
        };
        let mut moved = 0;
        for (number, table) in lists.tables.iter().enumerate().skip(from) {
            if moved >= budget {
                return Some(number);
            }
            moved += lists.move_table(table, builder);
        }
        None
    }
}

/// A term, and where its codes lie.
#[derive(Clone, Debug)]
struct Slot {
    term: u64,
    /// The codes themselves where there is no room in the pool; otherwise the halves of their place there.
    place: [u16; INLINE as usize],
    len: u16,
    room: u16,
}

impl Slot {
    fn start(&self) -> usize {
        let [low, high] = self.place;
        usize::from(high) << u16::BITS | usize::from(low)
    }
}

/// A list for each term.
#[derive(Clone, Debug)]
pub struct TermLists {
    tables: Box<[HashTable<Slot>; TABLES]>,
    hasher: DefaultHashBuilder,
    pool: Pool,
    /// What an entry has of a term above 15.
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
    pub fn more_of(&self, term: u64, entry: u16) -> u32 {
        self.above.get(&(term, entry)).copied().unwrap_or(0)
    }

    #[inline]
    fn codes<'a>(&'a self, slot: &'a Slot) -> &'a [u16] {
        if slot.room == 0 {
            &slot.place[..usize::from(slot.len)]
        } else {
            &self.pool.codes[slot.start()..][..usize::from(slot.len)]
        }
    }

    fn push(&mut self, entry: u16, row: impl IntoIterator<Item = (u64, u32)>) {
        for (term, count) in row {
            self.postings += 1;
            if count > MAX_CODE {
                self.above.insert((term, entry), count - MAX_CODE);
            }
            self.push_code(term, code(entry, count));
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
                self.pool.move_list(slot);
            }
            self.pool.codes[slot.start() + usize::from(slot.len)] = code;
        }
        slot.len += 1;
    }

    /// Gives the postings of a table to `builder`, and says how much work that was.
    fn move_table<D: Dictionary<Key = u64>>(
        &self,
        table: &HashTable<Slot>,
        builder: &mut Builder<D>,
    ) -> usize {
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

    fn bytes(&self) -> usize {
        let tables = self.tables.iter().map(HashTable::allocation_size);
        size_of_val(&*self.tables)
            + tables.sum::<usize>()
            + self.pool.bytes()
            + self.above.allocation_size()
    }
}

fn table_of(term: u64) -> usize {
    usize::try_from(term >> (u64::BITS - TABLE_BITS)).unwrap_or(0) % TABLES
}

/// Where the codes lie of terms that have more than a few.
#[derive(Clone, Debug, Default)]
struct Pool {
    codes: Vec<u16>,
    /// Places that lists have left, by size.
    left: [Vec<u32>; SIZES],
}

impl Pool {
    /// Gives a list that is full more room.
    fn move_list(&mut self, slot: &mut Slot) {
        let room = (GROWTH * slot.room).max(SMALLEST);
        let len = usize::from(slot.len);
        let start = self.take(room) as usize;
        if slot.room == 0 {
            self.codes[start..start + len].copy_from_slice(&slot.place[..len]);
        } else {
            let from = slot.start();
            self.codes.copy_within(from..from + len, start);
            self.left[size(slot.room)].push(narrow(from));
        }
        let [low0, low1, high0, high1] = narrow(start).to_le_bytes();
        slot.place = [[low0, low1], [high0, high1]].map(u16::from_le_bytes);
        slot.room = room;
    }

    /// Room for that many codes.
    fn take(&mut self, room: u16) -> u32 {
        if let Some(start) = self.left[size(room)].pop() {
            return start;
        }
        let start = self.codes.len();
        let end = start + usize::from(room);
        if end > self.codes.capacity() {
            // A quarter more, not twice as much: it is one large piece of memory.
            self.codes.reserve_exact((start / 4).max(BLOCK));
        }
        self.codes.resize(end, 0);
        narrow(start)
    }

    fn bytes(&self) -> usize {
        let left = self.left.iter().map(|left| left.capacity() * 4);
        self.codes.capacity() * 2 + left.sum::<usize>()
    }
}

/// The number of a size of lists.
fn size(room: u16) -> usize {
    (room / SMALLEST).ilog(GROWTH) as usize
}

fn narrow(place: usize) -> u32 {
    u32::try_from(place).expect("the lists of a block have fewer than 2^32 codes")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::postings::Hashes;

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
            let (mut tail, mut plain) = (TermTail::new(first), Fresh::new(first));
            let mut expected = BTreeMap::<u64, Vec<(u16, u32)>>::new();
            for (entry, row) in (first..).zip(&rows) {
                tail.push(row.iter().map(|(&term, &count)| (term, count)));
                plain.push(row.iter().map(|(&term, &count)| (term, count)));
                for (&term, &count) in row {
                    expected.entry(term).or_default().push((entry, count));
                }
            }
            prop_assert_eq!(tail.len(), rows.len());
            prop_assert_eq!(tail.postings(), plain.postings());
            prop_assert_eq!(tail.lists().is_some(), rows.len() > FEW);
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
            tail.for_each_term(|term| { terms.insert(term); });
            prop_assert!(terms.iter().eq(expected.keys()));

            let mut builder = Builder::<Hashes>::new(usize::MAX, 0);
            let mut from = Some(0);
            while let Some(next) = from {
                from = tail.move_to(&mut builder, next, budget);
            }
            let (part, twin) = (builder.finish(), plain.to_part::<Hashes>(usize::MAX));
            prop_assert_eq!(part.keys(), twin.keys());
            for place in 0..part.keys().len() {
                let (list, other) = (part.list_at(place), twin.list_at(place));
                prop_assert_eq!(list.codes, other.codes);
                prop_assert_eq!(list.overflow, other.overflow);
            }
        }
    }
}
