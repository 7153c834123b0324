//! The deleted sessions that still have rows. Many rows are deleted in many transactions.

use rusqlite::Connection;

use crate::error::Result;
use crate::sqlite::meta;

/// The prefix of their keys in `meta`; the key of the session follows.
const PREFIX: &str = "departing-";

/// Records that the session's rows are still to be deleted.
pub(crate) fn add(connection: &Connection, session: i64) -> Result<()> {
    meta::put(connection, &key(session), meta::DUE)
}

/// Removes the record, once all rows of the session are deleted.
pub(crate) fn remove(connection: &Connection, session: i64) -> Result<()> {
    meta::delete(connection, &key(session))
}

/// The keys of sessions whose rows are still to be deleted.
pub(crate) fn all(connection: &Connection) -> Result<Vec<i64>> {
    meta::numbers(connection, PREFIX)
}

fn key(session: i64) -> String {
    format!("{PREFIX}{session}")
}
