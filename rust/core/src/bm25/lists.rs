//! Where are the postings of a query's terms? Looked up in all parts at once.

use std::vec::IntoIter;

use crate::bm25::terms::Query;
use crate::postings::{BLOCK, Block, Hashes, Part, count, entry};

/// Counts of a code.
pub(super) const COUNTS: usize = 16;
/// Stands for a term that a part has not.
const NONE: u32 = u32::MAX;

/// The postings of a term in a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct TermList<'a> {
    /// The term, by its place in the query.
    pub(super) term: u32,
    place: u32,
    part: &'a Part<Hashes>,
    /// Ascending by entry; BM25 has no columns.
    pub(super) codes: &'a [u16],
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
        let list = self.part.list_at(self.place as usize);
        u32::from(count) + list.more_of(entry(code))
    }

    /// The code of `entry`; one with the count 0 where it has not the term.
    #[inline]
    pub(super) fn code_of(&self, entry: u16) -> u16 {
        let first = self.first_from(entry << COUNTS.trailing_zeros());
        let code = self.codes.get(first).copied();
        code.filter(|&code| self::entry(code) == entry).unwrap_or(0)
    }

    /// The place of the first code that is not smaller. Where entries lie evenly it is near where it would
    /// be if they lay quite so, and is found there without a branch.
    #[inline]
    fn first_from(&self, code: u16) -> usize {
        const WINDOW: usize = 64;
        let guess = self.codes.len() * usize::from(entry(code)) / BLOCK;
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

/// The terms of a query in the parts of blocks, part by part.
#[derive(Debug)]
pub(super) struct TermLists {
    terms: u32,
    /// The place of each, and what it was looked up by.
    places: IntoIter<(u32, u32)>,
}

impl TermLists {
    /// All are looked up before any is read. What is read for one look-up does not wait for another, so the
    /// processor waits for many at once.
    pub(super) fn of(blocks: &[Block<Hashes>], query: &Query) -> Self {
        let parts = || blocks.iter().flat_map(Block::parts);
        let terms = query.terms();
        let mut slots = Vec::with_capacity(parts().count() * terms.len());
        for part in parts() {
            let dictionary = part.dictionary();
            slots.extend(terms.iter().map(|term| dictionary.slot(term.hash)));
        }
        let mut rest = slots.iter_mut();
        for part in parts() {
            let dictionary = part.dictionary();
            for (term, slot) in terms.iter().zip(&mut rest) {
                let place = dictionary.place_in(*slot, term.hash);
                slot.0 = place.map_or(NONE, |place| u32::try_from(place).unwrap_or(NONE));
            }
        }
        Self {
            terms: u32::try_from(terms.len()).expect("a query has fewer than 2^32 terms"),
            places: slots.into_iter(),
        }
    }

    /// How many lists are left, at most.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Calls `visit` with the lists of the next part, by term.
    pub(super) fn for_each_of<'a>(
        &mut self,
        part: &'a Part<Hashes>,
        mut visit: impl FnMut(TermList<'a>),
    ) {
        for (term, (place, _)) in (0..self.terms).zip(&mut self.places) {
            if place != NONE {
                visit(TermList {
                    term,
                    place,
                    part,
                    codes: part.codes_at(place as usize),
                });
            }
        }
    }
}
