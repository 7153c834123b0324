//! A transaction, for those who read and write in it.

use std::ops::Deref;

use rusqlite::Connection;

/// A connection in a transaction. Whoever began the transaction ends it; the work in it cannot.
pub(crate) struct Transaction<'connection>(&'connection Connection);

impl<'connection> Transaction<'connection> {
    /// The transaction that is open on `connection`.
    pub(super) fn on(connection: &'connection Connection) -> Self {
        Self(connection)
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}
