//! The newest entries in the order they came; they are too few to be sorted by key.

use std::iter::Zip;
use std::slice::Iter;

use crate::postings::dictionary::Dictionary;
use crate::postings::part::{Builder, MAX_CODE, code};

/// Entries of a block, each with its keys and counts.
#[derive(Clone, Debug)]
pub struct Fresh<K> {
    /// The place of the first entry in the block.
    first: u16,
    keys: Vec<K>,
    counts: Vec<u32>,
    /// Where the keys of each entry end.
    ends: Vec<u32>,
}

impl<K: Copy> Fresh<K> {
    /// Calls `visit` for each key of each entry: with the entry's place in the block, the key and its count.
    #[inline]
    pub fn for_each(&self, mut visit: impl FnMut(u16, K, u32)) {
        self.for_each_row(|entry, row| {
            for (&key, &count) in row {
                visit(entry, key, count);
            }
        });
    }

    /// Calls `visit` for each entry: with its place in the block, and its keys with their counts.
    #[inline]
    pub fn for_each_row(&self, mut visit: impl FnMut(u16, Zip<Iter<'_, K>, Iter<'_, u32>>)) {
        let mut start = 0;
        for (entry, &end) in (self.first..).zip(&self.ends) {
            let row = start..end as usize;
            start = end as usize;
            visit(entry, self.keys[row.clone()].iter().zip(&self.counts[row]));
        }
    }
}

impl<K: Copy> Fresh<K> {
    /// An empty list; `first` is the place in the block of the next entry.
    pub(super) fn new(first: u16) -> Self {
        Self {
            first,
            keys: Vec::new(),
            counts: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Adds an entry with its keys, each once with its count.
    pub(super) fn push(&mut self, row: impl IntoIterator<Item = (K, u32)>) {
        for (key, count) in row {
            self.keys.push(key);
            self.counts.push(count);
        }
        let end = u32::try_from(self.keys.len()).expect("a few texts have fewer than 2^32 words");
        self.ends.push(end);
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many pairs of a key and an entry there are.
    #[must_use]
    pub fn postings(&self) -> usize {
        self.keys.len()
    }

    /// Its size in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.keys.capacity() * size_of::<K>() + (self.counts.capacity() + self.ends.capacity()) * 4
    }

    /// Moves all postings to `builder`, key by key.
    pub(super) fn move_to<D: Dictionary<Key = K>>(&self, builder: &mut Builder<D>)
    where
        K: Ord,
    {
        let mut postings = Vec::with_capacity(self.keys.len());
        let mut above = Vec::new();
        self.for_each(|entry, key, count| {
            postings.push((key, code(entry, count)));
            if count > MAX_CODE {
                above.push((key, entry, count - MAX_CODE));
            }
        });
        D::sort(&mut postings);
        above.sort_by_key(|&(key, entry, _)| (key, entry));
        let mut above = above.into_iter().peekable();
        for run in postings.chunk_by(|one, other| one.0 == other.0) {
            for &(_, code) in run {
                builder.push(code);
            }
            while let Some((_, entry, more)) = above.next_if(|above| above.0 == run[0].0) {
                builder.overflow(entry, more);
            }
            builder.end_key(run[0].0);
        }
    }
}
