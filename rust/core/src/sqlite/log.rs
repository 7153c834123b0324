//! The messages of a session, in order. Messages are appended. A message changes only when it is forgotten.
//!
//! The key of a message combines its session and its sequence number. So the log of a session is one stretch of the
//! table, and needs no index.

use rusqlite::{Connection, Row, params};

use crate::error::{Error, ErrorKind, Result, check_memory};
use crate::sqlite::row::{Checksum, Columns, run};
use crate::sqlite::session::SessionRow;
use crate::sqlite::transaction::Transaction;

pub(super) const TABLE: &str = "message";

/// A query of the columns that `read_row` expects, with a condition.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT id, write_id, raw, role, dialect, provenance, tokens, created_at, checksum FROM message ",
            $condition
        )
    };
}

/// Selects every row, for a check or a repair.
pub(super) const SELECT_ALL: &str = select!("ORDER BY id");

/// The provenance of a message that was forgotten.
const TOMBSTONE: &str = "placeholder";

/// The highest number of messages in the log of a session.
pub(super) const CAPACITY: i64 = 1 << 32;

/// About what an object of Python for a message takes beside its text.
const ROW: usize = 1_500;

/// Bytes of messages that are read between two checks of the memory.
const STRETCH: usize = 4 << 20;

/// A message to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Its JSON text.
    pub raw: String,
    /// Its role.
    pub role: String,
    /// The dialect of `raw`.
    pub dialect: String,
    /// Its origin, a word of the caller's.
    pub provenance: String,
    /// Its estimated tokens when it was appended.
    pub tokens: i64,
    /// Milliseconds since 1970, UTC.
    pub created_at: i64,
}

/// A message as the log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its place in the session, from 0.
    pub seq: i64,
    /// The caller's id of the call that brought it.
    pub write_id: i64,
    /// The message.
    pub message: NewMessage,
}

/// The key of a message.
pub(super) fn key(session: i64, seq: i64) -> i64 {
    session << 32 | seq
}

/// The session and the sequence number of a key.
pub(super) fn session_and_seq(key: i64) -> (i64, i64) {
    (key >> 32, key & (CAPACITY - 1))
}

/// Appends `messages` to the session's log. The figures in `session` change, and the caller saves it.
pub(crate) fn append(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    messages: &[NewMessage],
    write_id: i64,
) -> Result<()> {
    let count = i64::try_from(messages.len()).unwrap_or(i64::MAX);
    if count > CAPACITY - session.next_seq {
        let message = format!(
            "the log of session {:?} can have {CAPACITY} messages, and {count} more than {} are too many",
            session.name, session.next_seq
        );
        return Err(Error::new(ErrorKind::InvalidEntry, message).with("limit", CAPACITY));
    }
    for message in messages {
        let key = key(session.id, session.next_seq);
        write(
            transaction,
            key,
            write_id,
            message,
            checksum(key, write_id, message).finish(),
        )?;
        count_in(session, message);
        session.next_seq += 1;
    }
    Ok(())
}

/// Adds a message to the session's figures.
pub(super) fn count_in(session: &mut SessionRow, message: &NewMessage) {
    let stamp = Some(message.created_at);
    session.tokens = session.tokens.saturating_add(message.tokens);
    session.first_at = session.first_at.or(stamp);
    session.last_at = stamp;
}

pub(super) fn write(
    transaction: &Transaction<'_>,
    key: i64,
    write_id: i64,
    message: &NewMessage,
    checksum: i64,
) -> Result<()> {
    run(transaction, "INSERT INTO message (id, write_id, raw, role, dialect, provenance, tokens, created_at, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)", params![
            key,
            write_id,
            message.raw,
            message.role,
            message.dialect,
            message.provenance,
            message.tokens,
            message.created_at,
            checksum,
        ])?;
    Ok(())
}

/// The messages `start..end` of the session, cut at the end of its log.
pub(crate) fn read(
    connection: &Connection,
    session: &SessionRow,
    start: i64,
    end: i64,
) -> Result<Vec<Message>> {
    let (start, end) = (start.max(0), end.min(session.next_seq));
    if start >= end {
        return Ok(Vec::new());
    }
    let mut statement =
        connection.prepare_cached(select!("WHERE id >= ?1 AND id < ?2 ORDER BY id"))?;
    let mut rows = statement.query([key(session.id, start), key(session.id, end - 1) + 1])?;
    let (mut messages, mut size, mut checked) = (Vec::new(), 0, 0);
    while let Some(row) = rows.next()? {
        let message = read_row(row)?.1;
        size += message.message.raw.len() + ROW;
        messages.push(message);
        if size - checked > STRETCH {
            check_memory(size)?; // the caller makes another copy of them
            checked = size;
        }
    }
    complete(session, start, end, &messages)?;
    Ok(messages)
}

/// Replaces the text of message `seq` with `raw`. The result is a tombstone: it is not indexed, and keeps its
/// position and its tokens. False where there is no such message, or it is this tombstone already.
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
    let key = key(session.id, seq);
    let checksum = checksum(key, found.write_id, &new).finish();
    run(
        transaction,
        "UPDATE message SET raw = ?2, provenance = ?3, checksum = ?4 WHERE id = ?1",
        params![key, new.raw, new.provenance, checksum],
    )?;
    Ok(true)
}

/// Checks that no message is missing. No index lists the rows of a log, so a lost row leaves no other trace.
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

/// The session and the sequence number of a row, after its checksum was compared.
pub(super) fn read_place(row: &Row<'_>) -> Result<(i64, i64)> {
    let (session, message) = read_row(row)?;
    Ok((session, message.seq))
}

fn read_row(row: &Row<'_>) -> Result<(i64, Message)> {
    let columns = Columns::of(TABLE, row);
    let (key, write_id) = (columns.get(0)?, columns.get(1)?);
    let message = NewMessage {
        raw: columns.get(2)?,
        role: columns.get(3)?,
        dialect: columns.get(4)?,
        provenance: columns.get(5)?,
        tokens: columns.get(6)?,
        created_at: columns.get(7)?,
    };
    columns.verify(checksum(key, write_id, &message), 8)?;
    let (session, seq) = session_and_seq(key);
    Ok((
        session,
        Message {
            seq,
            write_id,
            message,
        },
    ))
}

pub(super) fn checksum(key: i64, write_id: i64, message: &NewMessage) -> Checksum {
    Checksum::of(TABLE)
        .integer(key)
        .integer(write_id)
        .text(&message.raw)
        .text(&message.role)
        .text(&message.dialect)
        .text(&message.provenance)
        .integer(message.tokens)
        .integer(message.created_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_apart_into_what_it_was_made_of() {
        for (session, seq) in [(1, 0), (1, CAPACITY - 1), ((1 << 31) - 1, 7)] {
            assert_eq!(session_and_seq(key(session, seq)), (session, seq));
        }
    }
}
