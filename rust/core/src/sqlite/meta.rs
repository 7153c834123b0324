//! How are the rows to be read? What was decided when the store was made.

use rusqlite::{Connection, params};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::checksum::Checksum;
use crate::sqlite::row::Columns;

const TABLE: &str = "meta";

/// Key of the rule that gives a word its bucket.
pub(crate) const HASH_RULE: &str = "hash_rule";
/// Key of the analyser that cuts a text into words.
pub(crate) const TOKENIZER: &str = "tokenizer";

/// The value of `key`.
pub(crate) fn get(connection: &Connection, key: &'static str) -> Result<String> {
    let mut statement =
        connection.prepare_cached("SELECT key, value, checksum FROM meta WHERE key = ?1")?;
    let mut rows = statement.query([key])?;
    let Some(row) = rows.next()? else {
        let message = format!("meta has lost its row {key:?}");
        return Err(Error::new(ErrorKind::StoreCorrupt, message));
    };
    let columns = Columns::of(TABLE, row);
    let value = columns.text(1)?;
    columns.verify(checksum(key, &value), 2)?;
    Ok(value)
}

/// Writes a row of a new database.
pub(super) fn create(connection: &Connection, key: &str, value: &str) -> Result<()> {
    connection
        .prepare_cached("INSERT INTO meta (key, value, checksum) VALUES (?1, ?2, ?3)")?
        .execute(params![key, value, checksum(key, value).finish()])?;
    Ok(())
}

fn checksum(key: &str, value: &str) -> Checksum {
    Checksum::of(TABLE).text(key).text(value)
}
