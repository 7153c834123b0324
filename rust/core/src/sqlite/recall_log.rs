//! The recalls of a session before calls of a model: ids and figures of entries, without their texts.
//!
//! The key of a row combines its session and the number of messages in its log, like the key of a message. A
//! second recall at the same place replaces the first.

use rusqlite::{Connection, Row, params};

use crate::error::Result;
use crate::sqlite::log::{self, CAPACITY};
use crate::sqlite::row::{Checksum, Columns, believed, list, run};
use crate::sqlite::session::SessionRow;
use crate::sqlite::transaction::Transaction;

pub(super) const TABLE: &str = "recall";

/// The number of recalls of a session that can be read. Older recalls are deleted from time to time.
const RECALLS: i64 = 1_000;

/// Old recalls are deleted when the log has passed a multiple of this number of messages, because each deletion reads
/// all recalls of the session.
const STEP: i64 = 64;

/// A query of the columns that `read` expects, with a condition.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT id, created_at, body, checksum FROM recall ",
            $condition
        )
    };
}

/// Selects every row, for a check or a repair.
pub(super) const SELECT_ALL: &str = select!("ORDER BY id");

/// A recall of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recall {
    /// The number of messages in the log at that time.
    pub seq: i64,
    /// The time: milliseconds since 1970, UTC.
    pub created_at: i64,
    /// The caller's account of the recall, as JSON.
    pub body: String,
}

/// Writes recalls of the session. A recall replaces an earlier one at the same place, and the oldest are deleted.
pub(crate) fn put(
    transaction: &Transaction<'_>,
    session: &SessionRow,
    recalls: &[Recall],
) -> Result<()> {
    for recall in recalls {
        let seq = recall.seq.clamp(0, CAPACITY - 1);
        let key = log::key(session.id, seq);
        let before = newest(transaction, session)?;
        run(
            transaction,
            "INSERT INTO recall (id, created_at, body, checksum) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (id) DO UPDATE SET created_at = ?2, body = ?3, checksum = ?4",
            params![
                key,
                recall.created_at,
                recall.body,
                checksum(key, recall.created_at, &recall.body).finish()
            ],
        )?;
        if before.is_some_and(|before| before / STEP < seq / STEP) {
            thin(transaction, session)?;
        }
    }
    Ok(())
}

/// The newest recalls of the session, newest first: at most `limit` and [`RECALLS`].
pub(crate) fn of_session(
    connection: &Connection,
    session: &SessionRow,
    limit: i64,
) -> Result<Vec<Recall>> {
    let (first, end) = keys(session);
    let sql = select!("WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3");
    list(connection, sql, [first, end, limit.clamp(0, RECALLS)], read)
}

/// Deletes rows with wrong checksums, and rows without a session.
pub(super) fn repair(transaction: &Transaction<'_>) -> Result<()> {
    let rows = list(transaction, SELECT_ALL, [], |row| {
        Ok((row.get::<_, i64>(0)?, believed(read(row))?))
    })?;
    let damaged = rows.iter().filter(|(_, found)| found.is_none());
    for (id, _) in damaged {
        run(transaction, "DELETE FROM recall WHERE id = ?1", [id])?;
    }
    transaction.execute(
        "DELETE FROM recall WHERE id >> 32 NOT IN (SELECT id FROM session)",
        [],
    )?;
    Ok(())
}

/// The place of the session's newest recall; None if it has no recalls.
fn newest(connection: &Connection, session: &SessionRow) -> Result<Option<i64>> {
    let (first, end) = keys(session);
    let found: Option<i64> = connection
        .prepare_cached("SELECT MAX(id) FROM recall WHERE id >= ?1 AND id < ?2")?
        .query_row([first, end], |row| row.get(0))?;
    Ok(found.map(|id| log::session_and_seq(id).1))
}

/// Deletes the oldest recalls of the session beyond [`RECALLS`].
fn thin(transaction: &Transaction<'_>, session: &SessionRow) -> Result<()> {
    let (first, end) = keys(session);
    run(transaction, "DELETE FROM recall WHERE id >= ?1 AND id <= (
                 SELECT id FROM recall WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)", [first, end, RECALLS])?;
    Ok(())
}

/// The half-open range of the keys of a session's recalls.
fn keys(session: &SessionRow) -> (i64, i64) {
    let first = log::key(session.id, 0);
    (first, first + CAPACITY)
}

pub(super) fn read(row: &Row<'_>) -> Result<Recall> {
    let columns = Columns::of(TABLE, row);
    let (key, created_at) = (columns.get(0)?, columns.get(1)?);
    let body = columns.get::<String>(2)?;
    columns.verify(checksum(key, created_at, &body), 3)?;
    Ok(Recall {
        seq: log::session_and_seq(key).1,
        created_at,
        body,
    })
}

fn checksum(key: i64, created_at: i64, body: &str) -> Checksum {
    Checksum::of(TABLE)
        .integer(key)
        .integer(created_at)
        .text(body)
}
