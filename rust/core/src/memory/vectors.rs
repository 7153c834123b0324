//! Vectors of entries: whose they are, which are missing, and how they come in.

use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::memory::options::invalid;
use crate::memory::store::Store;
use crate::sqlite::{EmbedderRow, StoredEntry, vectors};

/// The numbers of entries with and without vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Embedded {
    /// Entries that have.
    pub with: i64,
    /// Entries that have none.
    pub without: i64,
}

impl Store {
    /// The embedder whose vectors there are, if one was ever used.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn embedder(&self) -> Result<Option<EmbedderRow>> {
        self.database
            .read(|transaction| vectors::embedder(transaction))
    }

    /// Makes that the embedder of the store, and gives its key. Vectors of different ones are never mixed:
    /// where there are some of another, they are deleted if `replace`, or else it is refused.
    ///
    /// A store that is only to be read, and has no vectors, gives a key of none: 0.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] where the store has vectors of another one; otherwise those of a write.
    pub fn use_embedder(&self, name: &str, dimension: usize, replace: bool) -> Result<i64> {
        let is_it = |row: &EmbedderRow| row.name == name && row.dimension == dimension;
        if let Some(row) = self.embedder()?.filter(is_it) {
            return Ok(row.id);
        }
        if self.is_read_only() && self.embedder()?.is_none() {
            return Ok(0);
        }
        let refused = |row: &EmbedderRow, with: i64| {
            let message = format!(
                "the store '{}' has {with} vectors of embedder {:?} (dimension {}), not of {name:?} (dimension \
                 {dimension}): open it with that one, or with reembed=True, which makes all of them anew",
                self.database.file().display(),
                row.name,
                row.dimension
            );
            Error::new(ErrorKind::InvalidArgument, message)
                .with("field", "embedder")
                .with("value", name)
        };
        if self.is_read_only() {
            let (row, counts) = (self.embedder()?, self.embedded()?);
            return row.map_or(Ok(0), |row| Err(refused(&row, counts.with)));
        }
        self.database.writer()?.transaction(|transaction| {
            if let Some(row) = vectors::embedder(transaction)? {
                if is_it(&row) {
                    return Ok(row.id);
                }
                let (with, _) = vectors::counts(transaction)?;
                if with > 0 && !replace {
                    return Err(refused(&row, with));
                }
            }
            Ok(vectors::replace(transaction, name, dimension)?.id)
        })
    }

    /// The numbers of entries with and without vectors.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn embedded(&self) -> Result<Embedded> {
        let (with, without) = self
            .database
            .read(|transaction| vectors::counts(transaction))?;
        Ok(Embedded { with, without })
    }

    /// At most `limit` entries above `after` that have no vectors, in order of id, and the id up to which
    /// was looked. That is `after` where there is nothing more to look at.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn missing_vectors(
        &self,
        after: EntryId,
        limit: usize,
    ) -> Result<(Vec<StoredEntry>, EntryId)> {
        self.database
            .read(|transaction| vectors::missing(transaction, after, limit))
    }

    /// Stores the vectors that the embedder of that key made, one or more an entry, one after another. How
    /// many entries took them: those that left meanwhile, and those that have vectors, do not.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the store has another embedder by now; [`ErrorKind::InvalidEntry`]
    /// where numbers are not finite, or no whole number of vectors; otherwise those of a write.
    pub fn store_vectors(&self, embedder: i64, rows: &[(EntryId, Vec<f32>)]) -> Result<usize> {
        self.database.writer()?.transaction(|transaction| {
            let current = vectors::embedder(transaction)?.filter(|row| row.id == embedder);
            let Some(row) = current else {
                let message = "the store has another embedder by now: these vectors are not its own";
                return Err(Error::new(ErrorKind::StoreConflict, message));
            };
            for (entry, numbers) in rows {
                let whole = vectors::is_whole(numbers, row.dimension);
                if !whole || !numbers.iter().all(|number| number.is_finite()) {
                    return Err(invalid(format!(
                        "the vectors of entry {entry} must be finite and {} numbers each, got {} numbers",
                        row.dimension,
                        numbers.len()
                    )));
                }
            }
            vectors::insert(transaction, embedder, rows)
        })
    }
}
