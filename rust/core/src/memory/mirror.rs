//! A mirror: a store in memory of rows that are kept elsewhere, and what others wrote of them.

use crate::error::Result;
use crate::memory::store::Store;
use crate::sqlite::Changes;
use crate::sqlite::mirror::{self, Columns};

impl Store {
    /// Takes what others wrote into a mirror. Searches find it, and who keeps the rows is not told.
    ///
    /// # Errors
    ///
    /// [`StoreIo`](crate::ErrorKind::StoreIo) where rows exclude one another: two sessions of one name, say.
    pub fn take(&self, changes: &Changes) -> Result<()> {
        self.database.writer()?.take(changes)
    }

    /// Entries get ids above `high_water` from now on.
    ///
    /// # Errors
    ///
    /// Those of a write.
    pub fn give_ids_above(&self, high_water: i64) -> Result<()> {
        self.database.writer()?.give_ids_above(high_water)
    }

    /// The tables of a mirror, those that others refer to first, and of each the names of its columns, and whether
    /// they hold text.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn tables(&self) -> Result<Vec<(&'static str, Columns)>> {
        self.database.read(|transaction| {
            let columns = |table| Ok((table, mirror::columns(transaction, table)?));
            mirror::tables().map(columns).collect()
        })
    }
}
