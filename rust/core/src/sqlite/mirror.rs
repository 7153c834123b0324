//! A database in memory that mirrors rows which are kept elsewhere: who keeps them is handed what a transaction
//! has changed before it commits here, and may refuse it.
//!
//! Triggers of the connection note the keys of rows that change. A refusal takes the transaction back, so the
//! mirror never has what the keeper has not. What others wrote is taken in by [`take`], which nobody is told of.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ToSql, Transaction, params_from_iter};

use crate::error::Result;
use crate::sqlite::{allocator, fact, meta};

/// The tables that are mirrored, those that others refer to first, and the column of each that is its key.
///
/// `forgotten` has no key of one column: its rows are added one at a time, and leave with their session.
const TABLES: [(&str, &str); 13] = [
    ("session", "id"),
    ("message", "id"),
    ("compaction", "id"),
    ("derived", "id"),
    ("entry", "id"),
    ("stage", "id"),
    ("staged", "id"),
    ("quarantine", "id"),
    ("embedder", "id"),
    ("vector", "entry"),
    ("fact", "id"),
    ("recall", "id"),
    (FORGOTTEN, "session"),
];

const FORGOTTEN: &str = "forgotten";

/// What a column of a row holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// UTF-8; of a damaged row any bytes.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

/// What became of the rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The table.
    pub table: String,
    /// Rows that are new, or not what they were, in the order of its columns.
    pub rows: Vec<Vec<Value>>,
    /// Keys of rows that are there no more; of `forgotten` the sessions whose rows are there no more.
    pub gone: Vec<i64>,
}

/// What a transaction changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Tables with changes.
    pub tables: Vec<Changed>,
    /// The highest id that was given to an entry.
    pub high_water: i64,
    /// By the name of its table, the highest key that was ever given.
    pub sequences: Vec<(String, i64)>,
    /// What digests of forgotten messages are made with. Empty where it is not known: then it stays what it is.
    pub salt: String,
}

/// Keeps what a mirror shows.
pub trait Keeper: Send + Sync {
    /// Keeps `changes`, all of them or none, before the mirror commits them.
    ///
    /// # Errors
    ///
    /// Whatever there is against it: the transaction is taken back.
    fn keep(&self, changes: &Changes) -> Result<()>;
}

/// The names of a table's columns, in order, and whether they hold text.
pub type Columns = Vec<(String, bool)>;

/// The columns of a mirrored table.
pub(crate) fn columns(connection: &Connection, table: &str) -> Result<Columns> {
    let mut statement =
        connection.prepare_cached("SELECT name, type = 'TEXT' FROM pragma_table_info(?1)")?;
    let found = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// The mirrored tables, those that others refer to first.
pub(crate) fn tables() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|&(table, _)| table)
}

/// Notes from now on which rows of the connection change.
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

/// Hands what the transaction has changed to the keeper, changed or not.
pub(super) fn hand_over(transaction: &Transaction<'_>, keeper: &dyn Keeper) -> Result<()> {
    let mut changes = Changes {
        high_water: allocator::high_water(transaction)?,
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
    let mut statement = transaction.prepare_cached("SELECT name, seq FROM sqlite_sequence")?;
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    changes.sequences = found.collect::<rusqlite::Result<_>>()?;
    if !changes.tables.is_empty() {
        forget_changes(transaction)?;
    }
    keeper.keep(&changes)
}

/// Takes in what others wrote. Indexes in memory notice it as they notice the write of another process.
///
/// The rows are not compared with one another, nor with their checksums: who reads them does so.
pub(super) fn take(connection: &mut Connection, changes: &Changes) -> Result<()> {
    // Rows come in any order, and the children of one that leaves are named themselves.
    connection.pragma_update(None, "foreign_keys", false)?;
    let outcome = take_in(connection, changes);
    connection.pragma_update(None, "foreign_keys", true)?;
    outcome
}

fn take_in(connection: &mut Connection, changes: &Changes) -> Result<()> {
    let transaction = connection.transaction()?;
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
        let known = transaction
            .prepare_cached("UPDATE sqlite_sequence SET seq = MAX(seq, ?2) WHERE name = ?1")?
            .execute((table, last))?;
        if known == 0 {
            transaction
                .prepare_cached("INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)")?
                .execute((table, last))?;
        }
    }
    forget_changes(&transaction)?;
    Ok(transaction.commit()?)
}

/// Writes rows over those of the same keys.
fn put(transaction: &Transaction<'_>, table: &str, key: &str, rows: &[Vec<Value>]) -> Result<()> {
    let columns = columns(transaction, table)?;
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let places: Vec<String> = (1..=names.len()).map(|place| format!("?{place}")).collect();
    let (names_in, places) = (names.join(", "), places.join(", "));
    let sql = if table == FORGOTTEN {
        format!("INSERT OR REPLACE INTO {table} ({names_in}) VALUES ({places})")
    } else {
        let others = names.iter().filter(|name| **name != key);
        let set: Vec<String> = others
            .map(|name| format!("{name} = excluded.{name}"))
            .collect();
        // Not REPLACE, which would delete the row first, and what refers to it.
        format!(
            "INSERT INTO {table} ({names_in}) VALUES ({places}) ON CONFLICT ({key}) DO UPDATE SET {}",
            set.join(", ")
        )
    };
    let mut statement = transaction.prepare_cached(&sql)?;
    for row in rows {
        let values = row.iter().zip(&columns);
        statement.execute(params_from_iter(values.map(|(value, (_, is_text))| {
            Bound {
                value,
                is_text: *is_text,
            }
        })))?;
    }
    Ok(())
}

/// A value on its way in: bytes of a column of text are text.
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
    transaction
        .prepare_cached("DELETE FROM temp.changed")?
        .execute([])?;
    transaction
        .prepare_cached("DELETE FROM temp.noted")?
        .execute([])?;
    Ok(())
}

/// The places of the tables that have changed, ascending.
fn changed_places(transaction: &Transaction<'_>) -> Result<Vec<usize>> {
    let mut statement = transaction.prepare_cached(
        "SELECT DISTINCT place FROM temp.changed UNION SELECT ?1 FROM temp.noted ORDER BY 1",
    )?;
    let found =
        statement.query_map([place_in_sql(TABLES.len() - 1)], |row| row.get::<_, i64>(0))?;
    let found =
        found.filter_map(|place| place.map(|place| usize::try_from(place).ok()).transpose());
    Ok(found.collect::<rusqlite::Result<_>>()?)
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
    let mut statement = transaction.prepare_cached(&sql)?;
    let width = statement.column_count();
    let mut rows = statement.query([place_in_sql(place)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..width).map(|column| Ok(value(row.get_ref(column)?)));
        found.push(values.collect::<rusqlite::Result<_>>()?);
    }
    Ok(found)
}

/// A place in `TABLES` as SQLite has it.
fn place_in_sql(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Text(bytes) => Value::Text(bytes.to_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_owned()),
        // Tables are strict, and no column is of this kind.
        ValueRef::Null | ValueRef::Real(_) => Value::Null,
    }
}

fn gone(transaction: &Transaction<'_>, place: usize, table: &str, key: &str) -> Result<Vec<i64>> {
    let sql = format!(
        "SELECT changed.id FROM temp.changed AS changed WHERE changed.place = ?1
         AND NOT EXISTS (SELECT 1 FROM main.{table} AS kept WHERE kept.{key} = changed.id)"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    let found = statement.query_map([place_in_sql(place)], |row| row.get(0))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}
