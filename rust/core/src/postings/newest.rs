//! The newest entries of a block, before they become a part: stored as they came while they are few, then in
//! growing lists.

use std::fmt::Debug;
use std::iter::Zip;
use std::slice::Iter;

use crate::postings::dictionary::Dictionary;
use crate::postings::part::{Builder, MAX_CODE, Part, code};

/// Keys whose newest entries can be stored in growing lists.
pub trait Growing: Dictionary {
    /// One list for each key.
    type Lists: Lists<Self>;
}

/// One list of codes for each key; entries are added in their order.
pub trait Lists<D: Dictionary>: Clone + Debug + Default {
    /// Up to so many entries are stored without lists: this takes fewer bytes, and a query reads them nearly as
    /// fast.
    const FEW: usize;

    /// Adds an entry, by its place in the block, with its keys and counts.
    fn push(&mut self, entry: u16, row: impl IntoIterator<Item = (D::Key, u32)>);

    /// How many pairs of a key and an entry there are.
    fn postings(&self) -> usize;

    /// Their size in memory, in bytes.
    fn bytes(&self) -> usize;

    /// Moves about `budget` postings to `builder`, key by key. `from` is 0 at first, and then the last result; None
    /// when all were moved.
    fn move_to(&self, builder: &mut Builder<D>, from: usize, budget: usize) -> Option<usize>;
}

/// The newest entries of a block, in the order they came.
#[derive(Clone, Debug)]
pub struct Tail<D: Growing> {
    /// The place of the first entry in the block.
    first: u16,
    len: u16,
    few: Fresh<D::Key>,
    lists: Option<Box<D::Lists>>,
}

impl<D: Growing> Tail<D> {
    /// An empty tail; `first` is the place in the block of the next entry.
    #[must_use]
    pub fn new(first: u16) -> Self {
        Self {
            first,
            len: 0,
            few: Fresh::new(first),
            lists: None,
        }
    }

    /// Adds an entry with its keys, each once with its count.
    pub fn push(&mut self, row: impl IntoIterator<Item = (D::Key, u32)>) {
        let entry = self.first + self.len;
        self.len += 1;
        if let Some(lists) = &mut self.lists {
            lists.push(entry, row);
            return;
        }
        self.few.push(row);
        if self.few.len() > D::Lists::FEW {
            let mut lists = Box::new(D::Lists::default());
            self.few
                .for_each(|entry, key, count| lists.push(entry, [(key, count)]));
            self.lists = Some(lists);
            self.few = Fresh::new(self.first);
        }
    }

    /// The entries that are stored as they came; empty where there are lists.
    #[must_use]
    pub fn few(&self) -> &Fresh<D::Key> {
        &self.few
    }

    /// The lists, if there are any yet.
    #[must_use]
    pub fn lists(&self) -> Option<&D::Lists> {
        self.lists.as_deref()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many pairs of a key and an entry there are.
    #[must_use]
    pub fn postings(&self) -> usize {
        let lists = self.lists.as_ref().map_or(0, |lists| lists.postings());
        self.few.postings() + lists
    }

    /// Their size in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.few.bytes() + self.lists.as_ref().map_or(0, |lists| lists.bytes())
    }

    /// Moves about `budget` postings to `builder`, as [`Lists::move_to`] does.
    pub(super) fn move_to(
        &self,
        builder: &mut Builder<D>,
        from: usize,
        budget: usize,
    ) -> Option<usize> {
        if let Some(lists) = &self.lists {
            return lists.move_to(builder, from, budget);
        }
        self.few.move_to(builder);
        None
    }

    /// The same postings as a part; keys of at least `frequent` entries get a column.
    pub(super) fn to_part(&self, frequent: usize) -> Part<D> {
        let mut builder = Builder::new(frequent, self.postings());
        let mut from = Some(0);
        while let Some(next) = from {
            from = self.move_to(&mut builder, next, usize::MAX);
        }
        builder.finish()
    }
}

// The newest entries in the order they came; they are too few to be sorted by key.

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
    pub(crate) fn for_each_row(&self, mut visit: impl FnMut(u16, Zip<Iter<'_, K>, Iter<'_, u32>>)) {
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
