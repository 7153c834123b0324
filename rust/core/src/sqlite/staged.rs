//! The entries of batches that wait: in no index, listed and counted by nobody but their batch.

use rusqlite::{Connection, Row, Transaction, params};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::checksum::{Checksum, corrupt};
use crate::sqlite::entry::NewEntry;
use crate::sqlite::ranges::Range;
use crate::sqlite::row::Columns;
use crate::sqlite::stage::{self, Stage};

pub(super) const TABLE: &str = "staged";

/// The columns in the order of `read`, and then a condition.
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

/// Every row, to be checked.
pub(super) const SELECT_ALL: &str = select!("ORDER BY id");

/// An entry that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedEntry {
    /// Its key among those that wait: no entry has it.
    pub id: i64,
    /// The key of its batch.
    pub(crate) stage: i64,
    place: i64,
    /// What was handed over.
    pub entry: NewEntry,
}

/// Writes the entries of a batch that are not blank; how many.
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

/// What waits of a batch: the place of each in it, and the entry.
pub(crate) fn of(connection: &Connection, stage: &Stage) -> Result<Vec<(usize, NewEntry)>> {
    let mut statement = connection.prepare_cached(select!("WHERE stage = ?1 ORDER BY place"))?;
    let mut rows = statement.query([stage.id])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let found = read(row)?;
        if found.stage != stage.id {
            return Err(corrupt(
                TABLE,
                row.get_ref(0)?,
                "is listed under a batch that it is not of",
            ));
        }
        entries.push((
            usize::try_from(found.place).unwrap_or(usize::MAX),
            found.entry,
        ));
    }
    if i64::try_from(entries.len()).is_ok_and(|found| found == stage.held) {
        return Ok(entries);
    }
    let message = format!(
        "batch {} should have {} entries that wait, and {} were found",
        stage.token,
        stage.held,
        entries.len()
    );
    Err(Error::new(ErrorKind::StoreCorrupt, message)
        .with("table", TABLE)
        .with("token", stage.token.clone()))
}

/// Deletes what waits of a batch.
pub(super) fn delete(transaction: &Transaction<'_>, stage: i64) -> Result<()> {
    transaction
        .prepare_cached("DELETE FROM staged WHERE stage = ?1")?
        .execute([stage])?;
    Ok(())
}

/// Everything of the session that waits, in the order it was handed over.
pub(crate) fn of_session(connection: &Connection, session: i64) -> Result<Vec<StagedEntry>> {
    let mut entries = Vec::new();
    for stage in stage::waiting(connection, Some(session))? {
        let mut statement =
            connection.prepare_cached(select!("WHERE stage = ?1 ORDER BY place"))?;
        let mut rows = statement.query([stage.id])?;
        while let Some(row) = rows.next()? {
            entries.push(read(row)?);
        }
    }
    Ok(entries)
}

/// Deletes those of `ids`, and those that came from a message of `seqs`, which ascend. How many.
pub(crate) fn forget(
    transaction: &Transaction<'_>,
    session: i64,
    ids: &[i64],
    seqs: &[i64],
) -> Result<i64> {
    let waiting = of_session(transaction, session)?;
    let mut total = 0;
    for batch in stage::waiting(transaction, Some(session))? {
        let mut gone = 0;
        for found in waiting.iter().filter(|found| found.stage == batch.id) {
            let NewEntry { start, end, .. } = found.entry;
            if ids.contains(&found.id) || (Range { start, end }).holds_one(seqs) {
                transaction
                    .prepare_cached("DELETE FROM staged WHERE id = ?1")?
                    .execute([found.id])?;
                gone += 1;
            }
        }
        if gone > 0 {
            stage::left(transaction, batch, gone)?;
        }
        total += gone;
    }
    Ok(total)
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
    Checksum::of(TABLE)
        .integer(id)
        .integer(stage)
        .integer(place)
        .integer(entry.start)
        .integer(entry.end)
        .text(&entry.role)
        .optional_text(entry.name.as_deref())
        .text(&entry.kind)
        .text(&entry.tags)
        .integer(entry.created_at)
        .optional_integer(entry.expires_at)
        .integer(i64::from(entry.repaired))
        .text(&entry.text)
}
