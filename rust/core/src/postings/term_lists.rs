//! The newest entries of a block, by term: one growing posting list for each term.
//!
//! Terms are hashes, and most of them are rare. They are stored in several hash tables, one for each value of their
//! first bits: a single table is small enough to be enlarged or sorted within one insert. Up to [`INLINE`] codes
//! lie in the table itself, longer lists in a pool. The rest of a count above 15 is stored beside the codes, as in
//! a part.

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use std::hash::BuildHasher;

use crate::postings::dictionary::Hashes;
use crate::postings::part::{Builder, MAX_CODE, code, count, entry};
use crate::postings::pool::Pool;
use crate::postings::tail::{Growing, Lists};

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
    pub fn more_of(&self, term: u64, entry: u16) -> u32 {
        self.above.get(&(term, entry)).copied().unwrap_or(0)
    }

    /// Calls `visit` with each term.
    pub fn for_each_term(&self, mut visit: impl FnMut(u64)) {
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::postings::fresh::Fresh;
    use crate::postings::tail::Tail;

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
