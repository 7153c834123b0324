//! Vectors of entries: chooses the embedder, finds entries without vectors, and stores vectors.

use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::memory::options::invalid;
use crate::memory::store::Store;
use crate::sqlite::{EmbedderRow, StoredEntry, vectors};

impl Store {
    /// The embedder of the store; None if none was ever used.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn embedder(&self) -> Result<Option<EmbedderRow>> {
        self.database
            .read(|transaction| vectors::embedder(transaction))
    }

    /// Makes `name` the embedder of the store, and gives its key. Vectors of different embedders are never mixed:
    /// vectors of another embedder are deleted with `replace`, and otherwise refused.
    ///
    /// A read-only store without an embedder gives the key 0, which no embedder has.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] where the store has vectors of another embedder; otherwise the errors of a write.
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
            Error::refused("embedder", name, message)
        };
        if self.is_read_only() {
            let (row, (with, _)) = (self.embedder()?, self.embedded()?);
            return row.map_or(Ok(0), |row| Err(refused(&row, with)));
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
    /// The errors of a read.
    pub fn embedded(&self) -> Result<(i64, i64)> {
        self.database
            .read(|transaction| vectors::counts(transaction))
    }

    /// At most `limit` entries with an id above `after` that have no vectors, in order of id; and the last id that was
    /// examined, which is `after` at the end.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn missing_vectors(
        &self,
        after: EntryId,
        limit: usize,
    ) -> Result<(Vec<StoredEntry>, EntryId)> {
        self.database
            .read(|transaction| vectors::missing(transaction, after, limit))
    }

    /// Stores vectors that the embedder of that key made: for each entry one or more vectors in one list. Gives the
    /// number of entries that were written; deleted entries, and entries with vectors, are skipped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the store has another embedder now; [`ErrorKind::InvalidEntry`]
    /// where a number is not finite, or the numbers are no whole number of vectors; otherwise the errors of a write.
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

#[cfg(test)]
mod tests {
    use crate::id::{EntryId, SessionId};
    use crate::memory::Handle;
    use crate::sqlite::{NewEntry, deletion, session};

    #[test]
    fn the_texts_of_a_deleted_session_reach_no_embedder_while_its_rows_leave() {
        let handle = Handle::open_memory(None).unwrap();
        let store = handle.store().unwrap();
        let [kept, gone] = ["kept", "gone"].map(|name| SessionId::new(name).unwrap());
        let entries = ["one", "two"].map(|text| NewEntry {
            text: text.to_owned(),
            ..NewEntry::default()
        });
        store.insert(&kept, &entries).unwrap();
        store.insert(&gone, &entries).unwrap();
        let key = store.use_embedder("stub", 1, false).unwrap();
        let (missing, _) = store.missing_vectors(EntryId(0), 10).unwrap();
        assert_eq!(missing.len(), 4);
        let of_gone = missing.last().unwrap().id;
        assert_eq!(
            store.store_vectors(key, &[(of_gone, vec![1.0])]).unwrap(),
            1
        );

        let mut writer = store.database.writer().unwrap();
        writer
            .transaction(|transaction| {
                let row = session::find_any(transaction, &gone)?.unwrap();
                deletion::drop_session(transaction, row)
            })
            .unwrap();
        drop(writer);
        let (missing, _) = store.missing_vectors(EntryId(0), 10).unwrap();
        assert_eq!(missing.len(), 2);
        assert_eq!(store.embedded().unwrap(), (0, 2));
        store.use_embedder("another", 2, false).unwrap(); // no vector of the first is left to be lost
    }
}
