//! The deleted sessions that still have rows. Many rows are deleted in many transactions.

use rusqlite::Connection;

use crate::error::Result;
use crate::sqlite::meta;

/// The prefix of their keys in `meta`; the key of the session follows.
const PREFIX: &str = "departing-";
/// A key above all keys with this prefix.
const ABOVE: &str = "departing.";

/// Records that the session's rows are still to be deleted.
pub(crate) fn add(connection: &Connection, session: i64) -> Result<()> {
    meta::put(connection, &key(session), meta::DUE)
}

/// Removes the record, once all rows of the session are deleted.
pub(crate) fn remove(connection: &Connection, session: i64) -> Result<()> {
    connection
        .prepare_cached("DELETE FROM meta WHERE key = ?1")?
        .execute([key(session)])?;
    Ok(())
}

/// The keys of sessions whose rows are still to be deleted. The values in `meta` are not read, so no checksum matters.
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
