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
