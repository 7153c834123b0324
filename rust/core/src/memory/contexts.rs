//! The messages in context that a search of a namespace finds: their sources, ids and texts.

use rusqlite::Connection;

use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::sqlite::session::{self, Standing};
use crate::sqlite::{Message, NewEntry, SessionRow, compactions, entry, log};

/// Messages of a session whose texts the namespace's index needs, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The session.
    pub session: String,
    /// Its key.
    pub(super) key: i64,
    /// The session's number of redactions when the messages were read.
    pub(super) redactions: i64,
    /// The messages.
    pub messages: Vec<Message>,
}

/// The text of a message in context.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) redactions: i64,
    /// None for a message without text.
    pub(super) entry: Option<NewEntry>,
}

/// The source of a point. Points with equal sources have the same terms, neighbours, day and expiry time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source {
    pub(super) range: (i64, i64),
    fingerprint: i64,
    created_at: i64,
    expires_at: Option<i64>,
}

impl Source {
    pub(super) fn of(entry: &NewEntry) -> Self {
        Self {
            range: (entry.start, entry.end),
            fingerprint: entry::fingerprint(entry),
            created_at: entry.created_at,
            expires_at: entry.expires_at,
        }
    }

    /// The same source without an expiry time.
    pub(super) fn lasting(self) -> Self {
        Self {
            expires_at: None,
            ..self
        }
    }
}

/// The id of a message in an index: a negative number, so that it differs from all ids of entries.
pub(super) fn label(session: i64, seq: i64) -> i64 {
    -(session << 32 | seq)
}

/// The session's key and the sequence number of a [`label`]; None for the id of an entry.
pub(super) fn message_of(id: EntryId) -> Option<(i64, i64)> {
    let key = id.0.checked_neg().filter(|&key| key > 0)?;
    Some((key >> 32, key & ((1 << 32) - 1)))
}

/// The messages `range` of a session as places of one chain for all sessions. Places of different sessions are far
/// apart. A range beyond the longest possible log gets no place.
pub(super) fn place((start, end): (i64, i64), session: i64) -> (i64, i64) {
    const LAST: i64 = (1 << 32) - 8;
    if end > LAST {
        return (0, 0);
    }
    ((session << 32) + start, (session << 32) + end)
}

/// The whole row of a listed session. It is an error if the row differs from the list.
pub(super) fn whole_row(connection: &Connection, standing: &Standing) -> Result<SessionRow> {
    match session::by_key(connection, standing.id)? {
        Some(row) if row.standing() == *standing => Ok(row),
        _ => {
            let message = format!("session {} is not as it is listed", standing.id);
            Err(Error::new(ErrorKind::StoreCorrupt, message)
                .with("table", "session")
                .with("id", standing.id))
        }
    }
}

/// The sequence numbers of the messages in a session's context, ascending.
pub(super) fn context(connection: &Connection, row: &SessionRow) -> Result<Vec<i64>> {
    let mut context = Vec::new();
    let mut next = 0;
    if let Some(head) = row.head {
        let body = compactions::of(connection, row, head)?.body;
        for (start, end) in compactions::messages_of(&body)? {
            context.extend(start.max(0)..end.min(row.next_seq));
        }
        next = body.next_seq.max(0);
    }
    context.extend(next..row.next_seq);
    context.sort_unstable();
    context.dedup();
    Ok(context)
}

/// The messages `seqs`, which ascend.
pub(super) fn messages(
    connection: &Connection,
    row: &SessionRow,
    seqs: &[i64],
) -> Result<Vec<Message>> {
    let mut messages = Vec::with_capacity(seqs.len());
    for run in seqs.chunk_by(|one, next| one + 1 == *next) {
        if let (Some(&first), Some(&last)) = (run.first(), run.last()) {
            messages.extend(log::read(connection, row, first, last + 1)?);
        }
    }
    Ok(messages)
}
