//! The newest entries of a block, before they become a part: stored as they came while they are few, then in
//! growing lists.

use std::fmt::Debug;

use crate::postings::dictionary::Dictionary;
use crate::postings::fresh::Fresh;
use crate::postings::part::{Builder, Part};

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
