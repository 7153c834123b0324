//! Which terms the passages of an index have. A misspelt word has hundreds of possible corrections, and nearly all of
//! them are no words, so the look-up is made for terms that are not there.

use crate::postings::{Block, Dictionary, Hashes, Postings, Tail, TermLists};

/// The terms of all passages, those of removed passages included.
pub(super) struct Vocabulary<'a> {
    /// The dictionaries of all parts.
    parts: Vec<&'a Hashes>,
    /// The lists of the blocks that are no part yet.
    lists: Vec<&'a TermLists>,
    /// The terms of the newest passages, which are in no list.
    newest: Filter,
}

impl<'a> Vocabulary<'a> {
    pub(super) fn of(postings: &'a Postings<Hashes>) -> Self {
        let blocks = postings.blocks();
        let parts = blocks.iter().flat_map(Block::parts);
        let tails = || (0..blocks.len()).filter_map(|number| postings.fresh(number));
        let newest = tails().map(|tail| tail.few().postings()).sum();
        let mut vocabulary = Self {
            parts: parts.map(|part| part.dictionary()).collect(),
            lists: tails().filter_map(Tail::lists).collect(),
            newest: Filter::new(newest),
        };
        for tail in tails() {
            tail.few()
                .for_each(|_, term, _| vocabulary.newest.add(term));
        }
        vocabulary
    }

    /// Whether a passage may have the term; false means that none has it.
    pub(super) fn may_have(&self, term: u64) -> bool {
        self.newest.may_have(term)
            || self.lists.iter().any(|lists| !lists.get(term).is_empty())
            || self.parts.iter().any(|part| part.place(term).is_some())
    }
}

/// A set of hashes that may take a few others for its own.
struct Filter {
    bits: Vec<u64>,
    /// The shift that leaves as many high bits of a hash as there are bits.
    shift: u32,
}

impl Filter {
    /// An empty set with room for so many hashes.
    fn new(hashes: usize) -> Self {
        let words = (hashes / 8 + 1).next_power_of_two();
        Self {
            bits: vec![0; words],
            shift: u64::BITS - (words.trailing_zeros() + u64::BITS.trailing_zeros()),
        }
    }

    fn place(&self, hash: u64) -> (usize, u64) {
        let place = hash >> self.shift;
        let word = usize::try_from(place / u64::from(u64::BITS)).unwrap_or(0);
        (word, 1 << (place % u64::from(u64::BITS)))
    }

    fn add(&mut self, hash: u64) {
        let (word, bit) = self.place(hash);
        self.bits[word] |= bit;
    }

    fn may_have(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        self.bits[word] & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analyse::hash;
    use crate::bm25::{Bm25Index, Bm25Params, Document};

    proptest! {
        #[test]
        fn every_term_of_a_passage_is_known_and_few_others_are(
            words in 1_usize..3_000,
            few in 0_usize..60,
            is_long in prop::bool::weighted(0.1),
            removed in prop::collection::vec(0_usize..60, 0..20),
            is_settled: bool,
        ) {
            let passages = if is_long { 4_090 + few } else { few };
            let terms = |passage: usize| -> Vec<u64> {
                (0..8).map(|place| hash(&format!("{}", (passage * 7 + place * 31) % words))).collect()
            };
            let mut index = Bm25Index::new(Bm25Params::default());
            for passage in 0..passages {
                index.add(&Document::from(terms(passage)));
            }
            for &id in &removed {
                index.remove(u32::try_from(id).unwrap());
            }
            if is_settled {
                index.settle();
            }
            let vocabulary = Vocabulary::of(&index.postings);
            for passage in (0..passages).filter(|passage| !removed.contains(passage)) {
                prop_assert!(terms(passage).into_iter().all(|term| vocabulary.may_have(term)));
            }
            let others = (0..1_000).map(|number: u32| hash(&format!("x{number}")));
            let taken = others.filter(|&term| vocabulary.may_have(term)).count();
            prop_assert!(taken < 250, "{taken} of 1,000");
        }
    }
}
