//! Repairs a store: computes derived values again from other rows, and sets rows with a wrong checksum
//! aside.
//!
//! Messages and compactions cannot be computed from anything else. So a damaged message or compaction stays as it is,
//! and a read of it is an error. The whole repair is one transaction.

use hashbrown::{HashMap, HashSet};
use rusqlite::{Connection, params};

use crate::error::Result;
use crate::sqlite::checksum::believed;
use crate::sqlite::compactions::{self, Compaction};
use crate::sqlite::session::{self, SessionRow};
use crate::sqlite::transaction::Transaction;
use crate::sqlite::{
    allocator, cached, derived, entry, leaving, log, meta, quarantine, recall, repair_vectors,
};

/// The jump of the allocator where the highest id is not known. No store has given as many ids.
const JUMP: i64 = 1 << 32;

/// Repairs all that can be repaired. `now` is the time that set-aside rows get.
pub(super) fn repair(transaction: &Transaction<'_>, now: i64) -> Result<()> {
    transaction.execute_batch("REINDEX")?;
    leaving::take(transaction, &|| true)?;
    entries(transaction, now)?;
    texts(transaction)?;
    marks(transaction)?;
    recall::repair(transaction)?;
    ids(transaction)?;
    sessions(transaction)?;
    cached::forget_all(transaction)?;
    repair_vectors::repair(transaction)
}

/// Sets aside damaged entries and entries without a session, and corrects the fingerprints of the other entries.
fn entries(transaction: &Transaction<'_>, now: i64) -> Result<()> {
    let sessions: HashSet<i64> = column(transaction, "SELECT id FROM session")?;
    let (mut damaged, mut lost) = (Vec::new(), Vec::new());
    let mut statement = transaction.prepare(entry::SELECT_ALL)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        match believed(entry::read(row))? {
            Some(stored) if sessions.contains(&stored.session) => {
                let fingerprint = entry::fingerprint(&stored.entry);
                if row.get::<_, i64>(12)? != fingerprint {
                    lost.push((id, fingerprint));
                }
            }
            _ => damaged.push(id),
        }
    }
    for id in damaged {
        quarantine::take(transaction, id, now)?;
    }
    let mut statement =
        transaction.prepare_cached("UPDATE entry SET fingerprint = ?2 WHERE id = ?1")?;
    for (id, fingerprint) in lost {
        statement.execute([id, fingerprint])?;
    }
    Ok(())
}

/// Corrects the digests of derived texts. A text is found by its digest.
fn texts(transaction: &Transaction<'_>) -> Result<()> {
    let mut lost = Vec::new();
    let mut statement = transaction.prepare(derived::SELECT_ALL)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(found) = believed(derived::read(row))? {
            let digest = derived::digest(&found.text.raw);
            if row.get::<_, i64>(11)? != digest {
                lost.push((found.id, digest));
            }
        }
    }
    let mut statement =
        transaction.prepare_cached("UPDATE derived SET digest = ?2 WHERE id = ?1")?;
    for (id, digest) in lost {
        statement.execute([id, digest])?;
    }
    Ok(())
}

/// Draws new random marks in place of damaged ones. With a new salt, forgotten messages are not
/// recognised when they are sent again.
fn marks(transaction: &Transaction<'_>) -> Result<()> {
    for key in [meta::SALT, meta::LINEAGE] {
        if believed(meta::get(transaction, key))?.is_none() {
            meta::put(transaction, key, &meta::random(transaction)?)?;
        }
    }
    Ok(())
}

/// Raises the allocator's mark, so that no id is given a second time.
fn ids(transaction: &Transaction<'_>) -> Result<()> {
    let highest: i64 = transaction.query_row(
        "SELECT MAX(COALESCE((SELECT MAX(id) FROM entry), 0), COALESCE((SELECT MAX(id) FROM quarantine), 0))",
        [],
        |row| row.get(0),
    )?;
    match believed(allocator::high_water(transaction))? {
        Some(known) if known >= highest => Ok(()),
        Some(_) => allocator::put(transaction, highest),
        None => allocator::put(transaction, highest.saturating_add(JUMP)),
    }
}

fn sessions(transaction: &Transaction<'_>) -> Result<()> {
    let mut compactions: HashMap<i64, Vec<Compaction>> = HashMap::new();
    let mut statement = transaction.prepare(compactions::SELECT_ALL)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(found) = believed(compactions::read(row))? {
            compactions.entry(found.session).or_default().push(found);
        }
    }
    let mut known = Vec::new();
    let mut statement = transaction.prepare(session::SELECT_ALL)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let found = match believed(session::read(row))? {
            Some(found) => Some(found),
            None => remade(transaction, row)?,
        };
        known.extend(found);
    }
    for row in known {
        let views = compactions.remove(&row.id).unwrap_or_default();
        settle(transaction, row, &views)?;
    }
    Ok(())
}

/// Rebuilds a session with a damaged row from its other rows; None where the name is damaged, too.
///
/// Its clock, its settings and its title are empty afterwards, because no other row has them.
fn remade(transaction: &Transaction<'_>, row: &rusqlite::Row<'_>) -> Result<Option<SessionRow>> {
    let (Ok(id), Ok(name)) = (row.get::<_, i64>(0), row.get::<_, String>(1)) else {
        return Ok(None);
    };
    let name_hash: i64 =
        transaction.query_row("SELECT name_hash FROM session WHERE id = ?1", [id], |row| {
            row.get(0)
        })?;
    if session::hash(&name) != name_hash {
        return Ok(None);
    }
    let count =
        |sql: &str| -> Result<i64> { Ok(transaction.query_row(sql, [id], |row| row.get(0))?) };
    let next_seq = count(
        "SELECT COALESCE(MAX(id) - (?1 << 32) + 1, 0) FROM message
         WHERE id >= ?1 << 32 AND id < (?1 + 1) << 32",
    )?;
    let entries = count("SELECT COUNT(*) FROM entry WHERE session = ?1")?;
    let compactions = count("SELECT COUNT(*) FROM compaction WHERE session = ?1")?;
    let is_empty = next_seq + entries + compactions == 0;
    let number = |column| row.get::<_, i64>(column).unwrap_or_default();
    let raised = |column| number(column).clamp(0, i64::MAX / 2);
    let mut remade = SessionRow {
        id,
        name,
        namespace: row.get(2).unwrap_or_default(),
        next_seq,
        entries: -1, // so that `settle` sees a change
        compactions,
        revision: raised(6),
        epoch: raised(7),
        redactions: raised(8),
        counter: raised(9),
        dropped: is_empty && number(11) != 0,
        head: row.get(12).unwrap_or_default(),
        ..SessionRow::default()
    };
    for found in believed(log::read(transaction, &remade, 0, next_seq))?.unwrap_or_default() {
        log::count_in(&mut remade, &found.message);
    }
    Ok(Some(remade))
}

/// Counts the rows of the session again, and makes an intact compaction its head.
fn settle(transaction: &Transaction<'_>, mut row: SessionRow, views: &[Compaction]) -> Result<()> {
    let before = row.clone();
    let parents: HashMap<i64, Option<i64>> = views
        .iter()
        .map(|view| (view.id, view.parent.filter(|&parent| parent < view.id)))
        .collect();
    if let Some(head) = row.head.filter(|head| !parents.contains_key(head)) {
        // The parent in the damaged row is used if it is intact itself. Otherwise the session has no compaction in its
        // view.
        let parent: Option<i64> = transaction
            .query_row(
                "SELECT parent FROM compaction WHERE id = ?1 AND session = ?2",
                [head, row.id],
                |found| found.get(0),
            )
            .unwrap_or_default();
        row.head = parent.filter(|parent| *parent < head && parents.contains_key(parent));
    }
    // Entries of a compaction outside the view's chain are deleted: their messages are in the context again, or the
    // compaction was undone.
    let mut standing = Vec::new();
    let mut next = row.head;
    while let Some(id) = next {
        standing.push(id);
        next = parents.get(&id).copied().flatten();
    }
    let brought: HashSet<i64> = column_of(
        transaction,
        "SELECT DISTINCT compaction FROM entry WHERE session = ?1 AND compaction IS NOT NULL",
        row.id,
    )?;
    for compaction in brought.iter().filter(|id| !standing.contains(id)) {
        transaction
            .prepare_cached("DELETE FROM entry WHERE session = ?1 AND compaction = ?2")?
            .execute(params![row.id, compaction])?;
    }
    let count = |sql: &str| -> Result<i64> {
        Ok(transaction.query_row(sql, [row.id], |found| found.get(0))?)
    };
    row.entries = count("SELECT COUNT(*) FROM entry WHERE session = ?1")?;
    row.compactions = count("SELECT COUNT(*) FROM compaction WHERE session = ?1")?;
    if row == before {
        return Ok(());
    }
    // Indexes and views from before the repair become stale.
    row.revision += 1;
    row.epoch += 1;
    row.counter += 1;
    row.redactions += i64::from(row.head != before.head || before.entries < 0);
    session::save(transaction, &row)
}

fn column(connection: &Connection, sql: &str) -> Result<HashSet<i64>> {
    let mut statement = connection.prepare(sql)?;
    let values = statement.query_map([], |row| row.get(0))?;
    Ok(values.collect::<rusqlite::Result<_>>()?)
}

fn column_of(connection: &Connection, sql: &str, key: i64) -> Result<HashSet<i64>> {
    let mut statement = connection.prepare_cached(sql)?;
    let values = statement.query_map([key], |row| row.get(0))?;
    Ok(values.collect::<rusqlite::Result<_>>()?)
}
