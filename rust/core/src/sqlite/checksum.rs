//! Checksums of rows: xxh3-64 over one unambiguous form of all columns.
//!
//! SQLite checks the structure of its pages, but not the values in them. In a trial without checksums, 758 of
//! 1,000 random bit flips gave a wrong value without an error.

use rusqlite::types::ValueRef;
use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, ErrorKind, Field, Result};

/// Hashes a row column by column: first the name of the table, then each value with its kind and length. So
/// no two rows have the same form.
pub(super) struct Checksum(Xxh3);

impl Checksum {
    /// The checksum of a row of `table`; its columns follow in the order of the schema.
    pub(super) fn of(table: &str) -> Self {
        Self(Xxh3::new()).text(table)
    }

    /// Adds a text: `t`, its length in bytes as u64 little-endian, its bytes.
    pub(super) fn text(mut self, value: &str) -> Self {
        self.0.update(b"t");
        self.0.update(&(value.len() as u64).to_le_bytes());
        self.0.update(value.as_bytes());
        self
    }

    /// Adds bytes: `b`, their number as u64 little-endian, and the bytes.
    pub(super) fn bytes(mut self, value: &[u8]) -> Self {
        self.0.update(b"b");
        self.0.update(&(value.len() as u64).to_le_bytes());
        self.0.update(value);
        self
    }

    /// Adds an integer: `i`, its eight bytes little-endian.
    pub(super) fn integer(mut self, value: i64) -> Self {
        self.0.update(b"i");
        self.0.update(&value.to_le_bytes());
        self
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
        self.0.update(b"n");
        self
    }

    /// The checksum as the database keeps it: the same 64 bits, signed.
    pub(super) fn finish(self) -> i64 {
        self.0.digest().cast_signed()
    }

    /// A checksum of 128 bits as text, for tokens: no later check would notice that two of them are equal.
    pub(super) fn finish_wide(self) -> String {
        format!("{:032x}", self.0.digest128())
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
