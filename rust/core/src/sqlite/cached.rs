//! The valid cache files: the database keeps the checksum of at most one file for each session.
//!
//! The row is written after the file, in a transaction that reads the state of the file. So a database
//! that has the row was once in that state, and every later change shows in the row of the session. A cache file
//! therefore holds an earlier state of this database, or it has another checksum. This is also true of a database
//! that was restored from a copy, whatever files lie beside it.

use hashbrown::HashMap;
use rusqlite::Connection;

use crate::error::Result;
use crate::sqlite::meta;

/// The prefix of these keys in `meta`; the key of the session follows.
const PREFIX: &str = "postings-";

/// The checksum of the session's file. None without a file, or where the row is damaged.
pub(crate) fn find(connection: &Connection, session: i64) -> Option<u64> {
    let value = meta::find(connection, &key(session)).ok()??;
    u64::from_str_radix(&value, 16).ok()
}

/// The checksum of each session's file, by the key of the session. Damaged rows are left out.
pub(crate) fn all(connection: &Connection) -> Result<HashMap<i64, u64>> {
    let mut found = HashMap::new();
    for session in meta::numbers(connection, PREFIX)? {
        if let Some(checksum) = find(connection, session) {
            found.insert(session, checksum);
        }
    }
    Ok(found)
}

/// Makes the file of that checksum the only valid file of the session.
pub(crate) fn put(connection: &Connection, session: i64, checksum: u64) -> Result<()> {
    meta::put(connection, &key(session), &format!("{checksum:016x}"))
}

/// Makes every file of the session invalid.
pub(crate) fn forget(connection: &Connection, session: i64) -> Result<()> {
    meta::delete(connection, &key(session))
}

/// Makes every file invalid.
pub(crate) fn forget_all(connection: &Connection) -> Result<()> {
    meta::delete_all(connection, PREFIX)
}

fn key(session: i64) -> String {
    format!("{PREFIX}{session}")
}
