//! What do the newest entries of a block lie in, before they are a part?

use std::fmt::Debug;

use crate::postings::dictionary::Dictionary;
use crate::postings::part::{Builder, Part};

/// The newest entries of a block, in the order they came.
pub trait Newest<K>: Clone + Debug {
    /// No entries; the next one has that place in the block.
    fn new(first: u16) -> Self;

    /// One more entry, with its keys, each once with its count.
    fn push(&mut self, row: impl IntoIterator<Item = (K, u32)>);

    /// How many entries there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many pairs of a key and an entry there are.
    fn postings(&self) -> usize;

    /// Bytes that they take.
    fn bytes(&self) -> usize;

    /// Gives about `budget` postings to `builder`, key by key. `from` is 0 at first and then what this gave;
    /// it gives None when all were moved.
    fn move_to<D: Dictionary<Key = K>>(
        &self,
        builder: &mut Builder<D>,
        from: usize,
        budget: usize,
    ) -> Option<usize>;

    /// The same postings as a part; keys of at least `frequent` entries get a column.
    fn to_part<D: Dictionary<Key = K>>(&self, frequent: usize) -> Part<D> {
        let mut builder = Builder::new(frequent, self.postings());
        let mut from = Some(0);
        while let Some(next) = from {
            from = self.move_to(&mut builder, next, usize::MAX);
        }
        builder.finish()
    }
}
