//! Where does a session stand? The end of its log, its current view, the number of its entries.

use rusqlite::{Connection, Row, Transaction, params};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Result;
use crate::id::SessionId;
use crate::sqlite::checksum::{Checksum, corrupt};
use crate::sqlite::row::Columns;
use crate::sqlite::stage;

pub(super) const TABLE: &str = "session";

/// The columns in the order of `read`, and then a condition.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT id, name, next_seq, entries, compactions, revision, epoch, redactions, dropped, head,
                    cadence, checksum
             FROM session ",
            $condition
        )
    };
}

/// Every row, to be checked.
pub(super) const SELECT_ALL: &str = select!("ORDER BY id");

/// A row of `session`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRow {
    /// Its key; what other tables call it.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// The sequence number that the next message gets.
    pub next_seq: i64,
    /// How many entries it has.
    pub entries: i64,
    /// How many compactions it has.
    pub compactions: i64,
    /// Raised by every write of entries: an index of another revision is stale.
    pub revision: i64,
    /// Raised when entries leave: an index of another epoch cannot catch up by reading what is new.
    pub epoch: i64,
    /// Raised when messages are forgotten: a view that was read before holds what is gone.
    pub redactions: i64,
    /// Whether it was dropped: a tombstone, to which nothing is written any more.
    pub dropped: bool,
    /// The compaction whose view is current.
    pub head: Option<i64>,
    /// The caller's own state.
    pub cadence: String,
}

/// The session of that name, if it ever wrote anything and was not dropped.
pub(crate) fn find(connection: &Connection, session: &SessionId) -> Result<Option<SessionRow>> {
    Ok(find_any(connection, session)?.filter(|row| !row.dropped))
}

/// The session of that name, or its tombstone.
pub(crate) fn find_any(connection: &Connection, session: &SessionId) -> Result<Option<SessionRow>> {
    let mut statement = connection.prepare_cached(select!("WHERE name = ?1"))?;
    let mut rows = statement.query([session.as_str()])?;
    match rows.next()? {
        Some(row) => read(row).map(Some),
        None => check_absent(connection, session).map(|()| None),
    }
}

/// The names of all sessions that were not dropped, in the order of their first writes.
pub(crate) fn names(connection: &Connection) -> Result<Vec<String>> {
    let mut statement = connection.prepare_cached(select!("ORDER BY id"))?;
    let mut rows = statement.query([])?;
    let mut names = Vec::new();
    while let Some(row) = rows.next()? {
        let session = read(row)?;
        if !session.dropped {
            names.push(session.name);
        }
    }
    Ok(names)
}

/// Nothing, if the session is not there by its other index either: else one of the two is damaged, and
/// the session would be begun again beside itself.
fn check_absent(connection: &Connection, session: &SessionId) -> Result<()> {
    let mut statement =
        connection.prepare_cached("SELECT id, name FROM session WHERE name_hash = ?1")?;
    let mut rows = statement.query([hash(session.as_str())])?;
    while let Some(row) = rows.next()? {
        if Columns::of(TABLE, row).text(1)? == session.as_str() {
            return Err(corrupt(TABLE, row.get_ref(0)?, "is not found by its name"));
        }
    }
    Ok(())
}

/// The name of the session with that key.
pub(crate) fn name(connection: &Connection, id: i64) -> Result<Option<String>> {
    Ok(by_key(connection, id)?.map(|session| session.name))
}

/// The session of that key, or its tombstone.
pub(crate) fn by_key(connection: &Connection, id: i64) -> Result<Option<SessionRow>> {
    let mut statement = connection.prepare_cached(select!("WHERE id = ?1"))?;
    let mut rows = statement.query([id])?;
    rows.next()?.map(read).transpose()
}

/// The session of that name, which may be a tombstone; a new one if there is none.
pub(crate) fn find_or_create(
    transaction: &Transaction<'_>,
    session: &SessionId,
) -> Result<SessionRow> {
    if let Some(row) = find_any(transaction, session)? {
        return Ok(row);
    }
    transaction
        .prepare_cached(
            "INSERT INTO session (name, name_hash, next_seq, entries, compactions, revision, epoch, redactions,
                 dropped, head, cadence, checksum)
             VALUES (?1, ?2, 0, 0, 0, 0, 0, 0, 0, NULL, '', 0)",
        )?
        .execute(params![session.as_str(), hash(session.as_str())])?;
    let row = SessionRow {
        id: transaction.last_insert_rowid(),
        name: session.as_str().to_owned(),
        next_seq: 0,
        entries: 0,
        compactions: 0,
        revision: 0,
        epoch: 0,
        redactions: 0,
        dropped: false,
        head: None,
        cadence: String::new(),
    };
    save(transaction, &row)?;
    Ok(row)
}

/// Writes what may change of a session, and its checksum.
pub(crate) fn save(transaction: &Transaction<'_>, row: &SessionRow) -> Result<()> {
    transaction
        .prepare_cached(
            "UPDATE session SET next_seq = ?2, entries = ?3, compactions = ?4, revision = ?5, epoch = ?6,
                 redactions = ?7, dropped = ?8, head = ?9, cadence = ?10, checksum = ?11
             WHERE id = ?1",
        )?
        .execute(params![
            row.id,
            row.next_seq,
            row.entries,
            row.compactions,
            row.revision,
            row.epoch,
            row.redactions,
            row.dropped,
            row.head,
            row.cadence,
            checksum(row).finish(),
        ])?;
    Ok(())
}

/// Deletes the session's log, its compactions and its entries with their vectors, and leaves a tombstone in its place.
pub(crate) fn drop(transaction: &Transaction<'_>, row: SessionRow) -> Result<()> {
    for sql in [
        "DELETE FROM vector WHERE session = ?1",
        "DELETE FROM entry WHERE session = ?1",
        "DELETE FROM message WHERE session = ?1",
        "DELETE FROM compaction WHERE session = ?1",
        "DELETE FROM quarantine WHERE session = ?1",
    ] {
        transaction.prepare_cached(sql)?.execute([row.id])?;
    }
    stage::drop_all(transaction, row.id)?;
    let tombstone = SessionRow {
        next_seq: 0,
        entries: 0,
        compactions: 0,
        revision: row.revision + 1,
        epoch: row.epoch + 1,
        redactions: row.redactions + 1,
        dropped: true,
        head: None,
        cadence: String::new(),
        ..row
    };
    save(transaction, &tombstone)
}

pub(super) fn read(row: &Row<'_>) -> Result<SessionRow> {
    let columns = Columns::of(TABLE, row);
    let session = SessionRow {
        id: columns.integer(0)?,
        name: columns.text(1)?,
        next_seq: columns.integer(2)?,
        entries: columns.integer(3)?,
        compactions: columns.integer(4)?,
        revision: columns.integer(5)?,
        epoch: columns.integer(6)?,
        redactions: columns.integer(7)?,
        dropped: columns.integer(8)? != 0,
        head: columns.optional_integer(9)?,
        cadence: columns.text(10)?,
    };
    columns.verify(checksum(&session), 11)?;
    Ok(session)
}

pub(super) fn hash(name: &str) -> i64 {
    xxh3_64(name.as_bytes()).cast_signed()
}

/// The hash of the name is left out: it follows from the name, and a wrong one is never believed.
fn checksum(row: &SessionRow) -> Checksum {
    Checksum::of(TABLE)
        .integer(row.id)
        .text(&row.name)
        .integer(row.next_seq)
        .integer(row.entries)
        .integer(row.compactions)
        .integer(row.revision)
        .integer(row.epoch)
        .integer(row.redactions)
        .integer(i64::from(row.dropped))
        .optional_integer(row.head)
        .text(&row.cadence)
}
