//! What a mirror takes in without its keeper being told: what others wrote, and the ids that it may give.

use crate::error::Result;
use crate::sqlite::allocator;
use crate::sqlite::database::Writer;
use crate::sqlite::mirror::{self, Changes};

impl Writer<'_> {
    /// Takes what others wrote into a mirror.
    pub(crate) fn take(&mut self, changes: &Changes) -> Result<()> {
        self.run(|connection| mirror::take(connection, changes))
    }

    /// Entries get ids above `high_water` from now on.
    pub(crate) fn give_ids_above(&mut self, high_water: i64) -> Result<()> {
        self.run(|connection| {
            let transaction = connection.transaction()?;
            allocator::put(&transaction, high_water)?;
            Ok(transaction.commit()?)
        })
    }
}
