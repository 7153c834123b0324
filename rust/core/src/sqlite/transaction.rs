//! A transaction, for those who read and write in it, and what its connection keeps of the rows that it has read.

use std::any::Any;
use std::cell::{Cell, RefCell, RefMut};
use std::ops::Deref;

use rusqlite::Connection;

use crate::error::Result;
use crate::sqlite::row::run;

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
        run(connection, "BEGIN DEFERRED", [])?;
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

// What a connection that reads keeps of the rows that it has read, for as long as nobody writes.
//
// SQLite numbers the states of a file that a connection has seen (`PRAGMA data_version`). It drops the pages in its
// own memory where the number has changed, and only there. So a row that was read and compared with its checksum at
// the same number is still that row.

/// Rows of one state of the file. Each kind of row has a type of its own that keeps some of them.
#[derive(Default)]
pub(super) struct Seen {
    /// The number of that state; None before the first.
    version: Cell<Option<i64>>,
    /// Whether the number was compared in the current transaction, which sees one state of the file.
    is_compared: Cell<bool>,
    rows: RefCell<Vec<Box<dyn Any + Send>>>,
}

impl Seen {
    /// Begins a transaction.
    pub(super) fn begin(&self) {
        self.is_compared.set(false);
    }

    /// The rows of type `T` that were read of the state that the current transaction of `connection` sees; at first
    /// none.
    pub(super) fn rows<T: Any + Default + Send>(
        &self,
        connection: &Connection,
    ) -> Result<RefMut<'_, T>> {
        let mut rows = self.rows.borrow_mut();
        if !self.is_compared.get() {
            let mut statement = connection.prepare_cached("PRAGMA data_version")?;
            let version = statement.query_row([], |row| row.get(0))?;
            if self.version.replace(Some(version)) != Some(version) {
                rows.clear();
            }
            self.is_compared.set(true);
        }
        if !rows.iter().any(|rows| rows.is::<T>()) {
            rows.push(Box::<T>::default());
        }
        Ok(RefMut::map(rows, |rows| {
            let mut found = rows.iter_mut().filter_map(|rows| rows.downcast_mut());
            found.next().expect("the rows of this type were just added")
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connection;

    #[test]
    fn rows_are_kept_by_their_type_and_until_another_connection_writes() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sqlite3");
        let writer = connection::writable(&file).unwrap();
        writer.execute_batch("CREATE TABLE t (x)").unwrap();
        let reader = connection::readable(&file).unwrap();
        let seen = Seen::default();
        for _ in 0..3 {
            seen.begin();
            assert!(seen.rows::<Vec<u8>>(&reader).unwrap().is_empty());
            seen.rows::<Vec<u8>>(&reader).unwrap().push(7);
            *seen.rows::<String>(&reader).unwrap() = "silt".to_owned();
            seen.begin();
            assert_eq!(*seen.rows::<Vec<u8>>(&reader).unwrap(), [7]);
            assert_eq!(*seen.rows::<String>(&reader).unwrap(), "silt");
            assert_eq!(seen.rows.borrow().len(), 2, "one for each type");
            writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        }
    }
}
