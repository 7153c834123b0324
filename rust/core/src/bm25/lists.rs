//! The posting lists of a query's terms, looked up in all parts of the index at once.

use std::ops::Range;

use crate::bm25::terms::Query;
use crate::postings::{Block, Hashes, Part, Postings, Removed, Tail, TermLists, count, entry};
use crate::simd::columns::Column;
use crate::simd::prefetch::prefetch;

/// A term that at least so many passages of a block have has a column beside its list: the count of each passage,
/// for direct look-up.
pub(super) const FREQUENT: usize = 512;
/// The number of different counts that a code can hold: 0 to 15, where 15 means 15 or more.
pub(super) const COUNTS: usize = 16;
/// Codes in one cache line.
const LINE: usize = 32;
/// The value for a term that a part does not have.
const NONE: u32 = u32::MAX;

/// The posting list of a term in one part, or in the lists of a block that still grows.
#[derive(Clone, Copy, Debug)]
pub(super) struct TermList<'a> {
    /// The term, by its place in the query.
    pub(super) term: u32,
    /// Ascending by entry.
    pub(super) codes: &'a [u16],
    /// The same counts by entry, for most terms that many passages have.
    column: Option<&'a Column>,
    above: Above<'a>,
}

/// Where the exact counts above 15 are stored.
#[derive(Clone, Copy, Debug)]
enum Above<'a> {
    Part(&'a Part<Hashes>, u32),
    Lists(&'a TermLists, u64),
}

impl TermList<'_> {
    /// How often `entry` has the term; 0 if it does not have it.
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

    /// The codes of the entries at some places of the block.
    pub(super) fn codes_in(&self, places: Range<usize>) -> &[u16] {
        let first = |place: usize| {
            let code = u16::try_from(place * COUNTS);
            code.map_or(self.codes.len(), |code| self.first_from(code))
        };
        &self.codes[first(places.start)..first(places.end)]
    }

    /// How many passages that were not removed have the term.
    pub(super) fn entries(&self, removed: Option<&Removed>) -> usize {
        removed.map_or(self.codes.len(), |removed| {
            let live = |code: &&u16| !removed.has(entry(**code));
            self.codes.iter().filter(live).count()
        })
    }

    /// The code of `entry`; its count is 0 where the entry does not have the term.
    #[inline]
    fn code_of(&self, entry: u16) -> u16 {
        match self.column {
            Some(column) => code_in(column, entry),
            None => self.code_near(entry),
        }
    }

    /// Fills `codes` with the codes of `entries`.
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

    /// The place of the first code that is not smaller. If entries are spread evenly, the place can be guessed from
    /// the code; the shorter the list, the smaller the error.
    #[inline]
    fn first_from(&self, code: u16) -> usize {
        match self.codes.len() {
            0..32 => self.codes.partition_point(|&other| other < code),
            32..256 => self.first_near::<32>(code),
            _ => self.first_near::<64>(code),
        }
    }

    /// The same: searches a window of `WINDOW` codes around the guess first, without a branch, and then the whole
    /// list.
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

/// The posting lists of a query's terms, ordered by block, then by part, then by term.
#[derive(Debug)]
pub(super) struct ListsOfBlocks<'a> {
    lists: Vec<TermList<'a>>,
    /// Where the lists of each block begin, followed by the end of the last one.
    starts: Vec<usize>,
}

impl<'a> ListsOfBlocks<'a> {
    pub(super) fn of(postings: &'a Postings<Hashes>, query: &Query) -> Self {
        let blocks = postings.blocks();
        let slots = look_up(blocks, query);
        let mut found = Self {
            lists: Vec::with_capacity(slots.len()),
            starts: vec![0],
        };
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

/// The place of each term in each part, by part, then by term. The second value is for the look-up itself.
///
/// Each step runs over all terms and parts before the next step begins. The look-ups do not depend on each other,
/// so the processor waits for many reads of memory at once.
fn look_up(blocks: &[Block<Hashes>], query: &Query) -> Vec<(u32, u32)> {
    let parts = || blocks.iter().flat_map(Block::parts);
    let terms = query.terms();
    for part in parts() {
        let dictionary = part.dictionary();
        for term in terms {
            dictionary.prefetch_slot(term.hash);
        }
    }
    let mut slots = Vec::new();
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
    slots
}
