//! Deletes rows: entries with their compaction, entries and batches that are forgotten, entries that are too many or
//! too old, and all rows of a session with the session.

use rusqlite::Transaction;

use crate::error::Result;
use crate::id::EntryId;
use crate::sqlite::entry::{Listed, NewEntry, for_each_after};
use crate::sqlite::ranges::Range;
use crate::sqlite::session::{self, SessionRow};
use crate::sqlite::{meta, stage};

/// Deletes the entries that `compaction` brought; the caller saves `session`, whose figures move.
pub(crate) fn withdraw(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    compaction: i64,
) -> Result<i64> {
    let gone = transaction
        .prepare_cached("DELETE FROM entry WHERE session = ?1 AND compaction = ?2")?
        .execute([session.id, compaction])?;
    Ok(left(session, gone))
}

/// Deletes those of `ids`, and those that came from a message of `seqs`, which ascend; the caller saves
/// `session`, whose figures move.
pub(crate) fn forget(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    ids: &[i64],
    seqs: &[i64],
) -> Result<i64> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    let mut gone = Vec::new();
    for_each_after(transaction, session.id, EntryId(0), |found| match found {
        Listed::Whole(stored) => {
            let NewEntry { start, end, .. } = stored.entry;
            if ids.binary_search(&stored.id.0).is_ok() || (Range { start, end }).holds_one(seqs) {
                gone.push(stored.id);
            }
        }
        Listed::Damaged(id) if ids.binary_search(&id.0).is_ok() => gone.push(id),
        Listed::Damaged(_) => {}
    })?;
    let mut statement = transaction.prepare_cached("DELETE FROM entry WHERE id = ?1")?;
    for id in &gone {
        statement.execute([id.0])?;
    }
    Ok(left(session, gone.len()))
}

/// Deletes the entries of the session that are from before `before`, and then the oldest, until `keep` are left;
/// the caller saves `session`, whose figures move. How many for either reason.
pub(crate) fn expire(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    keep: Option<i64>,
    before: Option<i64>,
) -> Result<(i64, i64)> {
    let (mut aged, mut over) = (0, 0);
    if let Some(before) = before {
        aged = transaction
            .prepare_cached("DELETE FROM entry WHERE session = ?1 AND created_at < ?2")?
            .execute([session.id, before])?;
    }
    if let Some(keep) = keep {
        over = transaction
            .prepare_cached(
                "DELETE FROM entry WHERE id IN (
                     SELECT id FROM entry WHERE session = ?1 ORDER BY created_at DESC, id DESC
                     LIMIT -1 OFFSET ?2)",
            )?
            .execute([session.id, keep])?;
    }
    Ok((left(session, aged), left(session, over)))
}

/// Deletes the entries of the session that have expired at `now`; the caller saves `session`, whose figures move.
/// How many.
pub(crate) fn lapse(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    now: i64,
) -> Result<i64> {
    let lapsed = transaction
        .prepare_cached("DELETE FROM entry WHERE session = ?1 AND expires_at <= ?2")?
        .execute([session.id, now])?;
    Ok(left(session, lapsed))
}

/// Deletes everything of the session, and leaves a tombstone in its place: its name and its namespace.
pub(crate) fn drop_session(transaction: &Transaction<'_>, row: SessionRow) -> Result<()> {
    for sql in [
        "DELETE FROM vector WHERE session = ?1",
        "DELETE FROM entry WHERE session = ?1",
        "DELETE FROM message WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32",
        "DELETE FROM compaction WHERE session = ?1",
        "DELETE FROM derived WHERE session = ?1",
        "DELETE FROM quarantine WHERE session = ?1",
        "DELETE FROM fact WHERE session = ?1",
        "DELETE FROM forgotten WHERE session = ?1",
    ] {
        transaction.prepare_cached(sql)?.execute([row.id])?;
    }
    meta::renew(transaction, meta::FACTS)?;
    stage::drop_all(transaction, row.id)?;
    let tombstone = SessionRow {
        id: row.id,
        name: row.name,
        namespace: row.namespace,
        revision: row.revision + 1,
        epoch: row.epoch + 1,
        redactions: row.redactions + 1,
        counter: row.counter + 1,
        dropped: true,
        ..SessionRow::default()
    };
    session::save(transaction, &tombstone)
}

/// Subtracts `gone` entries from the figures of the session, and makes indexes that have them stale.
fn left(session: &mut SessionRow, gone: usize) -> i64 {
    let gone = i64::try_from(gone).unwrap_or(i64::MAX);
    if gone > 0 {
        session.entries -= gone;
        session.revision += 1;
        session.epoch += 1;
    }
    gone
}
