//! Turns several parts into one, and the newest entries into a part, a few keys at a time.

use std::sync::Arc;

use crate::postings::block::{Block, Removed};
use crate::postings::part::{Builder, Part, entry};
use crate::postings::tail::{Growing, Tail};

/// The newest entries of a block while they are turned into a part. The block keeps them until the part is done.
#[derive(Clone, Debug)]
pub(super) struct Seal<D: Growing> {
    /// The number of the block.
    block: usize,
    newest: Arc<Tail<D>>,
    /// Where the next step continues.
    from: usize,
    builder: Builder<D>,
}

impl<D: Growing> Seal<D> {
    /// The work for the newest entries of a block that has all its entries.
    pub(super) fn of(number: usize, newest: &Arc<Tail<D>>, frequent: usize) -> Self {
        Self {
            block: number,
            newest: Arc::clone(newest),
            from: 0,
            builder: Builder::new(frequent, newest.postings()),
        }
    }

    /// Moves about `budget` postings; true when all were moved.
    pub(super) fn advance(&mut self, budget: usize) -> bool {
        let next = self.newest.move_to(&mut self.builder, self.from, budget);
        self.from = next.unwrap_or(self.from);
        next.is_none()
    }

    /// Puts the new part into its block, and returns the number of the block.
    pub(super) fn finish(self, blocks: &mut [Block<D>]) -> usize {
        blocks[self.block].seal(self.builder.finish());
        self.block
    }
}

/// Several parts of one block while they are merged into one. The block keeps them until the merge is done.
#[derive(Clone, Debug)]
pub(super) struct Merge<D: Growing> {
    /// The number of the block.
    block: usize,
    parts: Vec<Arc<Part<D>>>,
    /// The place of the next key of each part.
    next: Vec<usize>,
    /// The entries that were removed before the merge began; they are left out.
    removed: Option<Removed>,
    builder: Builder<D>,
}

impl<D: Growing> Merge<D> {
    /// The merge of all parts of a block that has all its entries; frequent keys get columns.
    pub(super) fn of_block(number: usize, block: &Block<D>, frequent: usize) -> Self {
        let parts = block.parts();
        let postings = parts.iter().map(|part| part.postings()).sum();
        Self {
            block: number,
            parts: parts.to_vec(),
            next: vec![0; parts.len()],
            removed: block.removed().cloned(),
            builder: Builder::new(frequent, postings),
        }
    }

    /// Moves about `budget` postings; true when all were moved.
    pub(super) fn advance(&mut self, budget: usize) -> bool {
        let mut moved = 0;
        while moved < budget {
            let Some(key) = self.least() else {
                return true;
            };
            moved += self.move_key(key);
        }
        false
    }

    /// Replaces the old parts of the block by the new one.
    pub(super) fn finish(self, blocks: &mut [Block<D>]) {
        let (block, part) = (&mut blocks[self.block], self.builder.finish());
        block.replace_all(part, self.removed.map_or(0, |removed| removed.count()));
    }

    /// The merged part.
    pub(super) fn into_part(self) -> Part<D> {
        self.builder.finish()
    }

    fn least(&self) -> Option<D::Key> {
        let keys = self.parts.iter().zip(&self.next);
        keys.filter_map(|(part, &next)| part.keys().get(next).copied())
            .min()
    }

    /// Moves the postings of `key`, which is the next key of some parts. Returns the amount of work.
    fn move_key(&mut self, key: D::Key) -> usize {
        let Self {
            parts,
            next,
            removed,
            builder,
            ..
        } = self;
        let mut moved = parts.len();
        for (part, next) in parts.iter().zip(next) {
            if part.keys().get(*next) != Some(&key) {
                continue;
            }
            let list = part.list_at(*next);
            *next += 1;
            moved += list.entries();
            let stays = |entry| removed.as_ref().is_none_or(|removed| !removed.has(entry));
            if removed.is_none() && list.column.is_none() {
                builder.extend(list.codes);
            } else {
                list.for_each_code(|code| {
                    if stays(entry(code)) {
                        builder.push(code);
                    }
                });
            }
            for above in list.overflow.iter().filter(|above| stays(above.entry)) {
                builder.overflow(above.entry, above.more);
            }
        }
        builder.end_key(key);
        moved
    }
}
