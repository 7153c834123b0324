//! Deletes vectors with a wrong checksum: an embedder makes them again.

use hashbrown::{HashMap, HashSet};
use rusqlite::Transaction;

use crate::error::Result;
use crate::sqlite::checksum::believed;
use crate::sqlite::{session, vectors};

/// Deletes damaged vectors, those of no entry or of another session than their entry, and those that are not of
/// the embedder of the store. Where the row of the embedder is damaged, the store has none afterwards.
pub(super) fn repair(transaction: &Transaction<'_>) -> Result<()> {
    let current = believed(vectors::embedder(transaction))?.flatten();
    let Some(current) = current else {
        transaction.execute("DELETE FROM vector", [])?;
        transaction.execute("DELETE FROM embedder", [])?;
        return Ok(());
    };
    transaction.execute("DELETE FROM embedder WHERE id <> ?1", [current.id])?;
    let mut owners: HashMap<i64, i64> = HashMap::new();
    {
        let mut statement = transaction.prepare("SELECT id, session FROM entry")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            owners.insert(row.get(0)?, row.get(1)?);
        }
    }
    let mut wrong = Vec::new();
    {
        let mut statement = transaction.prepare(vectors::SELECT_ALL)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
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
        }
    }
    let mut sessions = HashSet::new();
    let mut statement = transaction.prepare_cached("DELETE FROM vector WHERE entry = ?1")?;
    for (entry, owner) in wrong {
        statement.execute([entry])?;
        sessions.extend(owner);
    }
    // An index that holds one of them may be of the revision that its successor gets.
    for id in sessions {
        if let Some(Some(mut row)) = believed(session::by_key(transaction, id))? {
            row.revision += 1;
            row.epoch += 1;
            session::save(transaction, &row)?;
        }
    }
    Ok(())
}
