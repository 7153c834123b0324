//! Batches of entries that a host has handed over and not yet committed. Searches do not find these entries.
//!
//! A session and a fingerprint, which the host chooses, identify a batch. Its token is computed from these and from
//! its content, so the same batch always has the same token.

use rusqlite::{Connection, Row, params};

use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::sqlite::checksum::{Checksum, corrupt};
use crate::sqlite::entry::{self, NewEntry};
use crate::sqlite::ranges::Range;
use crate::sqlite::row::Columns;
use crate::sqlite::session::SessionRow;
use crate::sqlite::staged::{self, StagedEntry};
use crate::sqlite::transaction::Transaction;

pub(super) const TABLE: &str = "stage";

/// A query of the columns that `read` expects, with a condition.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT id, session, token, fingerprint, digest, state, size, held, receipt, created_at, checksum
             FROM stage ",
            $condition
        )
    };
}

/// Selects every row, for a check or a repair.
pub(super) const SELECT_ALL: &str = select!("ORDER BY id");

/// The states of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its entries wait, and searches do not find them.
    Staged,
    /// Its entries belong to the session, and searches find them.
    Finalized,
    /// Its session was deleted. The batch is accepted, and its entries are not kept.
    Dropped,
}

/// A batch of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its key.
    pub(crate) id: i64,
    /// The key of its session.
    pub(crate) session: i64,
    /// Its token, which the host keeps.
    pub token: String,
    /// The host's own name for it.
    pub fingerprint: String,
    /// A digest of its content.
    digest: i64,
    /// Its state.
    pub state: State,
    /// The number of entries that were handed over, blank ones included.
    pub size: i64,
    /// The number of entries that wait.
    pub held: i64,
    /// The id of each entry of a finalized batch; None for an entry that was not stored.
    receipt: Vec<Option<EntryId>>,
    /// Milliseconds since 1970, UTC.
    pub created_at: i64,
}

/// Writes a batch of the session, or finds the same batch. A deleted session keeps no entries.
///
/// # Errors
///
/// [`ErrorKind::StoreConflict`] where the session has a batch of that fingerprint with other content.
pub(crate) fn put(
    transaction: &Transaction<'_>,
    session: &SessionRow,
    fingerprint: &str,
    entries: &[NewEntry],
    now: i64,
) -> Result<Stage> {
    let content = || entries.iter().map(entry::fingerprint);
    let digest = content().fold(Checksum::of(TABLE), Checksum::integer);
    let token = Checksum::of(TABLE).text(&session.name).text(fingerprint);
    let (digest, token) = (
        digest.finish(),
        content().fold(token, Checksum::integer).finish_wide(),
    );
    if let Some(found) = find_by(transaction, session, fingerprint)? {
        let lives_again = found.state == State::Dropped && !session.dropped;
        if !lives_again && found.digest == digest {
            return Ok(found);
        }
        if !lives_again && found.state != State::Dropped {
            let message = format!(
                "session {:?} has another batch of fingerprint {fingerprint:?}: one fingerprint stands for \
                 one content",
                session.name
            );
            return Err(Error::new(ErrorKind::StoreConflict, message).with("token", found.token));
        }
        abort(transaction, &found)?;
    }
    let mut stage = Stage {
        id: 0,
        session: session.id,
        token,
        fingerprint: fingerprint.to_owned(),
        digest,
        state: if session.dropped {
            State::Dropped
        } else {
            State::Staged
        },
        size: i64::try_from(entries.len()).unwrap_or(i64::MAX),
        held: 0,
        receipt: Vec::new(),
        created_at: now,
    };
    transaction
        .prepare_cached(
            "INSERT INTO stage (session, token, fingerprint, digest, state, size, held, receipt, created_at,
                 checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, '', ?7, 0)",
        )?
        .execute(params![
            stage.session,
            stage.token,
            stage.fingerprint,
            stage.digest,
            number(stage.state),
            stage.size,
            stage.created_at,
        ])?;
    stage.id = transaction.last_insert_rowid();
    if stage.state == State::Staged {
        stage.held = staged::insert(transaction, stage.id, entries)?;
    }
    save(transaction, &stage)?;
    Ok(stage)
}

/// The batch of that token, if there is one.
pub(crate) fn find(connection: &Connection, token: &str) -> Result<Option<Stage>> {
    let mut statement = connection.prepare_cached(select!("WHERE token = ?1"))?;
    let mut rows = statement.query([token])?;
    match rows.next()?.map(read).transpose()? {
        Some(stage) if stage.token == token => Ok(Some(stage)),
        _ => Ok(None),
    }
}

fn find_by(
    connection: &Connection,
    session: &SessionRow,
    fingerprint: &str,
) -> Result<Option<Stage>> {
    let mut statement =
        connection.prepare_cached(select!("WHERE session = ?1 AND fingerprint = ?2"))?;
    let mut rows = statement.query(params![session.id, fingerprint])?;
    rows.next()?.map(read).transpose()
}

/// The waiting batches of one session or of all sessions, in the order of their writes.
pub(crate) fn waiting(connection: &Connection, session: Option<i64>) -> Result<Vec<Stage>> {
    let mut statement = connection.prepare_cached(select!(
        "WHERE state = 0 AND (?1 IS NULL OR session = ?1) ORDER BY id"
    ))?;
    let mut rows = statement.query([session])?;
    let mut stages = Vec::new();
    while let Some(row) = rows.next()? {
        stages.push(read(row)?);
    }
    Ok(stages)
}

/// The waiting entries of a batch, each with its position in the batch.
pub(crate) fn entries(connection: &Connection, stage: &Stage) -> Result<Vec<(usize, NewEntry)>> {
    let found = staged::of(connection, stage.id)?;
    if i64::try_from(found.len()).is_ok_and(|found| found == stage.held) {
        let place = |each: &StagedEntry| usize::try_from(each.place).unwrap_or(usize::MAX);
        return Ok(found
            .into_iter()
            .map(|each| (place(&each), each.entry))
            .collect());
    }
    let message = format!(
        "batch {} should have {} entries that wait, and {} were found",
        stage.token,
        stage.held,
        found.len()
    );
    Err(Error::new(ErrorKind::StoreCorrupt, message)
        .with("table", staged::TABLE)
        .with("token", stage.token.clone()))
}

/// All waiting entries of the session, in the order in which they were handed over.
pub(crate) fn of_session(connection: &Connection, session: i64) -> Result<Vec<StagedEntry>> {
    let mut entries = Vec::new();
    for stage in waiting(connection, Some(session))? {
        entries.extend(staged::of(connection, stage.id)?);
    }
    Ok(entries)
}

/// Deletes waiting entries: those with a key of `ids`, and those that came from a message of `seqs`, which ascend.
/// Gives their number.
pub(crate) fn forget(
    transaction: &Transaction<'_>,
    session: i64,
    ids: &[i64],
    seqs: &[i64],
) -> Result<i64> {
    let mut total = 0;
    for batch in waiting(transaction, Some(session))? {
        let mut gone = 0;
        for found in staged::of(transaction, batch.id)? {
            let NewEntry { start, end, .. } = found.entry;
            if ids.contains(&found.id) || (Range { start, end }).holds_one(seqs) {
                staged::delete_one(transaction, found.id)?;
                gone += 1;
            }
        }
        if gone > 0 {
            let held = batch.held - gone;
            save(transaction, &Stage { held, ..batch })?;
        }
        total += gone;
    }
    Ok(total)
}

/// Moves the entries of a batch into its session. Gives the id of each entry, None for an entry that was not
/// stored; a finalized batch gives the same ids again. The figures in `session` change, and the caller saves it.
pub(crate) fn finalize(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    stage: Stage,
) -> Result<Vec<Option<EntryId>>> {
    let size = usize::try_from(stage.size).unwrap_or_default();
    match stage.state {
        State::Finalized => return Ok(stage.receipt),
        State::Dropped => return Ok(vec![None; size]),
        State::Staged => {}
    }
    let mut receipt = vec![None; size];
    let (places, handed_over): (Vec<usize>, Vec<NewEntry>) =
        entries(transaction, &stage)?.into_iter().unzip();
    let entries: Vec<&NewEntry> = handed_over.iter().collect();
    let written = entry::insert(transaction, session, None, &entries)?;
    for (place, entry) in places.into_iter().zip(written) {
        if let Some(slot) = receipt.get_mut(place) {
            *slot = Some(entry.id);
        } else {
            let message = format!("staged {place} is not one of the {size} places of its batch");
            return Err(Error::new(ErrorKind::StoreCorrupt, message).with("table", staged::TABLE));
        }
    }
    staged::delete(transaction, stage.id)?;
    let done = Stage {
        state: State::Finalized,
        held: 0,
        receipt,
        ..stage
    };
    save(transaction, &done)?;
    Ok(done.receipt)
}

/// Deletes a batch and its waiting entries.
pub(crate) fn abort(transaction: &Transaction<'_>, stage: &Stage) -> Result<()> {
    staged::delete(transaction, stage.id)?;
    transaction
        .prepare_cached("DELETE FROM stage WHERE id = ?1")?
        .execute([stage.id])?;
    Ok(())
}

/// Marks every batch of the session as [`State::Dropped`], and deletes its waiting entries. Damaged batches are
/// deleted.
pub(super) fn drop_all(transaction: &Transaction<'_>, session: i64) -> Result<()> {
    let mut kept = Vec::new();
    let mut ids = Vec::new();
    let mut statement = transaction.prepare_cached(select!("WHERE session = ?1 ORDER BY id"))?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        ids.push(row.get::<_, i64>(0)?);
        match read(row) {
            Ok(stage) => kept.push(stage),
            Err(error) if error.kind() == ErrorKind::StoreCorrupt => {}
            Err(error) => return Err(error),
        }
    }
    for id in ids {
        staged::delete(transaction, id)?;
        if !kept.iter().any(|stage| stage.id == id) {
            let mut gone = transaction.prepare_cached("DELETE FROM stage WHERE id = ?1")?;
            gone.execute([id])?;
        }
    }
    for stage in kept {
        let state = State::Dropped;
        let (held, receipt) = (0, Vec::new());
        save(
            transaction,
            &Stage {
                state,
                held,
                receipt,
                ..stage
            },
        )?;
    }
    Ok(())
}

/// Writes the columns of a batch that can change, and its checksum.
fn save(transaction: &Transaction<'_>, stage: &Stage) -> Result<()> {
    transaction
        .prepare_cached(
            "UPDATE stage SET state = ?2, held = ?3, receipt = ?4, checksum = ?5 WHERE id = ?1",
        )?
        .execute(params![
            stage.id,
            number(stage.state),
            stage.held,
            as_json(&stage.receipt),
            checksum(stage).finish(),
        ])?;
    Ok(())
}

pub(super) fn read(row: &Row<'_>) -> Result<Stage> {
    let columns = Columns::of(TABLE, row);
    let wrong = |what| -> Result<Error> { Ok(corrupt(TABLE, row.get_ref(0)?, what)) };
    let state = match columns.integer(5)? {
        0 => State::Staged,
        1 => State::Finalized,
        2 => State::Dropped,
        _ => return Err(wrong("has no state that there is")?),
    };
    let Some(receipt) = parsed(&columns.text(8)?) else {
        return Err(wrong("has a receipt that is no list of ids")?);
    };
    let found = Stage {
        id: columns.integer(0)?,
        session: columns.integer(1)?,
        token: columns.text(2)?,
        fingerprint: columns.text(3)?,
        digest: columns.integer(4)?,
        state,
        size: columns.integer(6)?,
        held: columns.integer(7)?,
        receipt,
        created_at: columns.integer(9)?,
    };
    columns.verify(checksum(&found), 10)?;
    Ok(found)
}

fn number(state: State) -> i64 {
    match state {
        State::Staged => 0,
        State::Finalized => 1,
        State::Dropped => 2,
    }
}

/// The receipt as JSON, such as `[1,null,2]`; an empty text for an empty receipt.
fn as_json(receipt: &[Option<EntryId>]) -> String {
    if receipt.is_empty() {
        return String::new();
    }
    let ids = receipt
        .iter()
        .map(|id| id.map_or_else(|| "null".to_owned(), |id| id.to_string()));
    format!("[{}]", ids.collect::<Vec<_>>().join(","))
}

fn parsed(text: &str) -> Option<Vec<Option<EntryId>>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let ids = text.strip_prefix('[')?.strip_suffix(']')?.split(',');
    ids.map(|id| match id {
        "null" => Some(None),
        _ => id.parse().ok().map(|id| Some(EntryId(id))),
    })
    .collect()
}

fn checksum(stage: &Stage) -> Checksum {
    Checksum::of(TABLE)
        .integer(stage.id)
        .integer(stage.session)
        .text(&stage.token)
        .text(&stage.fingerprint)
        .integer(stage.digest)
        .integer(number(stage.state))
        .integer(stage.size)
        .integer(stage.held)
        .text(&as_json(&stage.receipt))
        .integer(stage.created_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_survives_its_column_and_nothing_else_is_one() {
        for ids in [vec![], vec![None], vec![Some(EntryId(3)), None]] {
            assert_eq!(parsed(&as_json(&ids)), Some(ids));
        }
        for wrong in ["[", "3", "[x]", "[1,]", "null"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
