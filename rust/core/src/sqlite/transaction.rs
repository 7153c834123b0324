//! A transaction, for those who read and write in it.

use std::any::Any;
use std::cell::RefMut;
use std::ops::Deref;

use rusqlite::Connection;

use crate::error::Result;
use crate::sqlite::seen::Seen;

/// A connection in a transaction. Whoever began the transaction ends it; the work in it cannot.
pub(crate) struct Transaction<'connection> {
    connection: &'connection Connection,
    /// What the connection has read before; None for a connection that also writes.
    seen: Option<&'connection Seen>,
}

impl<'connection> Transaction<'connection> {
    /// The transaction that is open on `connection`.
    pub(super) fn on(connection: &'connection Connection) -> Self {
        Self {
            connection,
            seen: None,
        }
    }

    /// The transaction that has just begun on `connection`, which only reads.
    pub(super) fn reading(connection: &'connection Connection, seen: &'connection Seen) -> Self {
        seen.begin();
        Self {
            connection,
            seen: Some(seen),
        }
    }

    /// The rows of type `T` that the connection has read since the file was last written; see [`Seen`]. None for a
    /// connection that also writes.
    pub(super) fn seen<T: Any + Default + Send>(&self) -> Result<Option<RefMut<'_, T>>> {
        let rows = self.seen.map(|seen| seen.rows(self.connection));
        rows.transpose()
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

/// A transaction that is ended, and leaves nothing written, when this is dropped. Its two statements are prepared once
/// for each connection.
pub(super) struct Begun<'connection>(&'connection Connection);

impl<'connection> Begun<'connection> {
    /// Begins a transaction on a connection that is in none.
    pub(super) fn on(connection: &'connection mut Connection) -> Result<Self> {
        connection.prepare_cached("BEGIN DEFERRED")?.execute([])?;
        Ok(Self(connection))
    }
}

impl Deref for Begun<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // SQLite may have ended it already, after an error.
        if !self.0.is_autocommit() {
            let end = self.0.prepare_cached("ROLLBACK");
            let _ = end.and_then(|mut end| end.execute([]));
        }
    }
}
