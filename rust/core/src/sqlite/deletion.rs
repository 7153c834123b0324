//! Deletes rows: the entries of an undone compaction, forgotten entries, entries that are too many or
//! too old, and all rows of a deleted session.

use rusqlite::Connection;

use crate::error::Result;
use crate::id::EntryId;
use crate::sqlite::compactions::Range;
use crate::sqlite::entry::Reader;
use crate::sqlite::meta;
use crate::sqlite::row::{Columns, believed, list, run};
use crate::sqlite::session::{self, SessionRow};
use crate::sqlite::transaction::Transaction;

/// The number of rows that are deleted between two looks at the time.
const ROWS: i64 = 32;

/// Deletes the entries that `compaction` brought. The figures in `session` change, and the caller saves it.
pub(crate) fn withdraw(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    compaction: i64,
) -> Result<i64> {
    let gone = run(
        transaction,
        "DELETE FROM entry WHERE session = ?1 AND compaction = ?2",
        [session.id, compaction],
    )?;
    Ok(subtract(session, gone))
}

/// The entries of the session with an id above `after` that came from a message of `seqs`, which ascend; and the last
/// id that was read. An entry never changes its source, so a second call can go on from there.
///
/// The texts of the others are not read, so this takes a fraction of a look at all entries. A damaged entry came from
/// nowhere.
pub(crate) fn that_came_from(
    connection: &Connection,
    session: i64,
    seqs: &[i64],
    after: EntryId,
) -> Result<(Vec<EntryId>, EntryId)> {
    let (mut found, mut last) = (Vec::new(), after);
    if seqs.is_empty() {
        return Ok((found, last));
    }
    let sql =
        "SELECT id, source_start, source_end FROM entry WHERE session = ?1 AND id > ?2 ORDER BY id";
    list(connection, sql, [session, after.0], |row| {
        let columns = Columns::of("entry", row);
        last = EntryId(columns.get(0)?);
        let (start, end) = (columns.get(1)?, columns.get(2)?);
        if (Range { start, end }).holds_one(seqs) {
            found.push(last);
        }
        Ok(())
    })?;
    let mut whole = Reader::of(connection)?;
    let mut came = Vec::with_capacity(found.len());
    for id in found {
        came.extend(believed(whole.get(id))?.map(|_| id));
    }
    Ok((came, last))
}

/// Deletes the session's entries with those ids. The figures in `session` change, and the caller saves it.
pub(crate) fn forget(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    ids: impl IntoIterator<Item = i64>,
) -> Result<i64> {
    let mut statement =
        transaction.prepare_cached("DELETE FROM entry WHERE id = ?1 AND session = ?2")?;
    let mut gone = 0;
    for id in ids {
        gone += statement.execute([id, session.id])?;
    }
    Ok(subtract(session, gone))
}

/// Deletes the session's entries from before `before`, and then the oldest until `keep` are left that have not expired
/// at `now`. Gives the number for each reason. The figures in `session` change, and the caller saves it.
pub(crate) fn expire(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    keep: Option<i64>,
    before: Option<i64>,
    now: i64,
) -> Result<(i64, i64)> {
    let (mut aged, mut over) = (0, 0);
    if let Some(before) = before {
        aged = run(
            transaction,
            "DELETE FROM entry WHERE session = ?1 AND created_at < ?2",
            [session.id, before],
        )?;
    }
    if let Some(keep) = keep {
        over = run(
            transaction,
            "DELETE FROM entry WHERE id IN (
                     SELECT id FROM entry WHERE session = ?1 AND COALESCE(expires_at > ?3, TRUE)
                     ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?2)",
            [session.id, keep, now],
        )?;
    }
    Ok((subtract(session, aged), subtract(session, over)))
}

/// Deletes the session's entries that have expired at `now`, and gives their number. The figures in `session` change,
/// and the caller saves it.
pub(crate) fn delete_expired(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    now: i64,
) -> Result<i64> {
    let expired = run(
        transaction,
        "DELETE FROM entry WHERE session = ?1 AND expires_at <= ?2",
        [session.id, now],
    )?;
    Ok(subtract(session, expired))
}

/// Deletes the session, and leaves a tombstone: a row with its name and its namespace. From now on searches
/// find nothing of it. [`take`] deletes its other rows.
pub(crate) fn drop_session(transaction: &Transaction<'_>, row: SessionRow) -> Result<()> {
    run(transaction, "DELETE FROM fact WHERE session = ?1", [row.id])?;
    meta::renew(transaction, meta::FACTS)?;
    begin(transaction, row.id)?;
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

/// Deletes rows of deleted sessions while `is_time` is true. True if no such rows are left.
pub(crate) fn take(transaction: &Transaction<'_>, is_time: &dyn Fn() -> bool) -> Result<bool> {
    // Rows that refer to other rows go first. A vector would also go with its entry.
    const TABLES: [&str; 7] = [
        "DELETE FROM vector WHERE entry IN (SELECT entry FROM vector WHERE session = ?1 LIMIT ?2)",
        "DELETE FROM entry WHERE id IN (SELECT id FROM entry WHERE session = ?1 LIMIT ?2)",
        "DELETE FROM compaction WHERE id IN (SELECT id FROM compaction WHERE session = ?1 LIMIT ?2)",
        "DELETE FROM derived WHERE id IN (SELECT id FROM derived WHERE session = ?1 LIMIT ?2)",
        "DELETE FROM quarantine WHERE id IN (SELECT id FROM quarantine WHERE session = ?1 LIMIT ?2)",
        "DELETE FROM recall WHERE id IN (SELECT id FROM recall
             WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32 LIMIT ?2)",
        "DELETE FROM message WHERE id IN (SELECT id FROM message
             WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32 LIMIT ?2)",
    ];
    for session in unfinished(transaction)? {
        for sql in TABLES {
            let mut statement = transaction.prepare_cached(sql)?;
            while statement.execute([session, ROWS])? > 0 {
                if !is_time() {
                    return Ok(false);
                }
            }
        }
        run(
            transaction,
            "DELETE FROM forgotten WHERE session = ?1",
            [session],
        )?;
        end(transaction, session)?;
    }
    Ok(true)
}

/// Subtracts `gone` entries from the figures of the session, and raises its epoch, so that its indexes are stale.
fn subtract(session: &mut SessionRow, gone: usize) -> i64 {
    let gone = i64::try_from(gone).unwrap_or(i64::MAX);
    if gone > 0 {
        session.entries -= gone;
        session.revision += 1;
        session.epoch += 1;
    }
    gone
}

// The deleted sessions that still have rows. Many rows are deleted in many transactions.

/// The prefix of their keys in `meta`; the key of the session follows.
const PREFIX: &str = "departing-";

/// Records that the session's rows are still to be deleted.
pub(crate) fn begin(connection: &Connection, session: i64) -> Result<()> {
    meta::put(connection, &key(session), meta::DUE)
}

/// Removes the record, once all rows of the session are deleted.
pub(crate) fn end(connection: &Connection, session: i64) -> Result<()> {
    meta::delete(connection, &key(session))
}

/// The keys of sessions whose rows are still to be deleted.
pub(crate) fn unfinished(connection: &Connection) -> Result<Vec<i64>> {
    meta::numbers(connection, PREFIX)
}

fn key(session: i64) -> String {
    format!("{PREFIX}{session}")
}
