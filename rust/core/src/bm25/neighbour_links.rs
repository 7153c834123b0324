//! The neighbours of each entry: the order of a conversation, whatever the order of insertion.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::cache::{Array, Reader, Writer};

/// How many neighbours an entry has at most, on either side.
pub(super) const REACH: usize = 4;

/// Entries that one word of bits describes.
pub(super) const GROUP: usize = 64;

/// Messages that may be missing between neighbours.
const MAX_GAP: i64 = 2;

/// The value of a link without a neighbour.
const NONE: u32 = u32::MAX;

/// Entries in the order of the messages they came from, each linked to the entry before it and to the one after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// `known` has, in order, the entries from messages that were read from a cache, `order` those that were added
    /// since. Entries are sorted by their first message; of equal ones the entry that was added first comes first.
    known: Array<u32>,
    order: BTreeSet<(i64, u32)>,
    ranges: Vec<(i64, i64)>,
    before: Vec<u32>,
    after: Vec<u32>,
    /// One bit an entry: set if its neighbours are exactly the four numbers before its own and the four numbers
    /// after it.
    regular: Vec<u64>,
    /// One bit an entry: set if it has no neighbours.
    alone: Vec<u64>,
}

impl Chain {
    /// Its approximate bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        const LINK: usize = 2 * size_of::<(i64, u32)>(); // of a tree whose nodes are half full
        let links = self.before.capacity() + self.after.capacity() + self.known.len();
        self.order.len() * LINK
            + self.ranges.capacity() * size_of::<(i64, i64)>()
            + links * size_of::<u32>()
            + (self.regular.capacity() + self.alone.capacity()) * size_of::<u64>()
    }

    /// Writes it to a cache.
    pub(super) fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        let known = self.known.iter().map(|&id| self.place(id));
        let mut order: Vec<(i64, u32)> = known.chain(self.order.iter().copied()).collect();
        order.sort_unstable();
        let (starts, ends): (Vec<i64>, Vec<i64>) = self.ranges.iter().copied().unzip();
        to.put(&starts)?;
        to.put(&ends)?;
        to.put(&order.iter().map(|&(_, id)| id).collect::<Vec<u32>>())?;
        to.put(&self.before)?;
        to.put(&self.after)?;
        to.put(&self.regular)?;
        to.put(&self.alone)
    }

    /// Reads back a chain of `len` entries; None where the data is damaged.
    pub(super) fn read(from: &mut Reader, len: usize) -> Option<Self> {
        let (starts, ends) = (from.array::<i64>()?, from.array::<i64>()?);
        let chain = Self {
            known: from.array()?,
            order: BTreeSet::new(),
            ranges: starts.iter().copied().zip(ends.iter().copied()).collect(),
            before: from.numbers()?,
            after: from.numbers()?,
            regular: from.numbers()?,
            alone: from.numbers()?,
        };
        let links = [&chain.before, &chain.after];
        let lens = [starts.len(), ends.len(), links[0].len(), links[1].len()];
        let bits = [chain.regular.len(), chain.alone.len()];
        let is_entry = |id: u32| (id as usize) < len;
        // All are counted without a branch, as nearly always every one is valid.
        let others = |ids: &[u32]| ids.iter().filter(|&&id| !is_entry(id)).count();
        let nones = |ids: &[u32]| ids.iter().filter(|&&id| id == NONE).count();
        let fits = lens == [len; 4]
            && bits == [len.div_ceil(GROUP); 2]
            && others(&chain.known) == 0
            && links.iter().all(|ids| others(ids) == nones(ids));
        fits.then_some(chain)
    }

    /// The messages that an entry came from.
    pub(super) fn range(&self, id: u32) -> (i64, i64) {
        self.ranges[id as usize]
    }

    /// The sort key of an entry.
    fn place(&self, id: u32) -> (i64, u32) {
        (self.ranges[id as usize].0, id)
    }

    /// The entries just before and just after a sort key that no entry has.
    fn beside(&self, place: (i64, u32)) -> [Option<u32>; 2] {
        let known = &self.known[..];
        let next = known.partition_point(|&id| self.place(id) < place);
        let at = |next: Option<usize>| next.and_then(|next| known.get(next)).copied();
        let place_at = |next| at(next).map(|id| self.place(id));
        let before =
            place_at(next.checked_sub(1)).max(self.order.range(..place).next_back().copied());
        let after = [
            place_at(Some(next)),
            self.order.range(place..).next().copied(),
        ];
        [before, after.into_iter().flatten().min()].map(|place| place.map(|(_, id)| id))
    }

    /// Adds the next entry, which came from the messages `start..end`. An empty range means that it came from no
    /// message: it then has no neighbours.
    pub(super) fn add(&mut self, (start, end): (i64, i64)) {
        let id = u32::try_from(self.ranges.len()).unwrap_or(NONE);
        self.ranges.push((start, end));
        self.before.push(NONE);
        self.after.push(NONE);
        if (id as usize).is_multiple_of(GROUP) {
            self.regular.push(0);
            self.alone.push(0);
        }
        self.mark(id);
        if start >= end {
            return;
        }
        let place = (start, id);
        let [before, after] = self.beside(place);
        self.order.insert(place);
        if let Some(before) = before {
            self.link(before, id);
        }
        if let Some(after) = after {
            self.link(id, after);
        }
        // The new entry changes the neighbours of the entries around it, so their bits are computed anew. An entry
        // at the end of the conversation, which is the usual case, has no entry after it and separated none.
        let beside = after.and(before).into_iter().chain(after);
        for near in beside.chain([id]) {
            for each in self.neighbors(near).into_iter().flatten().flatten() {
                self.mark(each);
            }
            self.mark(near);
        }
    }

    /// The bits of a group of entries: set where the neighbours are the numbers beside the entry's own.
    pub(super) fn regular(&self, group: usize) -> u64 {
        self.regular[group]
    }

    /// The bits of a group of entries: set where the entry has no neighbours.
    pub(super) fn alone(&self, group: usize) -> u64 {
        self.alone[group]
    }

    fn mark(&mut self, id: u32) {
        let neighbors = self.neighbors(id);
        let mut regular = true;
        for (step, place) in (1_u32..).zip(0..REACH) {
            let beside = [id.checked_sub(step), id.checked_add(step)];
            regular &= beside[0].is_some() && neighbors.map(|side| side[place]) == beside;
        }
        let alone = neighbors == [[None; REACH]; 2];
        let (group, bit) = (id as usize / GROUP, id as usize % GROUP);
        for (bits, value) in [(&mut self.regular, regular), (&mut self.alone, alone)] {
            bits[group] = bits[group] & !(1 << bit) | u64::from(value) << bit;
        }
    }

    /// The entries before `id` and those after it, each side with the nearest first.
    #[inline]
    pub(super) fn neighbors(&self, id: u32) -> [[Option<u32>; REACH]; 2] {
        let mut found = [[None; REACH]; 2]; // by loops: closures over arrays are not inlined
        for (links, side) in [&self.before, &self.after].into_iter().zip(&mut found) {
            let mut at = id;
            for place in side {
                at = links[at as usize];
                if at == NONE {
                    break;
                }
                *place = Some(at);
            }
        }
        found
    }

    /// Links two entries that follow each other, unless more than `MAX_GAP` messages are missing between them.
    fn link(&mut self, one: u32, next: u32) {
        let gap = self.ranges[next as usize].0 - self.ranges[one as usize].1;
        let near = gap <= MAX_GAP;
        self.after[one as usize] = if near { next } else { NONE };
        self.before[next as usize] = if near { one } else { NONE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chain(ranges: &[(i64, i64)]) -> Chain {
        let mut chain = Chain::default();
        for &range in ranges {
            chain.add(range);
        }
        chain
    }

    fn from_cache(chain: &Chain) -> Chain {
        let mut to = Writer::new(Vec::new()).unwrap();
        chain.write(&mut to).unwrap();
        let (bytes, checksum) = to.finish().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chain");
        std::fs::write(&path, bytes).unwrap();
        let mut from = Reader::open(&path, checksum).unwrap();
        Chain::read(&mut from, chain.ranges.len()).unwrap()
    }

    proptest! {
        /// As often as it is written and read again, at any length.
        #[test]
        fn a_chain_from_a_cache_grows_as_the_one_that_was_written(
            ranges in proptest::collection::vec((0_i64..90, 0_i64..3), 1..150),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 1..3),
        ) {
            let ranges: Vec<_> = ranges.iter().map(|&(at, len)| (at, at + len)).collect();
            let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(ranges.len())).collect();
            let mut again = Chain::default();
            for (number, &range) in ranges.iter().enumerate() {
                if cuts.contains(&number) {
                    again = from_cache(&again);
                }
                again.add(range);
            }
            let known = chain(&ranges);
            prop_assert_eq!(&again.before, &known.before);
            prop_assert_eq!(&again.after, &known.after);
            prop_assert_eq!(&again.regular, &known.regular);
            prop_assert_eq!(&again.alone, &known.alone);
            prop_assert_eq!(from_cache(&again).known.to_vec(), from_cache(&known).known.to_vec());
        }
    }

    #[test]
    fn neighbours_follow_the_messages_not_the_insertion() {
        let chain = chain(&[(4, 5), (0, 1), (2, 3), (0, 0), (1, 2)]);
        assert_eq!(
            chain.neighbors(2),
            [[Some(4), Some(1), None, None], [Some(0), None, None, None]]
        );
        assert_eq!(chain.neighbors(3), [[None; REACH]; 2]); // it came from no message
    }

    #[test]
    fn bits_say_who_has_the_numbers_beside_its_own_and_who_is_alone() {
        let orders: [&[i64]; 5] = [
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
            &[0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20],
            &[11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
            &[0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 5],
            &[0, 1, 7, 8, 3, 4, 2, 5, 40, 6, 9, 10, 11, 12],
        ];
        for order in orders {
            let ranges: Vec<_> = order.iter().map(|&start| (start, start + 1)).collect();
            for len in 1..=ranges.len() {
                let chain = chain(&ranges[..len]);
                for id in (0_u32..).take(len) {
                    let beside = |sign: i64| {
                        [1, 2, 3, 4].map(|step| u32::try_from(i64::from(id) + sign * step).ok())
                    };
                    let regular = id >= 4 && chain.neighbors(id) == [beside(-1), beside(1)];
                    assert_eq!(chain.regular(0) >> id & 1 == 1, regular, "{order:?} {id}");
                    let alone = chain.neighbors(id) == [[None; REACH]; 2];
                    assert_eq!(chain.alone(0) >> id & 1 == 1, alone, "{order:?} {id}");
                }
            }
        }
    }

    #[test]
    fn a_gap_of_three_messages_parts() {
        let chain = chain(&[(0, 1), (3, 4), (7, 8)]);
        assert_eq!(chain.neighbors(1)[0], [Some(0), None, None, None]);
        assert_eq!(chain.neighbors(1)[1], [None; REACH]);
    }

    #[test]
    fn what_comes_in_between_closes_a_gap() {
        let chain = chain(&[(0, 1), (5, 6), (3, 4)]);
        assert_eq!(chain.neighbors(0)[1], [Some(2), Some(1), None, None]);
        assert_eq!(chain.neighbors(1)[0], [Some(2), Some(0), None, None]);
    }

    #[test]
    fn the_fifth_is_out_of_reach() {
        let chain = chain(&[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]);
        assert_eq!(chain.neighbors(0)[1], [1, 2, 3, 4].map(Some));
    }
}
