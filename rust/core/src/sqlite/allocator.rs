//! Allocates the ids of entries. Each id is given once.

use rusqlite::{Connection, params};

use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::sqlite::checksum::Checksum;
use crate::sqlite::row::Columns;
use crate::sqlite::transaction::Transaction;

pub(super) const TABLE: &str = "allocator";

/// Reserves `count` consecutive ids and gives the first.
///
/// The high-water mark moves in the transaction that writes the rows. So a rollback returns the ids, and
/// no other process can take them in between.
pub(crate) fn take(transaction: &Transaction<'_>, count: usize) -> Result<EntryId> {
    let first = high_water(transaction)?.max(max_id(transaction)?) + 1;
    let last = i64::try_from(count)
        .ok()
        .and_then(|count| first.checked_add(count - 1))
        .filter(|&last| last < i64::MAX)
        .ok_or_else(|| {
            let message = format!("the store has no {count} ids left after {}", first - 1);
            Error::new(ErrorKind::InvalidEntry, message)
        })?;
    transaction
        .prepare_cached("UPDATE allocator SET high_water = ?1, checksum = ?2 WHERE id = 0")?
        .execute(params![last, checksum(last).finish()])?;
    Ok(EntryId(first))
}

/// Writes the one row of a new database.
pub(super) fn create(transaction: &Transaction<'_>) -> Result<()> {
    transaction
        .prepare_cached("INSERT INTO allocator (id, high_water, checksum) VALUES (0, 0, ?1)")?
        .execute([checksum(0).finish()])?;
    Ok(())
}

/// Sets the mark without a check. Only a repair calls this.
pub(super) fn put(transaction: &Transaction<'_>, high_water: i64) -> Result<()> {
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO allocator (id, high_water, checksum) VALUES (0, ?1, ?2)",
        )?
        .execute([high_water, checksum(high_water).finish()])?;
    Ok(())
}

/// The highest id that any entry ever had.
pub(super) fn high_water(connection: &Connection) -> Result<i64> {
    let mut statement =
        connection.prepare_cached("SELECT id, high_water, checksum FROM allocator WHERE id = 0")?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else {
        let message = "the allocator has lost its row: ids might be given twice";
        return Err(Error::new(ErrorKind::StoreCorrupt, message));
    };
    let columns = Columns::of(TABLE, row);
    let high_water = columns.integer(1)?;
    columns.verify(checksum(high_water), 2)?;
    Ok(high_water)
}

fn max_id(transaction: &Transaction<'_>) -> Result<i64> {
    let mut statement = transaction.prepare_cached("SELECT COALESCE(MAX(id), 0) FROM entry")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

fn checksum(high_water: i64) -> Checksum {
    Checksum::of(TABLE).integer(0).integer(high_water)
}
