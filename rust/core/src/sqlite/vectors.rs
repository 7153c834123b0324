//! Vectors of entries, and the embedder that made them.

use hashbrown::HashMap;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Result;
use crate::id::EntryId;
use crate::sqlite::entry::{self, StoredEntry};
use crate::sqlite::meta;
use crate::sqlite::row::{Checksum, Columns, believed, first, list, run};
use crate::sqlite::transaction::Transaction;

pub(super) const TABLE: &str = "vector";

/// Bytes of a number.
const F32: usize = size_of::<f32>();

/// The number of ids that one search for entries without vectors covers. Others can use the database in between.
const WINDOW: i64 = 10_000;

/// The table of embedders.
pub(super) mod embedders {
    use super::EmbedderRow;
    use crate::sqlite::row::table;

    table!($ "embedder": EmbedderRow { id, name, dimension });

    pub(super) const NEWEST: &str = select!("ORDER BY id DESC LIMIT 1");
}

/// A query of the columns that `read` expects, with a condition.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT entry, session, revision, embedder, data, checksum FROM vector ",
            $condition
        )
    };
}

/// Selects every row, for a check or a repair.
pub(super) const SELECT_ALL: &str = select!("ORDER BY entry");

/// The embedder that made the vectors of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbedderRow {
    /// Its key, which no other embedder ever gets.
    pub id: i64,
    /// The id of the embedder.
    pub name: String,
    /// The number of numbers in a vector.
    pub dimension: usize,
}

/// The vectors of an entry as the store holds them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VectorRow {
    pub entry: EntryId,
    pub session: i64,
    pub revision: i64,
    pub embedder: i64,
    /// The vectors of the entry's passages, one after another.
    pub numbers: Vec<f32>,
}

/// The current embedder; None if none was ever used.
pub(crate) fn embedder(connection: &Connection) -> Result<Option<EmbedderRow>> {
    first(connection, embedders::NEWEST, [], embedders::read)
}

/// Makes this the embedder of the store, and deletes the vectors of any other embedder.
pub(crate) fn replace(
    transaction: &Transaction<'_>,
    name: &str,
    dimension: usize,
) -> Result<EmbedderRow> {
    transaction.execute("DELETE FROM vector", [])?;
    transaction.execute("DELETE FROM embedder", [])?;
    transaction.execute(
        "INSERT INTO embedder (name, dimension, checksum) VALUES (?1, ?2, 0)",
        params![name, integer(dimension)],
    )?;
    let row = EmbedderRow {
        id: transaction.last_insert_rowid(),
        name: name.to_owned(),
        dimension,
    };
    transaction.execute(
        "UPDATE embedder SET checksum = ?2 WHERE id = ?1",
        [row.id, embedders::checksum(&row).finish()],
    )?;
    Ok(row)
}

/// The number of entries with vectors, and the number without. Entries of deleted sessions do not count.
pub(crate) fn counts(connection: &Connection) -> Result<(i64, i64)> {
    let mut statement = connection.prepare_cached(
        "SELECT (SELECT COUNT(*) FROM vector) - (SELECT COUNT(*) FROM session CROSS JOIN vector
             WHERE dropped = 1 AND vector.session = session.id), (SELECT COALESCE(SUM(entries), 0) FROM session)",
    )?;
    let (with, all): (i64, i64) = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((with, all - with))
}

/// At most `limit` entries with an id above `after` that have no vectors, in order of id; and the last id that was
/// examined, which is `after` at the end.
///
/// Damaged entries are left out, because their texts are not known, and entries of deleted sessions, because no embedder
/// may read them any more.
pub(crate) fn missing(
    connection: &Connection,
    after: EntryId,
    limit: usize,
) -> Result<(Vec<StoredEntry>, EntryId)> {
    let last = meta::high_water(connection)?;
    if after.0 >= last {
        return Ok((Vec::new(), after));
    }
    let until = after.0.saturating_add(WINDOW).min(last);
    let sql = "SELECT entry.id FROM entry LEFT JOIN vector ON vector.entry = entry.id
         WHERE entry.id > ?1 AND entry.id <= ?2 AND vector.entry IS NULL
             AND NOT EXISTS (SELECT 1 FROM session WHERE session.id = entry.session AND dropped = 1)
         ORDER BY entry.id LIMIT ?3";
    let ids: Vec<i64> = list(
        connection,
        sql,
        params![after.0, until, integer(limit)],
        |row| Ok(row.get(0)?),
    )?;
    let mut found = Vec::with_capacity(ids.len());
    for &id in &ids {
        found.extend(believed(entry::get(connection, EntryId(id)))?.flatten());
    }
    let looked = match ids.last() {
        Some(&last) if ids.len() == limit => last,
        _ => until,
    };
    Ok((found, EntryId(looked)))
}

/// Writes vectors of entries. Entries that have vectors, or do not exist, are skipped. Gives the number of written
/// rows.
pub(crate) fn insert(
    transaction: &Transaction<'_>,
    embedder: i64,
    rows: &[(EntryId, Vec<f32>)],
) -> Result<usize> {
    let mut revisions: HashMap<i64, i64> = HashMap::new();
    let mut written = 0;
    for (entry, numbers) in rows {
        let session: Option<i64> = transaction
            .prepare_cached("SELECT session FROM entry WHERE id = ?1")?
            .query_row([entry.0], |row| row.get(0))
            .optional()?;
        let Some(session) = session else {
            continue; // it was deleted meanwhile
        };
        let revision = if let Some(&known) = revisions.get(&session) {
            known
        } else {
            let next = self::revision(transaction, session)?.saturating_add(1);
            revisions.insert(session, next);
            next
        };
        let row = VectorRow {
            entry: *entry,
            session,
            revision,
            embedder,
            numbers: numbers.clone(),
        };
        let data = bytes(numbers);
        written += run(
            transaction,
            "INSERT OR IGNORE INTO vector (entry, session, revision, embedder, data, checksum)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                entry.0,
                session,
                revision,
                embedder,
                data,
                checksum(&row, &data).finish()
            ],
        )?;
    }
    Ok(written)
}

/// The revision of the newest vectors of the session; 0 where it has no vectors.
pub(crate) fn revision(connection: &Connection, session: i64) -> Result<i64> {
    let mut statement = connection
        .prepare_cached("SELECT COALESCE(MAX(revision), 0) FROM vector WHERE session = ?1")?;
    Ok(statement.query_row([session], |row| row.get(0))?)
}

/// The revision of the newest vectors of each session of a namespace that was not deleted, by key; 0 where it has no
/// vectors.
pub(crate) fn revisions(connection: &Connection, namespace: &str) -> Result<Vec<(i64, i64)>> {
    let sql = "SELECT id, (SELECT COALESCE(MAX(vector.revision), 0) FROM vector WHERE vector.session = session.id)
         FROM session WHERE namespace = ?1 AND NOT dropped";
    list(connection, sql, [namespace], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

/// Passes the vectors of the session that are newer than `revision` to `take`, in the order of their writes.
///
/// Damaged rows are left out: the embedder can compute them again.
pub(crate) fn for_each_after(
    connection: &Connection,
    session: i64,
    revision: i64,
    mut take: impl FnMut(VectorRow),
) -> Result<()> {
    let sql = select!("WHERE session = ?1 AND revision > ?2 ORDER BY revision, entry");
    list(connection, sql, [session, revision], |row| {
        if let Some(vectors) = believed(read(row))? {
            take(vectors);
        }
        Ok(())
    })?;
    Ok(())
}

/// Whether `numbers` are one or more vectors of that dimension.
pub(crate) fn is_whole(numbers: &[f32], dimension: usize) -> bool {
    !numbers.is_empty() && numbers.len().is_multiple_of(dimension.max(1))
}

pub(super) fn read(row: &Row<'_>) -> Result<VectorRow> {
    let columns = Columns::of(TABLE, row);
    let data = columns.bytes(4)?;
    let (chunks, rest) = data.as_chunks::<F32>();
    let numbers: Vec<f32> = chunks
        .iter()
        .map(|&chunk| f32::from_le_bytes(chunk))
        .collect();
    let vectors = VectorRow {
        entry: EntryId(columns.get(0)?),
        session: columns.get(1)?,
        revision: columns.get(2)?,
        embedder: columns.get(3)?,
        numbers,
    };
    columns.verify(checksum(&vectors, data), 5)?;
    if !rest.is_empty() || !vectors.numbers.iter().all(|number| number.is_finite()) {
        return Err(columns.corrupt(4, "holds no finite numbers"));
    }
    Ok(vectors)
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

fn checksum(row: &VectorRow, data: &[u8]) -> Checksum {
    Checksum::of(TABLE)
        .integer(row.entry.0)
        .integer(row.session)
        .integer(row.revision)
        .integer(row.embedder)
        .bytes(data)
}

fn integer(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
