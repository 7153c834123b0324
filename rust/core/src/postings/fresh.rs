//! The newest entries, as they came: too few to be sorted by key.

use crate::postings::dictionary::Dictionary;
use crate::postings::part::{Builder, MAX_CODE, Part, code};

/// Entries of a block, each with its keys and counts.
#[derive(Clone, Debug)]
pub struct Fresh<K> {
    /// Where in the block the first of them is.
    first: u16,
    keys: Vec<K>,
    counts: Vec<u32>,
    /// Where the keys of each end.
    ends: Vec<u32>,
}

impl<K: Copy + Ord> Fresh<K> {
    pub(super) fn new(first: u16) -> Self {
        Self {
            first,
            keys: Vec::new(),
            counts: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Forgets them: what follows begins at `first`.
    pub(super) fn restart(&mut self, first: u16) {
        self.first = first;
        self.keys.clear();
        self.counts.clear();
        self.ends.clear();
    }

    pub(super) fn push(&mut self, row: impl IntoIterator<Item = (K, u32)>) {
        for (key, count) in row {
            self.keys.push(key);
            self.counts.push(count);
        }
        let end = u32::try_from(self.keys.len()).expect("a few texts have fewer than 2^32 words");
        self.ends.push(end);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many pairs of a key and an entry there are.
    #[must_use]
    pub fn postings(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.keys.capacity() * size_of::<K>() + (self.counts.capacity() + self.ends.capacity()) * 4
    }

    /// Calls `visit` with each entry, by its place in the block, each of its keys and the count of that.
    #[inline]
    pub fn for_each(&self, mut visit: impl FnMut(u16, K, u32)) {
        let mut start = 0;
        for (entry, &end) in (self.first..).zip(&self.ends) {
            let row = start..end as usize;
            start = end as usize;
            for (&key, &count) in self.keys[row.clone()].iter().zip(&self.counts[row]) {
                visit(entry, key, count);
            }
        }
    }

    /// Calls `visit` with each key of the entry at that place of the block, if it is one of them.
    pub fn for_each_of(&self, entry: u16, mut visit: impl FnMut(K, u32)) {
        let Some(number) = entry.checked_sub(self.first).map(usize::from) else {
            return;
        };
        let Some(&end) = self.ends.get(number) else {
            return;
        };
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        let row = start as usize..end as usize;
        for (&key, &count) in self.keys[row.clone()].iter().zip(&self.counts[row]) {
            visit(key, count);
        }
    }

    /// The same postings, key by key.
    pub(super) fn to_part<D: Dictionary<Key = K>>(&self) -> Part<D> {
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
        let mut builder = Builder::<D>::new(usize::MAX, postings.len());
        for run in postings.chunk_by(|one, other| one.0 == other.0) {
            for &(_, code) in run {
                builder.push(code);
            }
            while let Some((_, entry, more)) = above.next_if(|above| above.0 == run[0].0) {
                builder.overflow(entry, more);
            }
            builder.end_key(run[0].0);
        }
        builder.finish()
    }
}
