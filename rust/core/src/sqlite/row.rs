//! Reads columns; the error of a wrong column names its table and row.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::checksum::{Checksum, corrupt};

/// A row of a table whose first column is its key.
pub(super) struct Columns<'row> {
    table: &'static str,
    row: &'row Row<'row>,
}

impl<'row> Columns<'row> {
    pub(super) fn of(table: &'static str, row: &'row Row<'row>) -> Self {
        Self { table, row }
    }

    pub(super) fn integer(&self, column: usize) -> Result<i64> {
        self.as_integer(column, self.row.get_ref(column)?)
    }

    pub(super) fn optional_integer(&self, column: usize) -> Result<Option<i64>> {
        match self.row.get_ref(column)? {
            ValueRef::Null => Ok(None),
            value => self.as_integer(column, value).map(Some),
        }
    }

    pub(super) fn text(&self, column: usize) -> Result<String> {
        self.as_text(column, self.row.get_ref(column)?)
    }

    pub(super) fn optional_text(&self, column: usize) -> Result<Option<String>> {
        match self.row.get_ref(column)? {
            ValueRef::Null => Ok(None),
            value => self.as_text(column, value).map(Some),
        }
    }

    fn as_integer(&self, column: usize, value: ValueRef<'_>) -> Result<i64> {
        match value {
            ValueRef::Integer(value) => Ok(value),
            _ => Err(self.corrupt(column, "is not an integer")),
        }
    }

    fn as_text(&self, column: usize, value: ValueRef<'_>) -> Result<String> {
        match value {
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(text.to_owned()),
                Err(_) => Err(self.corrupt(column, "is not UTF-8")),
            },
            _ => Err(self.corrupt(column, "is not a text")),
        }
    }

    pub(super) fn bytes(&self, column: usize) -> Result<&'row [u8]> {
        match self.row.get_ref(column)? {
            ValueRef::Blob(bytes) => Ok(bytes),
            _ => Err(self.corrupt(column, "is not bytes")),
        }
    }

    /// Compares the checksum in the last column with the checksum of the other columns.
    pub(super) fn verify(&self, checksum: Checksum, column: usize) -> Result<()> {
        let stored = self.integer(column)?;
        checksum.verify(self.table, self.row.get_ref(0)?, stored)
    }

    /// The error of a damaged row; `what` says how it is damaged.
    pub(super) fn corrupt(&self, column: usize, what: &str) -> Error {
        let key = self.row.get_ref(0).unwrap_or(ValueRef::Null);
        let name = self.row.as_ref().column_name(column).unwrap_or("?");
        corrupt(
            self.table,
            key,
            &format!("is damaged: column {name:?} {what}"),
        )
    }
}

/// Checks that an index led to `expected` rows of the session, each row once and in ascending order.
/// A damaged index leaves rows out or gives a row twice. Checksums do not show this, because each row is correct by
/// itself.
pub(super) fn check_list(
    table: &'static str,
    session: &str,
    expected: i64,
    ids: impl Iterator<Item = i64>,
) -> Result<()> {
    let (mut found, mut last) = (0, 0);
    let mut ascending = true;
    for id in ids {
        ascending &= id > last;
        (found, last) = (found + 1, id);
    }
    if ascending && found == expected {
        return Ok(());
    }
    let message = format!(
        "session {session:?} should have {expected} rows in {table} here, and some are missing"
    );
    Err(Error::new(ErrorKind::StoreCorrupt, message).with("table", table))
}
