//! Salted digests of forgotten messages. They recognise a forgotten message that is sent again.
//!
//! The caller computes the digests, and decides which messages count as the same. The salt is the store's (`meta.rs`),
//! or that of the session, which a row of it has where the session came from another store. So digests of two stores
//! cannot be compared. The digest of a forgotten summary is stored with the negative id of the
//! summary as its sequence number, because a host may send a summary back as a message.

use rusqlite::{Connection, Row, params};

use crate::error::Result;
use crate::sqlite::row::{Checksum, Columns, first, list};
use crate::sqlite::transaction::Transaction;

pub(super) const TABLE: &str = "forgotten";

/// The sequence number of the row that holds the session's own salt.
const SALT: i64 = i64::MIN;

/// Selects every row, for a check or a repair.
pub(super) const SELECT_ALL: &str =
    "SELECT session, seq, digest, checksum FROM forgotten ORDER BY session, seq, digest";

/// Stores digests of messages of the session, each with the message's sequence number. Gives the number of those that
/// the session did not have.
pub(crate) fn add(
    transaction: &Transaction<'_>,
    session: i64,
    digests: &[(i64, Vec<u8>)],
) -> Result<usize> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO forgotten (session, seq, digest, checksum) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET checksum = excluded.checksum WHERE checksum <> excluded.checksum",
    )?;
    let mut added = 0;
    for (seq, digest) in digests {
        let checksum = checksum(session, *seq, digest).finish();
        added += statement.execute(params![session, seq, digest, checksum])?;
    }
    Ok(added)
}

/// The session's own salt. Only a session that was copied from another store has one; None means the store's salt.
pub(crate) fn own_salt(connection: &Connection, session: i64) -> Result<Option<String>> {
    let sql =
        "SELECT session, seq, digest, checksum FROM forgotten WHERE session = ?1 AND seq = ?2";
    let found = first(connection, sql, [session, SALT], read)?;
    Ok(found.map(|(_, salt)| String::from_utf8_lossy(&salt).into_owned()))
}

/// Gives the session a salt of its own.
pub(crate) fn set_salt(transaction: &Transaction<'_>, session: i64, salt: &str) -> Result<()> {
    add(transaction, session, &[(SALT, salt.into())]).map(|_| ())
}

/// All digests of the session, ordered by sequence number.
pub(crate) fn of_session(connection: &Connection, session: i64) -> Result<Vec<(i64, Vec<u8>)>> {
    let sql =
        "SELECT session, seq, digest, checksum FROM forgotten WHERE session = ?1 AND seq <> ?2
         ORDER BY seq, digest";
    list(connection, sql, [session, SALT], read)
}

pub(super) fn read(row: &Row<'_>) -> Result<(i64, Vec<u8>)> {
    let columns = Columns::of(TABLE, row);
    let (session, seq) = (columns.get(0)?, columns.get(1)?);
    let digest = columns.bytes(2)?;
    columns.verify(checksum(session, seq, digest), 3)?;
    Ok((seq, digest.to_vec()))
}

fn checksum(session: i64, seq: i64, digest: &[u8]) -> Checksum {
    Checksum::of(TABLE)
        .integer(session)
        .integer(seq)
        .bytes(digest)
}
