//! What can be found again: the entries of a session.

use rusqlite::{Connection, Row, Transaction, params};

use crate::error::Result;
use crate::id::EntryId;
use crate::sqlite::checksum::{Checksum, corrupt};
use crate::sqlite::row::{Columns, check_list};
use crate::sqlite::session::SessionRow;

const TABLE: &str = "entry";

/// The columns in the order of `read`, and then a condition.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT id, session, source_start, source_end, role, name, kind, created_at, repaired, text, checksum
             FROM entry ",
            $condition
        )
    };
}

/// An entry on its way into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// What is indexed and given back.
    pub text: String,
    /// Whether the text had lone surrogates, which became U+FFFD.
    pub repaired: bool,
    /// The first message it came from.
    pub start: i64,
    /// One past the last message it came from.
    pub end: i64,
    /// Who said it.
    pub role: String,
    /// The speaker's or the tool's name.
    pub name: Option<String>,
    /// What it is.
    pub kind: String,
    /// Milliseconds since 1970, UTC.
    pub created_at: i64,
}

/// An entry as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// Its id.
    pub id: EntryId,
    /// The key of its session.
    pub session: i64,
    /// What was inserted.
    pub entry: NewEntry,
}

/// Writes `entries` under `first_id` and onward; the caller saves `session`, whose figures move.
pub(crate) fn insert<'a>(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    first_id: EntryId,
    entries: impl Iterator<Item = &'a NewEntry>,
) -> Result<()> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO entry (id, session, source_start, source_end, role, name, kind, created_at, repaired, text,
             checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    for (id, entry) in (first_id.0..).zip(entries) {
        statement.execute(params![
            id,
            session.id,
            entry.start,
            entry.end,
            entry.role,
            entry.name,
            entry.kind,
            entry.created_at,
            entry.repaired,
            entry.text,
            checksum(id, session.id, entry).finish(),
        ])?;
        session.entries += 1;
    }
    session.revision += 1;
    Ok(())
}

/// The entry of that id.
pub(crate) fn get(connection: &Connection, id: EntryId) -> Result<Option<StoredEntry>> {
    let mut statement = connection.prepare_cached(select!("WHERE id = ?1"))?;
    let mut rows = statement.query([id.0])?;
    rows.next()?.map(read).transpose()
}

/// Hands over the entries of the session with an id above `after`, in order of id.
pub(crate) fn for_each_after(
    connection: &Connection,
    session: i64,
    mut after: EntryId,
    mut take: impl FnMut(StoredEntry),
) -> Result<()> {
    let mut statement =
        connection.prepare_cached(select!("WHERE session = ?1 AND id > ?2 ORDER BY id"))?;
    let mut rows = statement.query([session, after.0])?;
    while let Some(row) = rows.next()? {
        let stored = read_of(row, session)?;
        if stored.id <= after {
            return Err(corrupt(TABLE, row.get_ref(0)?, "is listed twice"));
        }
        after = stored.id;
        take(stored);
    }
    Ok(())
}

/// At most `limit` entries of the session in order of id, after leaving out the first `offset`.
pub(crate) fn page(
    connection: &Connection,
    session: &SessionRow,
    offset: i64,
    limit: i64,
) -> Result<Vec<StoredEntry>> {
    let mut statement =
        connection.prepare_cached(select!("WHERE session = ?1 ORDER BY id LIMIT ?2 OFFSET ?3"))?;
    let mut rows = statement.query([session.id, limit, offset])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(read_of(row, session.id)?);
    }
    let expected = session.entries.saturating_sub(offset).clamp(0, limit);
    check_list(
        TABLE,
        session,
        expected,
        entries.iter().map(|stored| stored.id.0),
    )?;
    Ok(entries)
}

/// A row that an index gave as one of `session`: the row itself may know better.
fn read_of(row: &Row<'_>, session: i64) -> Result<StoredEntry> {
    let stored = read(row)?;
    if stored.session == session {
        return Ok(stored);
    }
    Err(corrupt(
        TABLE,
        row.get_ref(0)?,
        "is listed under a session that it is not of",
    ))
}

fn read(row: &Row<'_>) -> Result<StoredEntry> {
    let columns = Columns::of(TABLE, row);
    let (id, session) = (columns.integer(0)?, columns.integer(1)?);
    let entry = NewEntry {
        start: columns.integer(2)?,
        end: columns.integer(3)?,
        role: columns.text(4)?,
        name: columns.optional_text(5)?,
        kind: columns.text(6)?,
        created_at: columns.integer(7)?,
        repaired: columns.integer(8)? != 0,
        text: columns.text(9)?,
    };
    columns.verify(checksum(id, session, &entry), 10)?;
    Ok(StoredEntry {
        id: EntryId(id),
        session,
        entry,
    })
}

fn checksum(id: i64, session: i64, entry: &NewEntry) -> Checksum {
    Checksum::of(TABLE)
        .integer(id)
        .integer(session)
        .integer(entry.start)
        .integer(entry.end)
        .text(&entry.role)
        .optional_text(entry.name.as_deref())
        .text(&entry.kind)
        .integer(entry.created_at)
        .integer(i64::from(entry.repaired))
        .text(&entry.text)
}
