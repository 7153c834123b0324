//! What was said: the messages of a session, in order, added and never changed but to be forgotten.

use rusqlite::{Connection, Row, Transaction, params};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::checksum::Checksum;
use crate::sqlite::row::Columns;
use crate::sqlite::session::SessionRow;

pub(super) const TABLE: &str = "message";

/// Every row, to be checked: the columns in the order of `read_place`.
pub(super) const SELECT_ALL: &str = "
SELECT id, seq, raw, role, dialect, provenance, tokens, created_at, checksum, session
FROM message ORDER BY session, seq";

/// The provenance of a message that was forgotten.
const TOMBSTONE: &str = "placeholder";

/// A message on its way into the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Its JSON text.
    pub raw: String,
    /// Its role.
    pub role: String,
    /// How `raw` is to be read.
    pub dialect: String,
    /// Where it came from.
    pub provenance: String,
    /// Its estimate when it was appended.
    pub tokens: i64,
    /// Milliseconds since 1970, UTC.
    pub created_at: i64,
}

/// A message as the log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its place in the session, from 0.
    pub seq: i64,
    /// What was appended.
    pub message: NewMessage,
}

/// Writes `messages` at the end of the session's log; the caller saves `session`, whose `next_seq` moves.
pub(crate) fn append(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    messages: &[NewMessage],
) -> Result<()> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO message (id, session, seq, raw, role, dialect, provenance, tokens, created_at, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let mut id = max_id(transaction)?;
    for message in messages {
        id += 1;
        statement.execute(params![
            id,
            session.id,
            session.next_seq,
            message.raw,
            message.role,
            message.dialect,
            message.provenance,
            message.tokens,
            message.created_at,
            checksum(id, session.id, session.next_seq, message).finish(),
        ])?;
        session.next_seq += 1;
    }
    Ok(())
}

/// The messages `start..end` of the session, as far as its log goes.
pub(crate) fn read(
    connection: &Connection,
    session: &SessionRow,
    start: i64,
    end: i64,
) -> Result<Vec<Message>> {
    let (start, end) = (start.max(0), end.min(session.next_seq));
    let mut statement = connection.prepare_cached(
        "SELECT id, seq, raw, role, dialect, provenance, tokens, created_at, checksum
         FROM message WHERE session = ?1 AND seq >= ?2 AND seq < ?3 ORDER BY seq",
    )?;
    let mut rows = statement.query([session.id, start, end])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push(read_row(row, session.id)?);
    }
    complete(session, start, end, &messages)?;
    Ok(messages)
}

/// Puts `raw` in the place of what message `seq` said: a tombstone, which is indexed by nobody and keeps
/// its place and its tokens. Whether there was something to forget.
pub(crate) fn redact(
    transaction: &Transaction<'_>,
    session: &SessionRow,
    seq: i64,
    raw: &str,
) -> Result<bool> {
    let Some(found) = read(transaction, session, seq, seq.saturating_add(1))?.pop() else {
        return Ok(false);
    };
    if found.message.provenance == TOMBSTONE && found.message.raw == raw {
        return Ok(false);
    }
    let new = NewMessage {
        raw: raw.to_owned(),
        provenance: TOMBSTONE.to_owned(),
        ..found.message
    };
    let id: i64 = transaction
        .prepare_cached("SELECT id FROM message WHERE session = ?1 AND seq = ?2")?
        .query_row([session.id, seq], |row| row.get(0))?;
    transaction
        .prepare_cached(
            "UPDATE message SET raw = ?2, provenance = ?3, checksum = ?4 WHERE id = ?1",
        )?
        .execute(params![
            id,
            new.raw,
            new.provenance,
            checksum(id, session.id, seq, &new).finish()
        ])?;
    Ok(true)
}

/// A row that an index does not lead to any more is lost without a trace, unless someone counts.
fn complete(session: &SessionRow, start: i64, end: i64, messages: &[Message]) -> Result<()> {
    let mut found = messages.iter();
    let missing = (start..end).find(|&seq| found.next().is_none_or(|message| message.seq != seq));
    match missing {
        None => Ok(()),
        Some(seq) => {
            let message = format!("message {seq} of session {:?} is missing", session.name);
            Err(Error::new(ErrorKind::StoreCorrupt, message)
                .with("table", TABLE)
                .with("seq", seq))
        }
    }
}

fn max_id(transaction: &Transaction<'_>) -> Result<i64> {
    let mut statement = transaction.prepare_cached("SELECT COALESCE(MAX(id), 0) FROM message")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// The session and the sequence number of a row that was checked.
pub(super) fn read_place(row: &Row<'_>) -> Result<(i64, i64)> {
    let session = Columns::of(TABLE, row).integer(9)?;
    Ok((session, read_row(row, session)?.seq))
}

fn read_row(row: &Row<'_>, session: i64) -> Result<Message> {
    let columns = Columns::of(TABLE, row);
    let id = columns.integer(0)?;
    let seq = columns.integer(1)?;
    let message = NewMessage {
        raw: columns.text(2)?,
        role: columns.text(3)?,
        dialect: columns.text(4)?,
        provenance: columns.text(5)?,
        tokens: columns.integer(6)?,
        created_at: columns.integer(7)?,
    };
    columns.verify(checksum(id, session, seq, &message), 8)?;
    Ok(Message { seq, message })
}

fn checksum(id: i64, session: i64, seq: i64, message: &NewMessage) -> Checksum {
    Checksum::of(TABLE)
        .integer(id)
        .integer(session)
        .integer(seq)
        .text(&message.raw)
        .text(&message.role)
        .text(&message.dialect)
        .text(&message.provenance)
        .integer(message.tokens)
        .integer(message.created_at)
}
