//! The waiting entries of batches. No index has them, and they do not count as entries of their session.

use rusqlite::{Connection, Row, params};

use crate::error::Result;
use crate::sqlite::checksum::{Checksum, corrupt};
use crate::sqlite::entry::{NewEntry, with_entry};
use crate::sqlite::row::Columns;
use crate::sqlite::transaction::Transaction;

pub(super) const TABLE: &str = "staged";

/// A query of the columns that `read` expects, with a condition.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT id, stage, place, source_start, source_end, role, name, kind, created_at, repaired, text,
                    checksum, tags, expires_at
             FROM staged ",
            $condition
        )
    };
}

/// Selects every row, for a check or a repair.
pub(super) const SELECT_ALL: &str = select!("ORDER BY id");

/// An entry of a batch that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedEntry {
    /// Its key in the table `staged`. Entries have keys of their own, so an entry may have the same number.
    pub id: i64,
    /// The key of its batch.
    pub(crate) stage: i64,
    pub(super) place: i64,
    /// The entry.
    pub entry: NewEntry,
}

/// Writes the entries of a batch, except blank ones. Gives the number of rows.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    stage: i64,
    entries: &[NewEntry],
) -> Result<i64> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO staged (id, stage, place, source_start, source_end, role, name, kind, tags, created_at,
             expires_at, repaired, text, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?;
    let mut id: i64 = transaction
        .prepare_cached("SELECT COALESCE(MAX(id), 0) FROM staged")?
        .query_row([], |row| row.get(0))?;
    let mut held = 0;
    for (place, entry) in (0..).zip(entries) {
        if entry.text.trim().is_empty() {
            continue;
        }
        id += 1;
        held += 1;
        statement.execute(params![
            id,
            stage,
            place,
            entry.start,
            entry.end,
            entry.role,
            entry.name,
            entry.kind,
            entry.tags,
            entry.created_at,
            entry.expires_at,
            entry.repaired,
            entry.text,
            checksum(id, stage, place, entry).finish(),
        ])?;
    }
    Ok(held)
}

/// The waiting entries of the batch with that key, in the order of the batch.
pub(super) fn of(connection: &Connection, stage: i64) -> Result<Vec<StagedEntry>> {
    let mut statement = connection.prepare_cached(select!("WHERE stage = ?1 ORDER BY place"))?;
    let mut rows = statement.query([stage])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let found = read(row)?;
        if found.stage != stage {
            return Err(corrupt(
                TABLE,
                row.get_ref(0)?,
                "is listed under a batch that it is not of",
            ));
        }
        entries.push(found);
    }
    Ok(entries)
}

/// Deletes the waiting entries of a batch.
pub(super) fn delete(transaction: &Transaction<'_>, stage: i64) -> Result<()> {
    transaction
        .prepare_cached("DELETE FROM staged WHERE stage = ?1")?
        .execute([stage])?;
    Ok(())
}

/// Deletes one waiting entry.
pub(super) fn delete_one(transaction: &Transaction<'_>, id: i64) -> Result<()> {
    transaction
        .prepare_cached("DELETE FROM staged WHERE id = ?1")?
        .execute([id])?;
    Ok(())
}

pub(super) fn read(row: &Row<'_>) -> Result<StagedEntry> {
    let columns = Columns::of(TABLE, row);
    let found = StagedEntry {
        id: columns.integer(0)?,
        stage: columns.integer(1)?,
        place: columns.integer(2)?,
        entry: NewEntry {
            start: columns.integer(3)?,
            end: columns.integer(4)?,
            role: columns.text(5)?,
            name: columns.optional_text(6)?,
            kind: columns.text(7)?,
            created_at: columns.integer(8)?,
            repaired: columns.integer(9)? != 0,
            text: columns.text(10)?,
            tags: columns.text(12)?,
            expires_at: columns.optional_integer(13)?,
        },
    };
    let checksum = checksum(found.id, found.stage, found.place, &found.entry);
    columns.verify(checksum, 11)?;
    Ok(found)
}

pub(super) fn checksum(id: i64, stage: i64, place: i64, entry: &NewEntry) -> Checksum {
    let keys = Checksum::of(TABLE)
        .integer(id)
        .integer(stage)
        .integer(place);
    with_entry(keys, entry).text(&entry.text)
}
