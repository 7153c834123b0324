//! A database in memory that mirrors rows which are kept elsewhere. Before a transaction commits, its changes are
//! passed to the keeper of the rows, who may refuse them.
//!
//! Triggers of the connection record the keys of changed rows. A refusal rolls the transaction back, so the
//! mirror has no row that the keeper lacks. [`take`] writes rows of others into the mirror, without telling the keeper.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::error::Result;
use crate::sqlite::database::Writer;
use crate::sqlite::row::{list, run};
use crate::sqlite::transaction::Transaction;
use crate::sqlite::{connection, fact, meta, schema};

/// The mirrored tables, each with its key column. Tables that others refer to come first.
///
/// `forgotten` has no key of one column. Its rows are added one at a time, and are all deleted with their session.
const TABLES: [(&str, &str); 11] = [
    ("session", "id"),
    ("message", "id"),
    ("compaction", "id"),
    ("derived", "id"),
    ("entry", "id"),
    ("quarantine", "id"),
    ("embedder", "id"),
    ("vector", "entry"),
    ("fact", "id"),
    ("recall", "id"),
    (FORGOTTEN, "session"),
];

const FORGOTTEN: &str = "forgotten";

/// The value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// UTF-8; in a damaged row any bytes.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

/// The changes of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The table.
    pub table: String,
    /// New and changed rows, with their values in the order of the table's columns.
    pub rows: Vec<Vec<Value>>,
    /// Keys of deleted rows; for `forgotten`, the sessions whose rows were deleted.
    pub gone: Vec<i64>,
}

/// The changes of one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Tables with changes.
    pub tables: Vec<Changed>,
    /// The highest id that an entry ever got.
    pub high_water: i64,
    /// The highest key that was ever given in each table, with the name of the table.
    pub sequences: Vec<(String, i64)>,
    /// The salt of digests of forgotten messages. An empty salt leaves the salt of the mirror unchanged.
    pub salt: String,
}

/// The keeper of the rows that a mirror shows.
pub trait Keeper: Send + Sync {
    /// Stores all of `changes`, or none, before the mirror commits them.
    ///
    /// # Errors
    ///
    /// Any error rolls the transaction of the mirror back.
    fn keep(&self, changes: &Changes) -> Result<()>;
}

/// A column of a mirrored table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type of its values: `INTEGER`, `TEXT` or `BLOB`.
    pub kind: String,
    /// Whether it may be NULL.
    pub is_optional: bool,
    /// Whether it is a part of the key of its table.
    pub is_key: bool,
}

/// The mirrored tables with their columns in order. Tables that others refer to come first.
///
/// # Errors
///
/// [`StoreIo`](crate::ErrorKind::StoreIo) where memory is exhausted.
pub fn mirrored_tables() -> Result<Vec<(&'static str, Vec<Column>)>> {
    let mut connection = connection::in_memory()?;
    schema::create(&mut connection, Path::new(":memory:"), &[])?;
    let columns = |(table, _)| Ok((table, columns(&connection, table)?));
    TABLES.into_iter().map(columns).collect()
}

fn columns(connection: &Connection, table: &str) -> Result<Vec<Column>> {
    let sql = "SELECT name, type, \"notnull\" OR pk > 0, pk > 0 FROM pragma_table_info(?1)";
    list(connection, sql, [table], |row| {
        Ok(Column {
            name: row.get(0)?,
            kind: row.get(1)?,
            is_optional: !row.get::<_, bool>(2)?,
            is_key: row.get(3)?,
        })
    })
}

/// Creates the triggers that record changed rows of the connection.
pub(super) fn begin(connection: &Connection) -> Result<()> {
    connection.execute_batch(
        "CREATE TEMP TABLE changed (place INTEGER, id INTEGER, PRIMARY KEY (place, id)) WITHOUT ROWID;
         CREATE TEMP TABLE noted (session INTEGER, seq INTEGER, digest BLOB, PRIMARY KEY (session, seq, digest))
             WITHOUT ROWID;
         CREATE TEMP TRIGGER forgotten_added AFTER INSERT ON main.forgotten
             BEGIN INSERT OR IGNORE INTO noted VALUES (NEW.session, NEW.seq, NEW.digest); END;",
    )?;
    for (place, (table, key)) in TABLES.into_iter().enumerate() {
        for (event, row) in [("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")] {
            if table == FORGOTTEN && event != "DELETE" {
                continue;
            }
            connection.execute_batch(&format!(
                "CREATE TEMP TRIGGER {table}_{event} AFTER {event} ON main.{table}
                     BEGIN INSERT OR IGNORE INTO changed VALUES ({place}, {row}.{key}); END;"
            ))?;
        }
    }
    Ok(())
}

/// Passes the changes of the transaction to the keeper. The keeper is called even if no row has changed.
pub(super) fn hand_over(transaction: &Transaction<'_>, keeper: &dyn Keeper) -> Result<()> {
    let mut changes = Changes {
        high_water: meta::high_water(transaction)?,
        salt: meta::get(transaction, meta::SALT)?,
        ..Changes::default()
    };
    for place in changed_places(transaction)? {
        let Some(&(table, key)) = TABLES.get(place) else {
            continue;
        };
        let rows = rows(transaction, place, table, key)?;
        let gone = gone(transaction, place, table, key)?;
        if !rows.is_empty() || !gone.is_empty() {
            changes.tables.push(Changed {
                table: table.to_owned(),
                rows,
                gone,
            });
        }
    }
    let sql = "SELECT name, seq FROM sqlite_sequence";
    changes.sequences = list(transaction, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if !changes.tables.is_empty() {
        forget_changes(transaction)?;
    }
    keeper.keep(&changes)
}

/// Writes rows of others into the mirror. Indexes in memory notice them like the writes of another process.
///
/// Neither references between rows nor checksums are checked here; a read of a row compares its checksum.
pub(super) fn take(connection: &mut Connection, changes: &Changes) -> Result<()> {
    // Rows come in any order. When a row with dependent rows is deleted, the changes name the dependent rows too.
    connection.pragma_update(None, "foreign_keys", false)?;
    let outcome = take_in(connection, changes);
    connection.pragma_update(None, "foreign_keys", true)?;
    outcome
}

fn take_in(connection: &mut Connection, changes: &Changes) -> Result<()> {
    let begun = connection.transaction()?;
    let transaction = Transaction::on(&begun);
    for (table, key) in TABLES.into_iter().rev() {
        let delete = format!("DELETE FROM {table} WHERE {key} = ?1");
        for changed in changes.tables.iter().filter(|each| each.table == table) {
            let mut statement = transaction.prepare_cached(&delete)?;
            for id in &changed.gone {
                statement.execute([id])?;
            }
        }
    }
    for (table, key) in TABLES {
        for changed in changes.tables.iter().filter(|each| each.table == table) {
            put(&transaction, table, key, &changed.rows)?;
        }
    }
    if changes.tables.iter().any(|each| each.table == fact::TABLE) {
        meta::renew(&transaction, meta::FACTS)?;
    }
    if !changes.salt.is_empty() {
        meta::set(&transaction, meta::SALT, &changes.salt)?;
    }
    for (table, last) in &changes.sequences {
        let known = run(
            &transaction,
            "UPDATE sqlite_sequence SET seq = MAX(seq, ?2) WHERE name = ?1",
            (table, last),
        )?;
        if known == 0 {
            run(
                &transaction,
                "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)",
                (table, last),
            )?;
        }
    }
    forget_changes(&transaction)?;
    Ok(begun.commit()?)
}

/// Inserts rows. A row replaces an existing row of the same key.
fn put(transaction: &Transaction<'_>, table: &str, key: &str, rows: &[Vec<Value>]) -> Result<()> {
    let columns = columns(transaction, table)?;
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let places: Vec<String> = (1..=names.len()).map(|place| format!("?{place}")).collect();
    let (names_in, places) = (names.join(", "), places.join(", "));
    let sql = if table == FORGOTTEN {
        format!("INSERT OR REPLACE INTO {table} ({names_in}) VALUES ({places})")
    } else {
        let others = names.iter().filter(|name| **name != key);
        let set: Vec<String> = others
            .map(|name| format!("{name} = excluded.{name}"))
            .collect();
        // `REPLACE` would first delete the row, and with it the rows that refer to it.
        format!(
            "INSERT INTO {table} ({names_in}) VALUES ({places}) ON CONFLICT ({key}) DO UPDATE SET {}",
            set.join(", ")
        )
    };
    let mut statement = transaction.prepare_cached(&sql)?;
    for row in rows {
        let values = row.iter().zip(&columns);
        statement.execute(params_from_iter(values.map(|(value, column)| Bound {
            value,
            is_text: column.kind == "TEXT",
        })))?;
    }
    Ok(())
}

/// A value to be written. Bytes become text in a column of text.
struct Bound<'value> {
    value: &'value Value,
    is_text: bool,
}

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        let value = match self.value {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Text(bytes) => ValueRef::Text(bytes),
            Value::Blob(bytes) if self.is_text => ValueRef::Text(bytes),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        };
        Ok(rusqlite::types::ToSqlOutput::Borrowed(value))
    }
}

fn forget_changes(transaction: &Transaction<'_>) -> Result<()> {
    run(transaction, "DELETE FROM temp.changed", [])?;
    run(transaction, "DELETE FROM temp.noted", [])?;
    Ok(())
}

/// The places in `TABLES` of the changed tables, ascending.
fn changed_places(transaction: &Transaction<'_>) -> Result<Vec<usize>> {
    let sql = "SELECT DISTINCT place FROM temp.changed UNION SELECT ?1 FROM temp.noted ORDER BY 1";
    let last = place_in_sql(TABLES.len() - 1);
    list(transaction, sql, [last], |row| {
        Ok(usize::try_from(row.get::<_, i64>(0)?).unwrap_or(usize::MAX))
    })
}

fn rows(
    transaction: &Transaction<'_>,
    place: usize,
    table: &str,
    key: &str,
) -> Result<Vec<Vec<Value>>> {
    let sql = if table == FORGOTTEN {
        "SELECT kept.* FROM temp.noted AS noted CROSS JOIN main.forgotten AS kept
         ON kept.session = noted.session AND kept.seq = noted.seq AND kept.digest = noted.digest WHERE ?1 >= 0"
            .to_owned()
    } else {
        format!(
            "SELECT kept.* FROM temp.changed AS changed CROSS JOIN main.{table} AS kept ON kept.{key} = changed.id
             WHERE changed.place = ?1"
        )
    };
    list(transaction, &sql, [place_in_sql(place)], |row| {
        let values = (0..row.as_ref().column_count()).map(|column| Ok(value(row.get_ref(column)?)));
        values.collect()
    })
}

/// A place in `TABLES` as an integer of SQLite.
fn place_in_sql(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Text(bytes) => Value::Text(bytes.to_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_owned()),
        // The tables are strict, and no column holds real numbers.
        ValueRef::Null | ValueRef::Real(_) => Value::Null,
    }
}

fn gone(transaction: &Transaction<'_>, place: usize, table: &str, key: &str) -> Result<Vec<i64>> {
    let sql = format!(
        "SELECT changed.id FROM temp.changed AS changed WHERE changed.place = ?1
         AND NOT EXISTS (SELECT 1 FROM main.{table} AS kept WHERE kept.{key} = changed.id)"
    );
    list(transaction, &sql, [place_in_sql(place)], |row| {
        Ok(row.get(0)?)
    })
}

// Changes of a mirror that its keeper is not told of: rows that others wrote, and the range of ids it may give.

impl Writer<'_> {
    /// Writes rows of others into a mirror.
    pub(crate) fn take(&mut self, changes: &Changes) -> Result<()> {
        self.run(|connection| take(connection, changes))
    }

    /// Makes new entries get ids above `high_water`.
    pub(crate) fn give_ids_above(&mut self, high_water: i64) -> Result<()> {
        self.run(|connection| {
            let begun = connection.transaction()?;
            meta::put_high_water(&Transaction::on(&begun), high_water)?;
            Ok(begun.commit()?)
        })
    }
}
