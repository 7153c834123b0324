//! The rows of exact search as arrays of a file: a cache of a store, or an index that a user saves.

use std::io::{self, Write};

use crate::cache::{Reader, Writer};
use crate::error::Result;
use crate::index::exact::{FREQUENT, HashedTfIndex, LARGE};
use crate::index_file;
use crate::postings::{BLOCK, Postings};
use crate::simd::scan::{GROUP, root};

/// What the label of a saved file begins with.
const KIND: &str = "exact ";

impl HashedTfIndex {
    /// The index as a file. `label` says what the rows are of.
    ///
    /// # Errors
    ///
    /// Those of [`index_file::to_bytes`].
    pub fn to_bytes(&self, label: &str) -> Result<Vec<u8>> {
        index_file::to_bytes(&format!("{KIND}{label}"), |to| self.write(to))
    }

    /// The index of a file whose label `accept` takes, and what it makes of that.
    ///
    /// # Errors
    ///
    /// Those of [`index_file::from_bytes`].
    pub fn from_bytes<T>(file: &[u8], accept: impl FnOnce(&str) -> Option<T>) -> Result<(Self, T)> {
        let accept = |label: &str| accept(label.strip_prefix(KIND)?);
        index_file::from_bytes(file, accept, Self::read)
    }

    /// Writes all rows.
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
        let mut beside = (0..).zip(index.norms.as_flattened());
        let is_known = |(id, norm): (u32, &f32)| *norm < LARGE || index.large.contains_key(&id);
        beside.all(is_known).then_some(index)
    }
}
