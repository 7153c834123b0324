//! Counts of a store and of a session.

use rusqlite::Connection;

use crate::error::Result;
use crate::sqlite::session::{self, SessionRow};

/// The counts of a store, or of one session of it.
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
    /// Bytes of the entries' texts. SQLite sums their lengths without reading them.
    pub text_bytes: i64,
}

/// The counts of all sessions.
pub(crate) fn of_store(connection: &Connection) -> Result<Counts> {
    let mut counts = Counts {
        text_bytes: connection
            .prepare_cached(
                "SELECT COALESCE(SUM(octet_length(text)), 0) FROM entry
                 WHERE session NOT IN (SELECT id FROM session WHERE dropped = 1)",
            )?
            .query_row([], |row| row.get(0))?,
        ..Counts::default()
    };
    // The rows are read one by one, and their checksums are compared. An SQL sum would include damaged values.
    let mut statement = connection.prepare_cached(session::SELECT_ALL)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let row = session::read(row)?;
        counts.sessions += i64::from(row.next_seq > 0 || row.entries > 0);
        counts.messages += row.next_seq;
        counts.entries += row.entries;
        counts.compactions += row.compactions;
    }
    Ok(counts)
}

/// The counts of one session.
pub(crate) fn of_session(connection: &Connection, row: &SessionRow) -> Result<Counts> {
    let mut statement = connection.prepare_cached(
        "SELECT COALESCE(SUM(octet_length(text)), 0) FROM entry WHERE session = ?1",
    )?;
    Ok(Counts {
        sessions: i64::from(row.next_seq > 0 || row.entries > 0),
        messages: row.next_seq,
        entries: row.entries,
        compactions: row.compactions,
        text_bytes: statement.query_row([row.id], |row| row.get(0))?,
    })
}
