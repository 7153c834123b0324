//! The rows of exact search in a cache.

use std::io::{self, Write};

use crate::cache::{Reader, Writer};
use crate::index::exact::{FREQUENT, HashedTfIndex, LARGE};
use crate::postings::{BLOCK, Postings};
use crate::simd::scan::{GROUP, root};

impl HashedTfIndex {
    /// Writes all rows to a cache.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        self.postings.write(to)?;
        to.put(self.norms.as_flattened())?;
        let mut large: Vec<(u32, u64)> = self.large.iter().map(|(&id, &norm)| (id, norm)).collect();
        large.sort_unstable();
        let (ids, norms): (Vec<u32>, Vec<u64>) = large.into_iter().unzip();
        to.put(&ids)?;
        to.put(&norms)?;
        to.put(&self.largest)
    }

    /// The rows that were written; None for what never was.
    #[must_use]
    pub fn read(from: &mut Reader) -> Option<Self> {
        let postings = Postings::read(from, FREQUENT)?;
        let norms = from.array::<f32>()?;
        let (ids, large) = (from.array::<u32>()?, from.array::<u64>()?);
        let largest = from.numbers::<u64>()?;
        let (norms, rest) = norms.as_chunks::<GROUP>();
        if !rest.is_empty()
            || norms.len() != postings.len().div_ceil(GROUP)
            || ids.len() != large.len()
            || largest.len() != postings.len().div_ceil(BLOCK)
        {
            return None;
        }
        let index = Self {
            large: ids.iter().copied().zip(large.iter().copied()).collect(),
            norms: norms.to_vec(),
            roots: norms.iter().map(|norms| norms.map(root)).collect(),
            postings,
            largest,
        };
        let beside = (0..).zip(index.norms.as_flattened());
        let mut beside = beside.filter(|&(_, &norm)| norm >= LARGE);
        beside
            .all(|(id, _)| index.large.contains_key(&id))
            .then_some(index)
    }
}
