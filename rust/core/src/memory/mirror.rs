//! Mirrors: stores in memory whose rows are kept elsewhere.

use crate::error::Result;
use crate::memory::store::Store;
use crate::sqlite::Changes;

impl Store {
    /// Writes rows of others into a mirror. Searches find them, and the keeper of the rows is not told.
    ///
    /// # Errors
    ///
    /// [`StoreIo`](crate::ErrorKind::StoreIo) where rows contradict each other, such as two sessions of one name.
    pub fn take(&self, changes: &Changes) -> Result<()> {
        self.database.writer()?.take(changes)
    }

    /// Makes new entries get ids above `high_water`.
    ///
    /// # Errors
    ///
    /// The errors of a write.
    pub fn give_ids_above(&self, high_water: i64) -> Result<()> {
        self.database.writer()?.give_ids_above(high_water)
    }
}
