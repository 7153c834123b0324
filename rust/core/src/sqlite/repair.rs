//! Repairs a store: computes derived values again from other rows, and sets rows with a wrong checksum
//! aside.
//!
//! Messages and compactions cannot be computed from anything else. So a damaged message or compaction stays as it is,
//! and a read of it is an error. The whole repair is one transaction.

use hashbrown::{HashMap, HashSet};
use rusqlite::{Connection, Params, params};

use crate::error::Result;
use crate::id::{EntryId, SessionId};
use crate::sqlite::compactions::{self, Compaction};
use crate::sqlite::row::{Checksum, believed, list, run};
use crate::sqlite::session::{self, SessionRow};
use crate::sqlite::transaction::Transaction;
use crate::sqlite::{deletion, derived, entry, log, meta, recall_log, vectors};

/// The jump of the allocator where the highest id is not known. No store has given as many ids.
const JUMP: i64 = 1 << 32;

/// Repairs all that can be repaired. `now` is the time that set-aside rows get.
pub(super) fn repair(transaction: &Transaction<'_>, now: i64) -> Result<()> {
    transaction.execute_batch("REINDEX")?;
    deletion::take(transaction, &|| true)?;
    entries(transaction, now)?;
    texts(transaction)?;
    marks(transaction)?;
    recall_log::repair(transaction)?;
    ids(transaction)?;
    sessions(transaction)?;
    meta::forget_caches(transaction)?;
    vectors_of_entries(transaction)
}

/// Sets aside damaged entries and entries without a session, and corrects the fingerprints of the other entries.
fn entries(transaction: &Transaction<'_>, now: i64) -> Result<()> {
    let sessions: HashSet<i64> = column(transaction, "SELECT id FROM session", [])?;
    let (mut damaged, mut lost) = (Vec::new(), Vec::new());
    list(transaction, entry::SELECT_ALL, [], |row| {
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
        Ok(())
    })?;
    for id in damaged {
        put_aside(transaction, id, now)?;
    }
    for (id, fingerprint) in lost {
        let sql = "UPDATE entry SET fingerprint = ?2 WHERE id = ?1";
        run(transaction, sql, [id, fingerprint])?;
    }
    Ok(())
}

/// Corrects the digests of derived texts. A text is found by its digest.
fn texts(transaction: &Transaction<'_>) -> Result<()> {
    let mut lost = Vec::new();
    list(transaction, derived::SELECT_ALL, [], |row| {
        if let Some(found) = believed(derived::read(row))? {
            let digest = derived::digest(&found.text.raw);
            if row.get::<_, i64>("digest")? != digest {
                lost.push((found.id, digest));
            }
        }
        Ok(())
    })?;
    for (id, digest) in lost {
        let sql = "UPDATE derived SET digest = ?2 WHERE id = ?1";
        run(transaction, sql, [id, digest])?;
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
    match believed(meta::high_water(transaction))? {
        Some(known) if known >= highest => Ok(()),
        Some(_) => meta::put_high_water(transaction, highest),
        None => meta::put_high_water(transaction, highest.saturating_add(JUMP)),
    }
}

fn sessions(transaction: &Transaction<'_>) -> Result<()> {
    let mut compactions: HashMap<i64, Vec<Compaction>> = HashMap::new();
    list(transaction, compactions::SELECT_ALL, [], |row| {
        if let Some(found) = believed(compactions::read(row))? {
            compactions.entry(found.session).or_default().push(found);
        }
        Ok(())
    })?;
    let known = list(
        transaction,
        session::SELECT_ALL,
        [],
        |row| match believed(session::read(row))? {
            Some(found) => Ok(Some(found)),
            None => remade(transaction, row),
        },
    )?;
    for row in known.into_iter().flatten() {
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
    let brought: HashSet<i64> = column(
        transaction,
        "SELECT DISTINCT compaction FROM entry WHERE session = ?1 AND compaction IS NOT NULL",
        [row.id],
    )?;
    for compaction in brought.iter().filter(|id| !standing.contains(id)) {
        run(
            transaction,
            "DELETE FROM entry WHERE session = ?1 AND compaction = ?2",
            params![row.id, compaction],
        )?;
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

fn column(connection: &Connection, sql: &str, params: impl Params) -> Result<HashSet<i64>> {
    let values = list(connection, sql, params, |row| Ok(row.get(0)?))?;
    Ok(values.into_iter().collect())
}

// Deletes vectors with a wrong checksum. The embedder can compute them again.

/// Deletes damaged vectors, vectors without an entry or of another session than their entry, and vectors of another
/// embedder. Where the embedder's row is damaged, all vectors and the embedder are deleted.
fn vectors_of_entries(transaction: &Transaction<'_>) -> Result<()> {
    let current = believed(vectors::embedder(transaction))?.flatten();
    let Some(current) = current else {
        transaction.execute("DELETE FROM vector", [])?;
        transaction.execute("DELETE FROM embedder", [])?;
        return Ok(());
    };
    transaction.execute("DELETE FROM embedder WHERE id <> ?1", [current.id])?;
    let sql = "SELECT id, session FROM entry";
    let owners = list(transaction, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let owners: HashMap<i64, i64> = owners.into_iter().collect();
    let mut wrong = Vec::new();
    list(transaction, vectors::SELECT_ALL, [], |row| {
        let entry: i64 = row.get(0)?;
        let owner = owners.get(&entry).copied();
        let is_whole = believed(vectors::read(row))?.is_some_and(|found| {
            Some(found.session) == owner
                && found.embedder == current.id
                && vectors::is_whole(&found.numbers, current.dimension)
        });
        if !is_whole {
            wrong.push((entry, owner));
        }
        Ok(())
    })?;
    let mut sessions = HashSet::new();
    for (entry, owner) in wrong {
        run(transaction, "DELETE FROM vector WHERE entry = ?1", [entry])?;
        sessions.extend(owner);
    }
    // The revision rises, so that an index which holds a deleted vector becomes stale.
    for id in sessions {
        if let Some(Some(mut row)) = believed(session::by_key(transaction, id))? {
            row.revision += 1;
            row.epoch += 1;
            session::save(transaction, &row)?;
        }
    }
    Ok(())
}

// Entries that a repair set aside, because their checksums were wrong. Searches do not find them; figures count them.

const QUARANTINE: &str = "quarantine";

/// The ids of set-aside entries, of one session or of all.
pub(crate) fn set_aside(
    connection: &Connection,
    session: Option<&SessionId>,
) -> Result<Vec<EntryId>> {
    let key = match session {
        None => None,
        Some(session) => match session::find(connection, session)? {
            None => return Ok(Vec::new()),
            Some(row) => Some(row.id),
        },
    };
    set_aside_of_key(connection, key)
}

/// The ids of set-aside entries of the session with that key, or of all sessions.
pub(crate) fn set_aside_of_key(connection: &Connection, key: Option<i64>) -> Result<Vec<EntryId>> {
    let sql = "SELECT id FROM quarantine WHERE ?1 IS NULL OR session = ?1 ORDER BY id";
    list(connection, sql, [key], |row| Ok(EntryId(row.get(0)?)))
}

/// The numbers of set-aside entries that a connection has counted, by the key of the session.
#[derive(Default)]
struct Counted(Vec<(i64, usize)>);

/// The most sessions whose numbers a connection keeps.
const COUNTED: usize = 16;

/// The number of set-aside entries of the session with that key; counted once until the file is written.
pub(crate) fn count_set_aside(transaction: &Transaction<'_>, key: i64) -> Result<usize> {
    let count = || Ok(set_aside_of_key(transaction, Some(key))?.len());
    let Some(mut counted) = transaction.seen::<Counted>()? else {
        return count();
    };
    if let Some((_, known)) = counted.0.iter().find(|(known, _)| *known == key) {
        return Ok(*known);
    }
    let found = count()?;
    if counted.0.len() == COUNTED {
        counted.0.remove(0);
    }
    counted.0.push((key, found));
    Ok(found)
}

/// Moves a row of `entry` into quarantine: its id, its session and the bytes of its text.
fn put_aside(transaction: &Transaction<'_>, id: i64, now: i64) -> Result<()> {
    let (session, text): (i64, Vec<u8>) = transaction
        .prepare_cached(
            "SELECT session, CAST(COALESCE(text, '') AS BLOB) FROM entry WHERE id = ?1",
        )?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let checksum = Checksum::of(QUARANTINE).integer(id).integer(session);
    let checksum = checksum.bytes(&text).integer(now).finish();
    run(
        transaction,
        "INSERT OR REPLACE INTO quarantine VALUES (?1, ?2, ?3, ?4, ?5)",
        params![id, session, text, now, checksum],
    )?;
    run(transaction, "DELETE FROM entry WHERE id = ?1", [id])?;
    Ok(())
}

/// Deletes set-aside entries `ids` of the session. Gives the number of deleted entries.
pub(crate) fn forget_set_aside(
    transaction: &Transaction<'_>,
    session: i64,
    ids: &[i64],
) -> Result<i64> {
    let mut gone = 0;
    for id in ids {
        let sql = "DELETE FROM quarantine WHERE id = ?1 AND session = ?2";
        gone += i64::from(run(transaction, sql, [id, &session])? > 0);
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::transaction::{Begun, Seen};
    use crate::sqlite::{connection, schema};

    #[test]
    fn set_aside_entries_are_counted_again_after_each_write() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sqlite3");
        let mut writer = connection::writable(&path).unwrap();
        schema::create(&mut writer, &path, &[]).unwrap();
        let id = SessionId::new("a").unwrap();
        let key = session::find_or_create(&Transaction::on(&writer), &id);
        let key = key.unwrap().id;
        let (mut reader, seen) = (connection::readable(&path).unwrap(), Seen::default());
        for aside in 0..3 {
            for _ in 0..2 {
                let begun = Begun::on(&mut reader).unwrap();
                let transaction = Transaction::reading(&begun, &seen);
                assert_eq!(count_set_aside(&transaction, key).unwrap(), aside);
                assert_eq!(count_set_aside(&transaction, key + 1).unwrap(), 0);
            }
            assert_eq!(
                count_set_aside(&Transaction::on(&writer), key).unwrap(),
                aside
            );
            let add = "INSERT INTO quarantine SELECT COUNT(*) + 1, ?1, x'00', 0, 0 FROM quarantine";
            writer.execute(add, [key]).unwrap();
        }
    }
}
