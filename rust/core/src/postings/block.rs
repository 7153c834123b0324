//! A block: the parts of up to 4,096 entries, and which of these were removed.

use std::sync::Arc;

use crate::postings::part::{List, Part};
use crate::postings::tail::{Growing, Tail};
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

    /// The bits of the 64 entries of a group.
    #[inline]
    #[must_use]
    pub fn group(&self, group: usize) -> u64 {
        self.bits[group % self.bits.len()]
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
    pub fn has_postings(&self) -> bool {
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
    pub(super) fn replace_all(&mut self, part: Part<D>, purged: usize) {
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
