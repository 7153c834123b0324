//! Changes of a mirror that its keeper is not told of: rows that others wrote, and the range of ids it may give.

use crate::error::Result;
use crate::sqlite::allocator;
use crate::sqlite::database::Writer;
use crate::sqlite::mirror::{self, Changes};
use crate::sqlite::transaction::Transaction;

impl Writer<'_> {
    /// Writes rows of others into a mirror.
    pub(crate) fn take(&mut self, changes: &Changes) -> Result<()> {
        self.run(|connection| mirror::take(connection, changes))
    }

    /// Makes new entries get ids above `high_water`.
    pub(crate) fn give_ids_above(&mut self, high_water: i64) -> Result<()> {
        self.run(|connection| {
            let begun = connection.transaction()?;
            allocator::put(&Transaction::on(&begun), high_water)?;
            Ok(begun.commit()?)
        })
    }
}
