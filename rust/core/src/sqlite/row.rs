//! Reads columns and compares checksums; the error of a wrong column names its table and row.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::error::{Error, ErrorKind, Field, Result};

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

// Checksums of rows: xxh3-64 over one unambiguous form of all columns.
//
// SQLite checks the structure of its pages, but not the values in them. In a trial without checksums, 758 of
// 1,000 random bit flips gave a wrong value without an error.

/// The size up to which a row is hashed in one step, in bytes. That takes a third of the time of many steps; a longer
/// row would be copied for it.
const SHORT: usize = 4096;

/// Hashes a row column by column: first the name of the table, then each value with its kind and length. So
/// no two rows have the same form.
pub(super) struct Checksum {
    /// The form of the row, as long as it is short.
    form: Vec<u8>,
    /// The hash of a longer form so far; boxed, since it is large and each step moves the checksum.
    long: Option<Box<Xxh3>>,
}

impl Checksum {
    /// The checksum of a row of `table`; its columns follow in the order of the schema.
    pub(super) fn of(table: &str) -> Self {
        let checksum = Self {
            form: Vec::with_capacity(SHORT / 4),
            long: None,
        };
        checksum.text(table)
    }

    /// Adds a text: `t`, its length in bytes as u64 little-endian, its bytes.
    pub(super) fn text(self, value: &str) -> Self {
        self.sized(b't', value.as_bytes())
    }

    /// Adds bytes: `b`, their number as u64 little-endian, and the bytes.
    pub(super) fn bytes(self, value: &[u8]) -> Self {
        self.sized(b'b', value)
    }

    /// Adds an integer: `i`, its eight bytes little-endian.
    pub(super) fn integer(mut self, value: i64) -> Self {
        let mut form = [b'i'; 9];
        form[1..].copy_from_slice(&value.to_le_bytes());
        self.add(&form);
        self
    }

    fn sized(mut self, kind: u8, value: &[u8]) -> Self {
        let mut head = [kind; 9];
        head[1..].copy_from_slice(&(value.len() as u64).to_le_bytes());
        self.add(&head);
        self.add(value);
        self
    }

    #[inline]
    fn add(&mut self, bytes: &[u8]) {
        if self.long.is_none() && self.form.len() + bytes.len() > SHORT {
            self.long = Some(Box::new(self.hasher()));
        }
        match &mut self.long {
            Some(long) => long.update(bytes),
            None => self.form.extend_from_slice(bytes),
        }
    }

    /// The hash of the form so far, for more steps.
    fn hasher(&self) -> Xxh3 {
        let mut hasher = Xxh3::new();
        hasher.update(&self.form);
        hasher
    }

    /// Adds a text, or `n` for NULL.
    pub(super) fn optional_text(self, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(value),
            None => self.null(),
        }
    }

    /// Adds an integer, or `n` for NULL.
    pub(super) fn optional_integer(self, value: Option<i64>) -> Self {
        match value {
            Some(value) => self.integer(value),
            None => self.null(),
        }
    }

    fn null(mut self) -> Self {
        self.add(b"n");
        self
    }

    /// The checksum as the database keeps it: the same 64 bits, signed.
    pub(super) fn finish(self) -> i64 {
        let hash = self
            .long
            .map_or_else(|| xxh3_64(&self.form), |long| long.digest());
        hash.cast_signed()
    }

    /// Checks that the row of that `key` carries this checksum.
    pub(super) fn verify(self, table: &str, key: ValueRef<'_>, stored: i64) -> Result<()> {
        if self.finish() == stored {
            return Ok(());
        }
        Err(corrupt(table, key, "does not match its checksum"))
    }
}

/// The error of a damaged row; `what` says how it is damaged.
pub(super) fn corrupt(table: &str, key: ValueRef<'_>, what: &str) -> Error {
    let (shown, id) = match key {
        ValueRef::Integer(id) => (id.to_string(), Field::Integer(id)),
        ValueRef::Text(name) => {
            let name = String::from_utf8_lossy(name);
            (format!("{name:?}"), Field::Text(name.into_owned()))
        }
        other => (other.data_type().to_string(), Field::Text(String::new())),
    };
    Error::new(ErrorKind::StoreCorrupt, format!("{table} {shown} {what}"))
        .with("table", table)
        .with("id", id)
}

/// The value that was read; None where the row is damaged.
pub(super) fn believed<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::StoreCorrupt => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moving_a_byte_between_two_columns_changes_the_checksum() {
        let one = Checksum::of("entry").text("ab").text("c").finish();
        let other = Checksum::of("entry").text("a").text("bc").finish();
        assert_ne!(one, other);
    }

    #[test]
    fn a_row_of_any_length_has_the_hash_of_its_form() {
        for length in [
            0,
            1,
            100,
            200,
            240,
            241,
            1_000,
            SHORT - 60,
            SHORT,
            SHORT + 1,
            3 * SHORT,
        ] {
            for more in 0..60 {
                let text = "silt".repeat(length + more)[..length + more].to_owned();
                let form = |text: &str| {
                    let size = (text.len() as u64).to_le_bytes();
                    [b"t", &size[..], text.as_bytes()].concat()
                };
                let form = [form("entry"), form(&text), b"n".to_vec()].concat();
                let checksum = Checksum::of("entry").text(&text).optional_integer(None);
                assert_eq!(
                    checksum.finish().cast_unsigned(),
                    xxh3_64(&form),
                    "{length}"
                );
            }
        }
    }

    #[test]
    fn null_zero_and_empty_are_three_values() {
        let null = Checksum::of("entry").optional_text(None).finish();
        let empty = Checksum::of("entry").optional_text(Some("")).finish();
        let zero = Checksum::of("entry").optional_integer(Some(0)).finish();
        assert!(null != empty && empty != zero && null != zero);
    }

    #[test]
    fn a_row_of_another_table_has_another_checksum() {
        let entry = Checksum::of("entry").integer(1);
        let stored = Checksum::of("message").integer(1).finish();
        let error = entry
            .verify("entry", ValueRef::Integer(1), stored)
            .unwrap_err();
        assert_eq!(error.to_string(), "entry 1 does not match its checksum");
    }
}
