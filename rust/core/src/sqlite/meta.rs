//! Settings of a store, most of them fixed when it is made: they say how its rows are read.

use rusqlite::{Connection, params};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::checksum::Checksum;
use crate::sqlite::row::Columns;

const TABLE: &str = "meta";

/// Key of the rule that gives a word its bucket.
pub(crate) const HASH_RULE: &str = "hash_rule";
/// Key of the analyser that cuts a text into words.
pub(crate) const TOKENIZER: &str = "tokenizer";
/// Key of the analyser that makes terms of texts; stores of the first version lack it.
pub(crate) const ANALYSER: &str = "analyser";

/// Key of the languages that texts are read in; stores lack it where nobody said.
pub(crate) const LANGUAGES: &str = "languages";

/// Key of what digests of forgotten messages are made with: 128 random bits, as text.
pub(crate) const SALT: &str = "salt";
/// Key of what tells this store from every other, its copies included: 128 random bits, as text.
pub(crate) const LINEAGE: &str = "lineage";

/// Key of whether freed bytes are still to be overwritten: [`DUE`] or [`DONE`].
pub(crate) const ERASURE: &str = "erasure";
/// Something was forgotten, and its bytes may still be in the files.
pub(crate) const DUE: &str = "due";
/// Whatever was forgotten is gone from the files.
pub(crate) const DONE: &str = "done";

/// Key of what changes whenever a fact does: 128 random bits, as text. Stores without facts lack it.
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

/// Writes the value of `key`, over another one if need be.
pub(crate) fn put(connection: &Connection, key: &str, value: &str) -> Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta (key, value, checksum) VALUES (?1, ?2, ?3)")?
        .execute(params![key, value, checksum(key, value).finish()])?;
    Ok(())
}

/// Changes the value of `key`.
pub(crate) fn set(connection: &Connection, key: &str, value: &str) -> Result<()> {
    connection
        .prepare_cached("UPDATE meta SET value = ?2, checksum = ?3 WHERE key = ?1")?
        .execute(params![key, value, checksum(key, value).finish()])?;
    Ok(())
}

/// Gives `key` a value that it never had.
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
