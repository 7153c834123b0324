//! How much is there?

use rusqlite::Connection;

use crate::error::Result;
use crate::sqlite::session::SessionRow;

/// What a store, or one session of it, holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions with a message or an entry.
    pub sessions: i64,
    /// Messages in their logs.
    pub messages: i64,
    /// Entries.
    pub entries: i64,
    /// Compactions.
    pub compactions: i64,
    /// Bytes of the entries' texts.
    pub text_bytes: i64,
    /// Entries that wait for their host to commit.
    pub staged: i64,
}

/// Of all sessions.
pub(crate) fn of_store(connection: &Connection) -> Result<Counts> {
    let mut statement = connection.prepare_cached(
        "SELECT COALESCE(SUM(next_seq > 0 OR entries > 0), 0), COALESCE(SUM(next_seq), 0),
                COALESCE(SUM(entries), 0), COALESCE(SUM(compactions), 0),
                (SELECT COALESCE(SUM(octet_length(text)), 0) FROM entry),
                (SELECT COALESCE(SUM(held), 0) FROM stage WHERE state = 0)
         FROM session",
    )?;
    let counts = statement.query_row([], |row| {
        Ok(Counts {
            sessions: row.get(0)?,
            messages: row.get(1)?,
            entries: row.get(2)?,
            compactions: row.get(3)?,
            text_bytes: row.get(4)?,
            staged: row.get(5)?,
        })
    })?;
    Ok(counts)
}

/// Of one session.
pub(crate) fn of_session(connection: &Connection, row: &SessionRow) -> Result<Counts> {
    let mut statement = connection.prepare_cached(
        "SELECT (SELECT COALESCE(SUM(octet_length(text)), 0) FROM entry WHERE session = ?1),
                (SELECT COALESCE(SUM(held), 0) FROM stage WHERE session = ?1 AND state = 0)",
    )?;
    let (text_bytes, staged) =
        statement.query_row([row.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Counts {
        sessions: i64::from(row.next_seq > 0 || row.entries > 0),
        messages: row.next_seq,
        entries: row.entries,
        compactions: row.compactions,
        text_bytes,
        staged,
    })
}
