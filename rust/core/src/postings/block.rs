//! A block: the parts of up to 4,096 entries, which of these were removed, and how parts are merged.

use std::sync::Arc;

use crate::postings::newest::{Growing, Tail};
use crate::postings::part::{Builder, List, Part, entry};
use crate::simd::columns::BLOCK;

const WORD: usize = 64;

/// A bit for each entry of a block that was removed.
#[derive(Clone, Debug)]
pub struct Removed {
    bits: Box<[u64; BLOCK / WORD]>,
    count: usize,
    /// How many of the removed entries have no postings in the parts any more.
    purged: usize,
}

impl Default for Removed {
    fn default() -> Self {
        Self {
            bits: Box::new([0; BLOCK / WORD]),
            count: 0,
            purged: 0,
        }
    }
}

impl Removed {
    /// Whether `entry` was removed.
    #[inline]
    #[must_use]
    pub fn has(&self, entry: u16) -> bool {
        let entry = usize::from(entry) % BLOCK;
        self.bits[entry / WORD] >> (entry % WORD) & 1 == 1
    }

    /// The entries that were removed, in ascending order.
    pub(super) fn entries(&self) -> impl Iterator<Item = u16> {
        (0..).take(BLOCK).filter(|&entry| self.has(entry))
    }

    /// A set of these entries, whose postings are not in the parts any more.
    pub(super) fn purged(entries: impl Iterator<Item = u16>) -> Self {
        let mut removed = Self::default();
        for entry in entries {
            let entry = usize::from(entry) % BLOCK;
            removed.bits[entry / WORD] |= 1 << (entry % WORD);
        }
        let bits = removed.bits.iter().map(|bits| bits.count_ones() as usize);
        removed.count = bits.sum();
        removed.purged = removed.count;
        removed
    }

    /// How many were removed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the parts hold postings of entries that were removed.
    #[must_use]
    pub(crate) fn has_postings(&self) -> bool {
        self.count > self.purged
    }
}

/// The postings of up to 4,096 entries.
#[derive(Clone, Debug)]
pub struct Block<D: Growing> {
    parts: Vec<Arc<Part<D>>>,
    /// Its newest entries, while they are turned into a part.
    newest: Option<Arc<Tail<D>>>,
    removed: Option<Removed>,
}

impl<D: Growing> Default for Block<D> {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            newest: None,
            removed: None,
        }
    }
}

impl<D: Growing> Block<D> {
    /// Its parts, in the order of their entries.
    #[must_use]
    pub fn parts(&self) -> &[Arc<Part<D>>] {
        &self.parts
    }

    /// Its removed entries; None for none.
    #[must_use]
    pub fn removed(&self) -> Option<&Removed> {
        self.removed.as_ref()
    }

    /// The postings of `key`, part by part.
    #[inline]
    pub fn lists(&self, key: D::Key) -> impl Iterator<Item = List<'_>> {
        self.parts.iter().filter_map(move |part| part.list(key))
    }

    /// A block of one part, which has no postings of removed entries.
    pub(super) fn of(part: Part<D>, removed: Option<Removed>) -> Self {
        Self {
            parts: vec![Arc::new(part)],
            newest: None,
            removed,
        }
    }

    /// Keeps the newest entries until they are turned into a part.
    pub(super) fn wait(&mut self, newest: Tail<D>) {
        self.newest = Some(Arc::new(newest));
    }

    pub(super) fn waiting(&self) -> Option<&Arc<Tail<D>>> {
        self.newest.as_ref()
    }

    /// Replaces the newest entries by `part`, which was made of them.
    pub(super) fn seal(&mut self, part: Part<D>) {
        self.newest = None;
        self.parts.push(Arc::new(part));
    }

    /// Replaces all parts by `part`, which has no postings of the first `purged` removed entries.
    fn replace_all(&mut self, part: Part<D>, purged: usize) {
        self.parts = vec![Arc::new(part)];
        if let Some(removed) = &mut self.removed {
            removed.purged = purged;
        }
    }

    /// Marks an entry as removed; false if it was already.
    pub(super) fn remove(&mut self, entry: u16) -> bool {
        let removed = self.removed.get_or_insert_default();
        if removed.has(entry) {
            return false;
        }
        let entry = usize::from(entry) % BLOCK;
        removed.bits[entry / WORD] |= 1 << (entry % WORD);
        removed.count += 1;
        true
    }

    /// Whether at least three tenths of the entries in its parts were removed, so that it should be rewritten.
    pub(super) fn is_wasteful(&self) -> bool {
        let waste = |removed: &Removed| {
            let (waste, held) = (removed.count - removed.purged, BLOCK - removed.purged);
            10 * waste >= 3 * held && waste > 0
        };
        self.removed.as_ref().is_some_and(waste)
    }
}

// Turns several parts into one, and the newest entries into a part, a few keys at a time.

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
