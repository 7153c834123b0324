//! Entries that a repair set aside, because their checksums were wrong. Searches do not find them; figures count them.

use rusqlite::{Connection, params};

use crate::error::Result;
use crate::id::{EntryId, SessionId};
use crate::sqlite::checksum::Checksum;
use crate::sqlite::session;
use crate::sqlite::transaction::Transaction;

const TABLE: &str = "quarantine";

/// The ids of set-aside entries, of one session or of all.
pub(crate) fn of(connection: &Connection, session: Option<&SessionId>) -> Result<Vec<EntryId>> {
    let key = match session {
        None => None,
        Some(session) => match session::find(connection, session)? {
            None => return Ok(Vec::new()),
            Some(row) => Some(row.id),
        },
    };
    of_key(connection, key)
}

/// The ids of set-aside entries of the session with that key, or of all sessions.
pub(crate) fn of_key(connection: &Connection, key: Option<i64>) -> Result<Vec<EntryId>> {
    let mut statement = connection
        .prepare_cached("SELECT id FROM quarantine WHERE ?1 IS NULL OR session = ?1 ORDER BY id")?;
    let ids = statement.query_map([key], |row| row.get(0).map(EntryId))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// The numbers of set-aside entries that a connection has counted, by the key of the session.
#[derive(Default)]
struct Counted(Vec<(i64, usize)>);

/// The most sessions whose numbers a connection keeps.
const COUNTED: usize = 16;

/// The number of set-aside entries of the session with that key; counted once until the file is written.
pub(crate) fn count(transaction: &Transaction<'_>, key: i64) -> Result<usize> {
    let count = || Ok(of_key(transaction, Some(key))?.len());
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
pub(super) fn take(transaction: &Transaction<'_>, id: i64, now: i64) -> Result<()> {
    let (session, text): (i64, Vec<u8>) = transaction
        .prepare_cached("SELECT session, CAST(text AS BLOB) FROM entry WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let checksum = Checksum::of(TABLE).integer(id).integer(session);
    let checksum = checksum.bytes(&text).integer(now).finish();
    transaction
        .prepare_cached("INSERT OR REPLACE INTO quarantine VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![id, session, text, now, checksum])?;
    transaction
        .prepare_cached("DELETE FROM entry WHERE id = ?1")?
        .execute([id])?;
    Ok(())
}

/// Deletes set-aside entries `ids` of the session. Gives the number of deleted entries.
pub(crate) fn forget(transaction: &Transaction<'_>, session: i64, ids: &[i64]) -> Result<i64> {
    let mut statement =
        transaction.prepare_cached("DELETE FROM quarantine WHERE id = ?1 AND session = ?2")?;
    let mut gone = 0;
    for id in ids {
        gone += i64::from(statement.execute([id, &session])? > 0);
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::seen::Seen;
    use crate::sqlite::transaction::Begun;
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
                assert_eq!(count(&transaction, key).unwrap(), aside);
                assert_eq!(count(&transaction, key + 1).unwrap(), 0);
            }
            assert_eq!(count(&Transaction::on(&writer), key).unwrap(), aside);
            let add = "INSERT INTO quarantine SELECT COUNT(*) + 1, ?1, x'00', 0, 0 FROM quarantine";
            writer.execute(add, [key]).unwrap();
        }
    }
}
