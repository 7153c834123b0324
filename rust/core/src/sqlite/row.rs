//! Reads columns and compares checksums; the error of a wrong column names its table and row.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row};
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

    pub(super) fn get<T: Value>(&self, column: usize) -> Result<T> {
        T::of(self.row.get_ref(column)?).map_err(|what| self.corrupt(column, what))
    }

    pub(super) fn bytes(&self, column: usize) -> Result<&'row [u8]> {
        match self.row.get_ref(column)? {
            ValueRef::Blob(bytes) => Ok(bytes),
            _ => Err(self.corrupt(column, "is not bytes")),
        }
    }

    /// Compares the checksum in the last column with the checksum of the other columns.
    pub(super) fn verify(&self, checksum: Checksum, column: usize) -> Result<()> {
        let stored = self.get(column)?;
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

/// A value of a column.
pub(super) trait Value: Sized {
    /// The value as it is stored; or what is wrong with it.
    fn of(stored: ValueRef<'_>) -> std::result::Result<Self, &'static str>;

    /// Adds the value to the checksum of its row.
    fn add_to(&self, checksum: Checksum) -> Checksum;
}

impl Value for i64 {
    fn of(stored: ValueRef<'_>) -> std::result::Result<Self, &'static str> {
        match stored {
            ValueRef::Integer(value) => Ok(value),
            _ => Err("is not an integer"),
        }
    }

    fn add_to(&self, checksum: Checksum) -> Checksum {
        checksum.integer(*self)
    }
}

impl Value for bool {
    fn of(stored: ValueRef<'_>) -> std::result::Result<Self, &'static str> {
        i64::of(stored).map(|value| value != 0)
    }

    fn add_to(&self, checksum: Checksum) -> Checksum {
        checksum.integer((*self).into())
    }
}

impl Value for usize {
    fn of(stored: ValueRef<'_>) -> std::result::Result<Self, &'static str> {
        Self::try_from(i64::of(stored)?).map_err(|_| "is no size")
    }

    fn add_to(&self, checksum: Checksum) -> Checksum {
        checksum.integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl Value for String {
    fn of(stored: ValueRef<'_>) -> std::result::Result<Self, &'static str> {
        match stored {
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(text.to_owned()),
                Err(_) => Err("is not UTF-8"),
            },
            _ => Err("is not a text"),
        }
    }

    fn add_to(&self, checksum: Checksum) -> Checksum {
        checksum.text(self)
    }
}

/// NULL is None.
impl<T: Value> Value for Option<T> {
    fn of(stored: ValueRef<'_>) -> std::result::Result<Self, &'static str> {
        match stored {
            ValueRef::Null => Ok(None),
            stored => T::of(stored).map(Some),
        }
    }

    fn add_to(&self, checksum: Checksum) -> Checksum {
        match self {
            Some(value) => value.add_to(checksum),
            None => checksum.null(),
        }
    }
}

/// Defines a table: its name, its columns in order, which are the names of fields or of variables in the shape of the
/// type that holds a row, and columns that the checksum leaves out. The columns are named only here: `select!` makes a
/// query of them, `read` reads a row of such a query, and `checksum` is the checksum of a row.
///
/// The first token is a `$` for the macro `select!`.
macro_rules! table {
    ($d:tt $table:literal: $type:ident { $($column:ident),+ $(,)? }) => {
        table!($d $table, [$($column)+] []: $type { $($column),+ });
    };
    ($d:tt $table:literal, [$($column:ident)+] [$($more:ident)*]: $type:ident $shape:tt) => {
        pub(in crate::sqlite) const TABLE: &str = $table;

        /// A query of all columns, with a condition.
        macro_rules! select {
            ($d condition:literal) => {
                concat!(
                    "SELECT ", $(stringify!($column), ", ",)+ "checksum", $(", ", stringify!($more),)*
                    " FROM ", $table, " ", $d condition
                )
            };
        }

        /// Selects every row, for a check or a repair.
        pub(in crate::sqlite) const SELECT_ALL: &str = select!("ORDER BY id");

        pub(in crate::sqlite) fn read(row: &rusqlite::Row<'_>) -> crate::error::Result<$type> {
            let columns = crate::sqlite::row::Columns::of(TABLE, row);
            let mut places = 0..;
            let mut place = || places.next().unwrap_or_default();
            $(let $column = columns.get(place())?;)+
            let found = $type $shape;
            columns.verify(checksum(&found), place())?;
            Ok(found)
        }

        pub(in crate::sqlite) fn checksum(row: &$type) -> crate::sqlite::row::Checksum {
            let $type $shape = row;
            crate::sqlite::row::Checksum::of(TABLE)$(.with($column))+
        }
    };
}
pub(super) use table;

/// What `read` makes of each row of a query.
pub(super) fn list<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// What `read` makes of the first row of a query; None where there is no row.
pub(super) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

/// Runs a statement, and gives the number of rows that it changed.
pub(super) fn run(connection: &Connection, sql: &str, params: impl Params) -> Result<usize> {
    Ok(connection.prepare_cached(sql)?.execute(params)?)
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

    /// Adds a value of any type.
    pub(super) fn with(self, value: &impl Value) -> Self {
        value.add_to(self)
    }

    /// Adds `n` for NULL.
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
                let checksum = Checksum::of("entry").text(&text).null();
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
        let null = Checksum::of("entry").null().finish();
        let empty = Checksum::of("entry").text("").finish();
        let zero = Checksum::of("entry").integer(0).finish();
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
