//! Deletes vectors with a wrong checksum. The embedder can compute them again.

use hashbrown::{HashMap, HashSet};

use crate::error::Result;
use crate::sqlite::checksum::believed;
use crate::sqlite::transaction::Transaction;
use crate::sqlite::{session, vectors};

/// Deletes damaged vectors, vectors without an entry or of another session than their entry, and vectors of another
/// embedder. Where the embedder's row is damaged, all vectors and the embedder are deleted.
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
