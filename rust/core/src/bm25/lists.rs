//! The postings of a query's terms, looked up in all parts at once.

use std::cell::Cell;
use std::mem;

use crate::bm25::terms::Query;
use crate::postings::{Block, Hashes, Part, Postings, Removed, Tail, TermLists, count, entry};
use crate::simd::columns::Column;
use crate::simd::prefetch::prefetch;

/// From how many passages of a block on a term has a column of counts beside its list, to be looked up in.
pub(super) const FREQUENT: usize = 512;
/// Counts of a code.
pub(super) const COUNTS: usize = 16;
/// Codes of a line of the caches.
const LINE: usize = 32;
/// Stands for a term that a part has not.
const NONE: u32 = u32::MAX;

/// The postings of a term in a part, or in the lists of a block that grows.
#[derive(Clone, Copy, Debug)]
pub(super) struct TermList<'a> {
    /// The term, by its place in the query.
    pub(super) term: u32,
    /// Ascending by entry.
    pub(super) codes: &'a [u16],
    /// The same, to be looked up in, for most terms that many passages have.
    column: Option<&'a Column>,
    above: Above<'a>,
}

/// Where is what entries have above 15?
#[derive(Clone, Copy, Debug)]
enum Above<'a> {
    Part(&'a Part<Hashes>, u32),
    Lists(&'a TermLists, u64),
}

impl TermList<'_> {
    /// How often `entry` has the term; 0 for not at all.
    pub(super) fn count_of(&self, entry: u16) -> u32 {
        self.tf_of(self.code_of(entry))
    }

    /// How often the entry of a code has the term.
    #[inline]
    pub(super) fn tf_of(&self, code: u16) -> u32 {
        let count = count(code);
        if usize::from(count) + 1 < COUNTS {
            return count.into();
        }
        let entry = entry(code);
        let more = match self.above {
            Above::Part(part, place) => part.more_at(place as usize, entry),
            Above::Lists(lists, term) => lists.more_of(term, entry),
        };
        u32::from(count) + more
    }

    /// How many passages have the term that were not removed.
    pub(super) fn entries(&self, removed: Option<&Removed>) -> usize {
        removed.map_or(self.codes.len(), |removed| {
            let live = |code: &&u16| !removed.has(entry(**code));
            self.codes.iter().filter(live).count()
        })
    }

    /// The code of `entry`; one with the count 0 where it has not the term.
    #[inline]
    pub(super) fn code_of(&self, entry: u16) -> u16 {
        match self.column {
            Some(column) => code_in(column, entry),
            None => self.code_near(entry),
        }
    }

    /// Fills `codes` with those of `entries`.
    pub(super) fn codes_of(&self, entries: &[u16], codes: &mut Vec<u16>) {
        codes.clear();
        match self.column {
            Some(column) => codes.extend(entries.iter().map(|&entry| code_in(column, entry))),
            None => codes.extend(entries.iter().map(|&entry| self.code_near(entry))),
        }
    }

    #[inline]
    fn code_near(&self, entry: u16) -> u16 {
        let first = self.first_from(entry << COUNTS.trailing_zeros());
        let code = self.codes.get(first).copied();
        code.filter(|&code| self::entry(code) == entry).unwrap_or(0)
    }

    /// The place of the first code that is not smaller. Where entries lie evenly it is near where it would
    /// be if they lay quite so, the nearer the fewer there are.
    #[inline]
    fn first_from(&self, code: u16) -> usize {
        match self.codes.len() {
            0..32 => self.codes.partition_point(|&other| other < code),
            32..256 => self.first_near::<32>(code),
            _ => self.first_near::<64>(code),
        }
    }

    /// The same; looked for among so many codes, without a branch, before it is among all.
    #[inline]
    fn first_near<const WINDOW: usize>(&self, code: u16) -> usize {
        let last = self.codes.last().copied().unwrap_or(0);
        let guess = self.codes.len() * usize::from(entry(code)) / (usize::from(entry(last)) + 1);
        let start = guess
            .saturating_sub(WINDOW / 2)
            .min(self.codes.len().saturating_sub(WINDOW));
        if let Some(near) = self.codes[start..].first_chunk::<WINDOW>()
            && (start == 0 || near[0] < code)
            && (start + WINDOW == self.codes.len() || near[WINDOW - 1] >= code)
        {
            let smaller: u16 = near.iter().map(|&other| u16::from(other < code)).sum();
            return start + usize::from(smaller);
        }
        self.codes.partition_point(|&other| other < code)
    }
}

#[inline]
fn code_in(column: &Column, entry: u16) -> u16 {
    entry << COUNTS.trailing_zeros() | column.get(entry)
}

/// The lists of the terms of a query, by block, then by part, then by term.
#[derive(Debug)]
pub(super) struct ListsOfBlocks<'a> {
    lists: Vec<TermList<'a>>,
    /// Where those of each block begin, and where the last end.
    starts: Vec<usize>,
}

/// Lists that are kept at most: those of 20 terms in 200 blocks, 200 KB.
const KEPT: usize = 4096;

/// Lists that a query is done with, for the next one of its thread.
#[derive(Default)]
struct Spare {
    lists: Vec<TermList<'static>>,
    starts: Vec<usize>,
    slots: Vec<(u32, u32)>,
}

thread_local! {
    static SPARE: Cell<Spare> = Cell::default();
}

impl Drop for ListsOfBlocks<'_> {
    fn drop(&mut self) {
        let (mut lists, starts) = (mem::take(&mut self.lists), mem::take(&mut self.starts));
        if lists.capacity() > KEPT {
            return;
        }
        lists.clear();
        // Where the thread ends there is no next one.
        let _ = SPARE.try_with(|cell| {
            cell.set(Spare {
                // The vector is empty: only its type changes, and its memory stays.
                lists: lists.into_iter().map_while(|_| None).collect(),
                starts,
                slots: cell.take().slots,
            });
        });
    }
}

impl<'a> ListsOfBlocks<'a> {
    pub(super) fn of(postings: &'a Postings<Hashes>, query: &Query) -> Self {
        let blocks = postings.blocks();
        let Spare {
            lists,
            mut starts,
            mut slots,
        } = SPARE.take();
        look_up(blocks, query, &mut slots);
        starts.clear();
        starts.push(0);
        let mut found = Self { lists, starts };
        let mut places = slots.iter();
        for (number, block) in blocks.iter().enumerate() {
            for part in block.parts() {
                let terms = (0..).zip(query.terms());
                for ((term, _), &(place, _)) in terms.zip(&mut places) {
                    if place != NONE {
                        let codes = part.codes_at(place as usize);
                        prefetch(&codes[..codes.len().min(LINE)]);
                        found.lists.push(TermList {
                            term,
                            codes,
                            column: (codes.len() >= FREQUENT)
                                .then(|| part.column_at(place as usize))
                                .flatten(),
                            above: Above::Part(part, place),
                        });
                    }
                }
            }
            if let Some(lists) = postings.fresh(number).and_then(Tail::lists) {
                for (term, known) in (0..).zip(query.terms()) {
                    let codes = lists.get(known.hash);
                    if !codes.is_empty() {
                        found.lists.push(TermList {
                            term,
                            codes,
                            column: None,
                            above: Above::Lists(lists, known.hash),
                        });
                    }
                }
            }
            found.starts.push(found.lists.len());
        }
        if slots.capacity() <= KEPT {
            SPARE.set(Spare {
                slots,
                ..Spare::default()
            });
        }
        found
    }

    /// The lists of a block.
    pub(super) fn of_block(&self, number: usize) -> &[TermList<'a>] {
        &self.lists[self.starts[number]..self.starts[number + 1]]
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        self.starts.len() - 1
    }
}

/// Fills `slots` with the place of each term in each part, by part, then by term; and what it was looked up by.
///
/// All are looked up before any is read. What is read for one look-up does not wait for another, so the
/// processor waits for many at once.
fn look_up(blocks: &[Block<Hashes>], query: &Query, slots: &mut Vec<(u32, u32)>) {
    let parts = || blocks.iter().flat_map(Block::parts);
    let terms = query.terms();
    for part in parts() {
        let dictionary = part.dictionary();
        for term in terms {
            dictionary.prefetch_slot(term.hash);
        }
    }
    slots.clear();
    for part in parts() {
        let dictionary = part.dictionary();
        slots.extend(terms.iter().map(|term| {
            let slot = dictionary.slot(term.hash);
            dictionary.prefetch_keys(slot);
            slot
        }));
    }
    let mut rest = slots.iter_mut();
    for part in parts() {
        let dictionary = part.dictionary();
        for (term, slot) in terms.iter().zip(&mut rest) {
            let place = dictionary.place_in(*slot, term.hash);
            slot.0 = place.map_or(NONE, |place| {
                part.prefetch_at(place);
                u32::try_from(place).unwrap_or(NONE)
            });
        }
    }
}
