//! Which cache does the database believe in? For each session the checksum of one file, or none.
//!
//! The row is written after the file, by a transaction that sees what the file is of. So a database that has
//! the row has been where the file is of, and what it has gone through since shows in its session's row: a file
//! is of an earlier state of this database, or it has another checksum. That holds for a database that was
//! put back from a copy, too, whatever lies beside it.

use hashbrown::HashMap;
use rusqlite::Connection;

use crate::error::Result;
use crate::sqlite::meta;

/// What the keys of these rows in `meta` begin with; the key of the session follows.
const PREFIX: &str = "postings-";
/// Above all keys that begin so.
const ABOVE: &str = "postings.";

/// The checksum of the session's file. None where there is none, and where the row cannot be believed.
pub(crate) fn find(connection: &Connection, session: i64) -> Option<u64> {
    let value = meta::find(connection, &key(session)).ok()??;
    u64::from_str_radix(&value, 16).ok()
}

/// All sessions that have a file, and its checksum. What cannot be believed is left out.
pub(crate) fn all(connection: &Connection) -> Result<HashMap<i64, u64>> {
    let mut statement =
        connection.prepare_cached("SELECT key FROM meta WHERE key > ?1 AND key < ?2")?;
    let keys = statement.query_map([PREFIX, ABOVE], |row| row.get::<_, String>(0))?;
    let mut found = HashMap::new();
    for key in keys {
        let session = key?.strip_prefix(PREFIX).and_then(|key| key.parse().ok());
        if let Some(session) = session
            && let Some(checksum) = find(connection, session)
        {
            found.insert(session, checksum);
        }
    }
    Ok(found)
}

/// Believes in the file of that checksum, and in no other of the session.
pub(crate) fn put(connection: &Connection, session: i64, checksum: u64) -> Result<()> {
    meta::put(connection, &key(session), &format!("{checksum:016x}"))
}

/// Believes in no file of the session.
pub(crate) fn forget(connection: &Connection, session: i64) -> Result<()> {
    connection
        .prepare_cached("DELETE FROM meta WHERE key = ?1")?
        .execute([key(session)])?;
    Ok(())
}

/// Believes in no file.
pub(crate) fn forget_all(connection: &Connection) -> Result<()> {
    connection
        .prepare_cached("DELETE FROM meta WHERE key > ?1 AND key < ?2")?
        .execute([PREFIX, ABOVE])?;
    Ok(())
}

fn key(session: i64) -> String {
    format!("{PREFIX}{session}")
}
