//! All blocks, and how entries come and go.

use std::collections::VecDeque;

use crate::postings::BLOCK;
use crate::postings::block::{Block, Removed};
use crate::postings::dictionary::Dictionary;
use crate::postings::fresh::Fresh;
use crate::postings::merge::Merge;
use crate::postings::part::Part;

/// Entries that lie as they came before they become a part.
const FRESH: usize = 32;
/// Parts of that size that become one.
const FAN: usize = 16;
/// Postings that an insert moves on behalf of a merge: several times what it adds, so merges keep up.
const BUDGET: usize = 1024;

/// The postings of entries, numbered from 0 in the order they came. Numbers are not used again.
#[derive(Clone, Debug)]
pub struct Postings<D: Dictionary> {
    blocks: Vec<Block<D>>,
    fresh: Fresh<D::Key>,
    merge: Option<Merge<D>>,
    /// Whole blocks that have several parts, or much that was removed.
    due: VecDeque<usize>,
    len: usize,
    removed: usize,
    /// From how many entries of a whole block on a key gets a column.
    frequent: usize,
}

impl<D: Dictionary> Postings<D> {
    /// No entries. Keys of at least `frequent` entries of a block get a column in it.
    #[must_use]
    pub fn new(frequent: usize) -> Self {
        Self {
            blocks: Vec::new(),
            fresh: Fresh::new(0),
            merge: None,
            due: VecDeque::new(),
            len: 0,
            removed: 0,
            frequent,
        }
    }

    /// How many entries came, those included that were removed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no entry came.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many entries were removed.
    #[must_use]
    pub fn removed(&self) -> usize {
        self.removed
    }

    /// Whether there is an entry of that number that was not removed.
    #[must_use]
    pub fn has(&self, id: u32) -> bool {
        let number = id as usize / BLOCK;
        let removed = |block: &Block<D>| {
            block
                .removed()
                .is_some_and(|removed| removed.has(place(id as usize)))
        };
        (id as usize) < self.len && !removed(&self.blocks[number])
    }

    /// The blocks, in the order of their entries; all but the last have 4,096.
    #[must_use]
    pub fn blocks(&self) -> &[Block<D>] {
        &self.blocks
    }

    /// The newest entries, which are in no part yet, if they are of that block.
    #[must_use]
    pub fn fresh(&self, block: usize) -> Option<&Fresh<D::Key>> {
        Some(&self.fresh).filter(|_| block + 1 == self.blocks.len())
    }

    /// How many pairs of a key and an entry there are, those of removed entries included that are still held.
    #[must_use]
    pub fn postings(&self) -> usize {
        let parts = self.blocks.iter().flat_map(Block::parts);
        parts.map(|part| part.postings()).sum::<usize>() + self.fresh.postings()
    }

    /// Bytes that the postings take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let parts = self.blocks.iter().flat_map(Block::parts);
        parts.map(|part| part.bytes()).sum::<usize>() + self.fresh.bytes()
    }

    /// Adds an entry of these keys, each once with its count.
    ///
    /// # Panics
    ///
    /// For the entry number 2^32: that many do not fit in memory.
    pub fn add(&mut self, row: impl IntoIterator<Item = (D::Key, u32)>) -> u32 {
        let id = u32::try_from(self.len).expect("an index in memory holds fewer than 2^32 entries");
        if self.len.is_multiple_of(BLOCK) {
            self.blocks.push(Block::default());
        }
        self.fresh.push(row);
        self.len += 1;
        if self.fresh.len() == FRESH || self.len.is_multiple_of(BLOCK) {
            let part = self.fresh.to_part();
            let first = place(self.len);
            self.fresh.restart(first);
            self.blocks
                .last_mut()
                .expect("an entry has a block")
                .push(part);
            if self.len.is_multiple_of(BLOCK) {
                self.due.push_back(self.blocks.len() - 1);
            }
        }
        self.advance(BUDGET);
        id
    }

    /// Marks an entry as removed. False if there is none of that number, or it was removed before.
    pub fn remove(&mut self, id: u32) -> bool {
        let id = id as usize;
        let number = id / BLOCK;
        if id >= self.len || !self.blocks[number].remove(place(id)) {
            return false;
        }
        self.removed += 1;
        let is_whole = (number + 1) * BLOCK <= self.len;
        if is_whole && self.blocks[number].is_wasteful() && !self.due.contains(&number) {
            self.due.push_back(number);
        }
        self.advance(BUDGET);
        true
    }

    /// Puts together all that is due.
    pub fn settle(&mut self) {
        while self.advance(usize::MAX) {}
    }

    /// The postings of a block as one part, without those of removed entries.
    pub(super) fn whole(&self, number: usize) -> Part<D> {
        let mut block = self.blocks[number].clone();
        if let Some(fresh) = self.fresh(number) {
            block.push(fresh.to_part());
        }
        let mut merge = Merge::of_block(number, &block, usize::MAX);
        merge.advance(usize::MAX);
        merge.into_part()
    }

    /// Adds a block of `len` entries whole, behind others that are.
    pub(super) fn push_block(&mut self, len: usize, part: Part<D>, removed: Option<Removed>) {
        self.len += len;
        self.removed += removed.as_ref().map_or(0, Removed::count);
        self.blocks.push(Block::of(part, removed));
        self.fresh.restart(place(self.len));
    }

    /// Works at what is due; false where nothing is.
    fn advance(&mut self, budget: usize) -> bool {
        self.merge = self.merge.take().or_else(|| self.due());
        let Some(merge) = &mut self.merge else {
            return false;
        };
        if merge.advance(budget)
            && let Some(merge) = self.merge.take()
        {
            merge.finish(&mut self.blocks);
        }
        true
    }

    /// What is to be merged next: a whole block, or the small parts of the one that grows.
    fn due(&mut self) -> Option<Merge<D>> {
        while let Some(number) = self.due.pop_front() {
            let block = &self.blocks[number];
            let (parts, frequent) = (block.parts().len(), self.frequent);
            if parts > 1 || block.is_wasteful() {
                return Some(Merge::of_block(number, block, frequent));
            }
        }
        let number = self.blocks.len().checked_sub(1)?;
        let block = &self.blocks[number];
        let small = block.parts().len() - block.merged();
        (small >= FAN).then(|| Merge::of_parts(number, block, FAN))
    }
}

/// The place of an entry in its block.
fn place(id: usize) -> u16 {
    u16::try_from(id % BLOCK).expect("a block has 4,096 entries")
}
