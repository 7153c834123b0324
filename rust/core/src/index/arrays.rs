//! The exact index as arrays of a file: a cache file of a store, or an index that a user saves.

use std::io::{self, Write};

use crate::cache::{Reader, Writer};
use crate::error::Result;
use crate::index::exact::{FREQUENT, HashedTfIndex, LARGE};
use crate::index_file;
use crate::postings::{BLOCK, Postings};
use crate::simd::scan::{GROUP, root};

/// The prefix of the label of a saved file.
const KIND: &str = "exact ";

impl HashedTfIndex {
    /// The index as the bytes of a file. `label` describes its rows.
    ///
    /// # Errors
    ///
    /// The errors of [`index_file::to_bytes`].
    pub fn to_bytes(&self, label: &str) -> Result<Vec<u8>> {
        index_file::to_bytes(&format!("{KIND}{label}"), |to| self.write(to))
    }

    /// Reads an index from a file. `accept` gets its label and refuses it with None; its result is returned as well.
    ///
    /// # Errors
    ///
    /// The errors of [`index_file::from_bytes`].
    pub fn from_bytes<T>(file: &[u8], accept: impl FnOnce(&str) -> Option<T>) -> Result<(Self, T)> {
        let accept = |label: &str| accept(label.strip_prefix(KIND)?);
        index_file::from_bytes(file, accept, Self::read)
    }

    /// Writes all rows as arrays.
    ///
    /// # Errors
    ///
    /// The errors of the file.
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

    /// Reads the rows that [`write`](Self::write) wrote. None for invalid arrays.
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
