//! Which views were there? The compactions of a session, each with the one whose view it rewrote.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Transaction, params};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::checksum::{Checksum, corrupt};
use crate::sqlite::ranges::{self, Range};
use crate::sqlite::row::{Columns, check_list};
use crate::sqlite::session::SessionRow;

pub(super) const TABLE: &str = "compaction";

/// The columns in the order of `read`, and then a condition.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT id, session, parent, policy, reason, level, degraded, summary, covers, view, next_seq,
                    model, usage, tokens_before, tokens_after, messages_before, messages_after, created_at,
                    redacted, checksum
             FROM compaction ",
            $condition
        )
    };
}

/// Every row, to be checked.
pub(super) const SELECT_ALL: &str = select!("ORDER BY id");

/// A compaction on its way into the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewCompaction {
    /// The policy's name.
    pub policy: String,
    /// The trigger's reason.
    pub reason: String,
    /// The summary's level.
    pub level: i64,
    /// Whether the summary was made without the intended model.
    pub degraded: bool,
    /// The summary as the model will read it.
    pub summary: String,
    /// The ranges of messages it stands for, as JSON.
    pub covers: String,
    /// The view it leaves, as JSON.
    pub view: String,
    /// Messages from here on follow the view.
    pub next_seq: i64,
    /// The model that wrote the summary.
    pub model: String,
    /// The model calls, as JSON.
    pub usage: String,
    /// Tokens of the view before.
    pub tokens_before: i64,
    /// Tokens of the view after.
    pub tokens_after: i64,
    /// Messages of the view before.
    pub messages_before: i64,
    /// Messages of the view after.
    pub messages_after: i64,
    /// Milliseconds since 1970, UTC.
    pub created_at: i64,
}

/// A compaction as the log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Its id, never reused.
    pub id: i64,
    /// The key of its session.
    pub session: i64,
    /// The compaction whose view it rewrote.
    pub parent: Option<i64>,
    /// Whether its summary was forgotten, and another text stands in its place.
    pub redacted: bool,
    /// What was committed.
    pub compaction: NewCompaction,
}

/// Writes a compaction as the session's head; the caller saves `session`.
pub(crate) fn append(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    new: &NewCompaction,
) -> Result<i64> {
    let parent = session.head;
    let mut statement = transaction.prepare_cached(
        "INSERT INTO compaction (session, parent, policy, reason, level, degraded, summary, covers, view,
             next_seq, model, usage, tokens_before, tokens_after, messages_before, messages_after, created_at,
             redacted, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, 0, 0)",
    )?;
    statement.execute(params![
        session.id,
        parent,
        new.policy,
        new.reason,
        new.level,
        new.degraded,
        new.summary,
        new.covers,
        new.view,
        new.next_seq,
        new.model,
        new.usage,
        new.tokens_before,
        new.tokens_after,
        new.messages_before,
        new.messages_after,
        new.created_at,
    ])?;
    let id = transaction.last_insert_rowid();
    let checksum = checksum(id, session.id, parent, false, new).finish();
    transaction
        .prepare_cached("UPDATE compaction SET checksum = ?2 WHERE id = ?1")?
        .execute([id, checksum])?;
    session.head = Some(id);
    session.compactions += 1;
    Ok(id)
}

/// Every compaction of the session, in the order of their commits.
pub(crate) fn of_session(connection: &Connection, session: &SessionRow) -> Result<Vec<Compaction>> {
    let mut statement = connection.prepare_cached(select!("WHERE session = ?1 ORDER BY id"))?;
    let mut rows = statement.query([session.id])?;
    let mut compactions = Vec::new();
    while let Some(row) = rows.next()? {
        compactions.push(read(row)?);
    }
    let ids = compactions.iter().map(|compaction| compaction.id);
    check_list(TABLE, session, session.compactions, ids)?;
    Ok(compactions)
}

/// The compaction of that id.
pub(crate) fn get(connection: &Connection, id: i64) -> Result<Option<Compaction>> {
    let mut statement = connection.prepare_cached(select!("WHERE id = ?1"))?;
    let mut rows = statement.query([id])?;
    rows.next()?.map(read).transpose()
}

/// Puts `replacement` in the place of each summary that has an id of `ids`, or stands for a message of
/// `seqs`, which ascend. How many there were.
pub(crate) fn redact(
    transaction: &Transaction<'_>,
    session: &SessionRow,
    ids: &[i64],
    seqs: &[i64],
    replacement: &str,
) -> Result<i64> {
    let mut redacted = 0;
    for row in of_session(transaction, session)? {
        let hit = ids.contains(&row.id) || covers(&row)?.iter().any(|range| range.holds_one(seqs));
        if row.redacted || !hit {
            continue;
        }
        let new = NewCompaction {
            summary: replacement.to_owned(),
            ..row.compaction
        };
        let checksum = checksum(row.id, row.session, row.parent, true, &new).finish();
        transaction
            .prepare_cached(
                "UPDATE compaction SET summary = ?2, redacted = 1, checksum = ?3 WHERE id = ?1",
            )?
            .execute(params![row.id, new.summary, checksum])?;
        redacted += 1;
    }
    Ok(redacted)
}

/// Gives a compaction of the session whose summary was forgotten another one. Whether there is such a one.
pub(crate) fn renew(
    transaction: &Transaction<'_>,
    session: &SessionRow,
    id: i64,
    summary: &str,
) -> Result<bool> {
    let Some(row) = get(transaction, id)?.filter(|row| row.session == session.id && row.redacted)
    else {
        return Ok(false);
    };
    let new = NewCompaction {
        summary: summary.to_owned(),
        ..row.compaction
    };
    let checksum = checksum(row.id, row.session, row.parent, false, &new).finish();
    transaction
        .prepare_cached(
            "UPDATE compaction SET summary = ?2, redacted = 0, checksum = ?3 WHERE id = ?1",
        )?
        .execute(params![row.id, new.summary, checksum])?;
    Ok(true)
}

/// The messages that its summary stands for.
pub(crate) fn covers(row: &Compaction) -> Result<Vec<Range>> {
    let pieces = ranges::parse(&row.compaction.covers);
    let ranges = pieces.and_then(|pieces| pieces.into_iter().collect::<Option<Vec<_>>>());
    ranges.ok_or_else(|| {
        corrupt(
            TABLE,
            ValueRef::Integer(row.id),
            "covers what is no list of ranges",
        )
    })
}

/// The compaction of that id, which the session stands on.
pub(crate) fn of(connection: &Connection, session: &SessionRow, id: i64) -> Result<Compaction> {
    match get(connection, id)? {
        Some(found) if found.session == session.id => Ok(found),
        found => {
            let message = match found {
                None => "is missing",
                Some(_) => "is of another session",
            };
            let message = format!(
                "session {:?} stands on compaction {id}, which {message}",
                session.name
            );
            Err(Error::new(ErrorKind::StoreCorrupt, message)
                .with("table", TABLE)
                .with("id", id))
        }
    }
}

pub(super) fn read(row: &Row<'_>) -> Result<Compaction> {
    let columns = Columns::of(TABLE, row);
    let (id, session) = (columns.integer(0)?, columns.integer(1)?);
    let parent = columns.optional_integer(2)?;
    let compaction = NewCompaction {
        policy: columns.text(3)?,
        reason: columns.text(4)?,
        level: columns.integer(5)?,
        degraded: columns.integer(6)? != 0,
        summary: columns.text(7)?,
        covers: columns.text(8)?,
        view: columns.text(9)?,
        next_seq: columns.integer(10)?,
        model: columns.text(11)?,
        usage: columns.text(12)?,
        tokens_before: columns.integer(13)?,
        tokens_after: columns.integer(14)?,
        messages_before: columns.integer(15)?,
        messages_after: columns.integer(16)?,
        created_at: columns.integer(17)?,
    };
    let redacted = columns.integer(18)? != 0;
    let checksum = checksum(id, session, parent, redacted, &compaction);
    columns.verify(checksum, 19)?;
    Ok(Compaction {
        id,
        session,
        parent,
        redacted,
        compaction,
    })
}

fn checksum(
    id: i64,
    session: i64,
    parent: Option<i64>,
    redacted: bool,
    new: &NewCompaction,
) -> Checksum {
    Checksum::of(TABLE)
        .integer(id)
        .integer(session)
        .optional_integer(parent)
        .text(&new.policy)
        .text(&new.reason)
        .integer(new.level)
        .integer(i64::from(new.degraded))
        .text(&new.summary)
        .text(&new.covers)
        .text(&new.view)
        .integer(new.next_seq)
        .text(&new.model)
        .text(&new.usage)
        .integer(new.tokens_before)
        .integer(new.tokens_after)
        .integer(new.messages_before)
        .integer(new.messages_after)
        .integer(new.created_at)
        .integer(i64::from(redacted))
}
