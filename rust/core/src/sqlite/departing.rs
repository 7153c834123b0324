//! Sessions that were deleted, and whose rows are still leaving: many rows are deleted in many transactions.

use rusqlite::Connection;

use crate::error::Result;
use crate::sqlite::meta;

/// What the keys of these rows in `meta` begin with; the key of the session follows.
const PREFIX: &str = "departing-";
/// Above all keys that begin so.
const ABOVE: &str = "departing.";

/// Remembers that rows of the session are to leave.
pub(crate) fn add(connection: &Connection, session: i64) -> Result<()> {
    meta::put(connection, &key(session), meta::DUE)
}

/// All of the session's rows have left.
pub(crate) fn remove(connection: &Connection, session: i64) -> Result<()> {
    connection
        .prepare_cached("DELETE FROM meta WHERE key = ?1")?
        .execute([key(session)])?;
    Ok(())
}

/// The sessions whose rows are still leaving. The value of a row is not looked at: its key says all.
pub(crate) fn all(connection: &Connection) -> Result<Vec<i64>> {
    let mut statement =
        connection.prepare_cached("SELECT key FROM meta WHERE key > ?1 AND key < ?2")?;
    let keys = statement.query_map([PREFIX, ABOVE], |row| row.get::<_, String>(0))?;
    let mut found = Vec::new();
    for key in keys {
        found.extend(
            key?.strip_prefix(PREFIX)
                .and_then(|key| key.parse::<i64>().ok()),
        );
    }
    Ok(found)
}

fn key(session: i64) -> String {
    format!("{PREFIX}{session}")
}
