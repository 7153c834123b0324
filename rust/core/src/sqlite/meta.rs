//! Settings of a store. Most of them say how its rows are read, and are fixed when the store is made.

use rusqlite::{Connection, params};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::checksum::Checksum;
use crate::sqlite::row::Columns;

const TABLE: &str = "meta";

/// Key of the hash rule: how the hashed embedding assigns words to buckets.
pub(crate) const HASH_RULE: &str = "hash_rule";
/// Key of the tokenizer, which splits texts into words.
pub(crate) const TOKENIZER: &str = "tokenizer";
/// Key of the languages in which texts are read. A store lacks it until a caller has chosen languages.
pub(crate) const LANGUAGES: &str = "languages";

/// Key of the salt for digests of forgotten messages: 128 random bits, as text.
pub(crate) const SALT: &str = "salt";
/// Key of the store's mark, which no other store has, not even a backup of it: 128 random bits, as text.
pub(crate) const LINEAGE: &str = "lineage";

/// Key of the state of erasure: [`DUE`] or [`DONE`].
pub(crate) const ERASURE: &str = "erasure";
/// Forgotten bytes may still be in the files.
pub(crate) const DUE: &str = "due";
/// All forgotten bytes are gone from the files.
pub(crate) const DONE: &str = "done";

/// Key of a value that changes with every change of a fact: 128 random bits, as text. Stores without facts lack it.
pub(crate) const FACTS: &str = "facts";

/// The value of `key`.
pub(crate) fn get(connection: &Connection, key: &'static str) -> Result<String> {
    find(connection, key)?.ok_or_else(|| {
        let message = format!("meta has lost its row {key:?}");
        Error::new(ErrorKind::StoreCorrupt, message)
    })
}

/// The value of `key`, if it has one.
pub(crate) fn find(connection: &Connection, key: &str) -> Result<Option<String>> {
    let mut statement =
        connection.prepare_cached("SELECT key, value, checksum FROM meta WHERE key = ?1")?;
    let mut rows = statement.query([key])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let columns = Columns::of(TABLE, row);
    let value = columns.text(1)?;
    columns.verify(checksum(key, &value), 2)?;
    Ok(Some(value))
}

/// Writes the value of `key`. It replaces an existing value.
pub(crate) fn put(connection: &Connection, key: &str, value: &str) -> Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta (key, value, checksum) VALUES (?1, ?2, ?3)")?
        .execute(params![key, value, checksum(key, value).finish()])?;
    Ok(())
}

/// Changes the value of an existing `key`. A missing key stays missing.
pub(crate) fn set(connection: &Connection, key: &str, value: &str) -> Result<()> {
    connection
        .prepare_cached("UPDATE meta SET value = ?2, checksum = ?3 WHERE key = ?1")?
        .execute(params![key, value, checksum(key, value).finish()])?;
    Ok(())
}

/// Deletes `key`, if it is there.
pub(super) fn delete(connection: &Connection, key: &str) -> Result<()> {
    connection
        .prepare_cached("DELETE FROM meta WHERE key = ?1")?
        .execute([key])?;
    Ok(())
}

/// The numbers that follow `prefix` in keys. The values are not read, so no checksum matters.
pub(super) fn numbers(connection: &Connection, prefix: &str) -> Result<Vec<i64>> {
    let mut statement =
        connection.prepare_cached("SELECT key FROM meta WHERE key > ?1 AND key < ?2")?;
    let keys = statement.query_map(params![prefix, above(prefix)], |row| {
        row.get::<_, String>(0)
    })?;
    let mut found = Vec::new();
    for key in keys {
        found.extend(
            key?.strip_prefix(prefix)
                .and_then(|key| key.parse::<i64>().ok()),
        );
    }
    Ok(found)
}

/// Deletes every key that begins with `prefix`.
pub(super) fn delete_all(connection: &Connection, prefix: &str) -> Result<()> {
    connection
        .prepare_cached("DELETE FROM meta WHERE key > ?1 AND key < ?2")?
        .execute(params![prefix, above(prefix)])?;
    Ok(())
}

/// A key above all keys that begin with `prefix` and go on with a number.
fn above(prefix: &str) -> String {
    format!("{prefix}\u{7f}")
}

/// Gives `key` a new random value.
pub(super) fn renew(connection: &Connection, key: &str) -> Result<()> {
    put(connection, key, &random(connection)?)
}

/// 128 random bits, as text.
pub(super) fn random(connection: &Connection) -> Result<String> {
    let mut statement = connection.prepare_cached("SELECT lower(hex(randomblob(16)))")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

fn checksum(key: &str, value: &str) -> Checksum {
    Checksum::of(TABLE).text(key).text(value)
}
