//! Settings of a store, the ids that it has given, and its valid cache files. Most settings say how rows are read, and
//! are fixed when the store is made.

use hashbrown::HashMap;
use rusqlite::{Connection, params};

use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::sqlite::row::{Checksum, Columns, first, list, run};
use crate::sqlite::transaction::Transaction;

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

/// Key of two times at which an expiring entry met the clock (milliseconds): one that was settled, and the last one.
const CLOCK: &str = "clock";
/// How much later the clock must be looked at again, until a time that it showed is settled: a day.
const SETTLES: i64 = 86_400_000;

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
    let sql = "SELECT key, value, checksum FROM meta WHERE key = ?1";
    first(connection, sql, [key], |row| {
        let columns = Columns::of(TABLE, row);
        let value: String = columns.get(1)?;
        columns.verify(checksum(key, &value), 2)?;
        Ok(value)
    })
}

/// Writes the value of `key`. It replaces an existing value.
pub(crate) fn put(connection: &Connection, key: &str, value: &str) -> Result<()> {
    run(
        connection,
        "INSERT OR REPLACE INTO meta (key, value, checksum) VALUES (?1, ?2, ?3)",
        params![key, value, checksum(key, value).finish()],
    )?;
    Ok(())
}

/// Changes the value of an existing `key`. A missing key stays missing.
pub(crate) fn set(connection: &Connection, key: &str, value: &str) -> Result<()> {
    run(
        connection,
        "UPDATE meta SET value = ?2, checksum = ?3 WHERE key = ?1",
        params![key, value, checksum(key, value).finish()],
    )?;
    Ok(())
}

/// Deletes `key`, if it is there.
pub(super) fn delete(connection: &Connection, key: &str) -> Result<()> {
    run(connection, "DELETE FROM meta WHERE key = ?1", [key])?;
    Ok(())
}

/// The numbers that follow `prefix` in keys. The values are not read, so no checksum matters.
pub(super) fn numbers(connection: &Connection, prefix: &str) -> Result<Vec<i64>> {
    let sql = "SELECT key FROM meta WHERE key > ?1 AND key < ?2";
    let keys = list(connection, sql, params![prefix, above(prefix)], |row| {
        Ok(row.get::<_, String>(0)?)
    })?;
    let numbers = keys.iter().filter_map(|key| key.strip_prefix(prefix));
    Ok(numbers.filter_map(|number| number.parse().ok()).collect())
}

/// Deletes every key that begins with `prefix`.
fn delete_all(connection: &Connection, prefix: &str) -> Result<()> {
    run(
        connection,
        "DELETE FROM meta WHERE key > ?1 AND key < ?2",
        params![prefix, above(prefix)],
    )?;
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

// What a clock has shown. An entry must not leave for good because the clock was wrong once.

/// The latest time that has certainly passed: one that the clock showed a day before it was looked at again, and that
/// it did not take back in between.
pub(crate) fn settled_time(connection: &Connection) -> Result<i64> {
    Ok(times(connection)?.0)
}

/// Notes that the clock shows `now`, and gives the settled time.
pub(crate) fn look_at_clock(transaction: &Transaction<'_>, now: i64) -> Result<i64> {
    let (settled, last) = times(transaction)?;
    let (settled, last) = if now < last {
        (settled.min(now), now) // the clock was set back: what it showed was wrong
    } else if now.saturating_sub(last) >= SETTLES {
        (last, now)
    } else {
        return Ok(settled);
    };
    put(transaction, CLOCK, &format!("{settled} {last}"))?;
    Ok(settled)
}

fn times(connection: &Connection) -> Result<(i64, i64)> {
    let stored = find(connection, CLOCK)?.unwrap_or_default();
    let times = stored.split_once(' ');
    let times = times.and_then(|(settled, last)| Some((settled.parse().ok()?, last.parse().ok()?)));
    Ok(times.unwrap_or((i64::MIN, i64::MIN)))
}

fn checksum(key: &str, value: &str) -> Checksum {
    Checksum::of(TABLE).text(key).text(value)
}

// Allocates the ids of entries. Each id is given once.

pub(super) const ALLOCATOR: &str = "allocator";

/// Reserves `count` consecutive ids and gives the first.
///
/// The high-water mark moves in the transaction that writes the rows. So a rollback returns the ids, and
/// no other process can take them in between.
pub(crate) fn take_ids(transaction: &Transaction<'_>, count: usize) -> Result<EntryId> {
    let first = high_water(transaction)?.max(max_id(transaction)?) + 1;
    let last = i64::try_from(count)
        .ok()
        .and_then(|count| first.checked_add(count - 1))
        .filter(|&last| last < i64::MAX)
        .ok_or_else(|| {
            let message = format!("the store has no {count} ids left after {}", first - 1);
            Error::new(ErrorKind::InvalidEntry, message)
        })?;
    run(
        transaction,
        "UPDATE allocator SET high_water = ?1, checksum = ?2 WHERE id = 0",
        params![last, allocator_checksum(last).finish()],
    )?;
    Ok(EntryId(first))
}

/// Writes the one row of a new database.
pub(super) fn create_allocator(transaction: &Transaction<'_>) -> Result<()> {
    run(
        transaction,
        "INSERT INTO allocator (id, high_water, checksum) VALUES (0, 0, ?1)",
        [allocator_checksum(0).finish()],
    )?;
    Ok(())
}

/// Sets the mark without a check. Only a repair calls this.
pub(super) fn put_high_water(transaction: &Transaction<'_>, high_water: i64) -> Result<()> {
    run(
        transaction,
        "INSERT OR REPLACE INTO allocator (id, high_water, checksum) VALUES (0, ?1, ?2)",
        [high_water, allocator_checksum(high_water).finish()],
    )?;
    Ok(())
}

/// The highest id that any entry ever had.
pub(super) fn high_water(connection: &Connection) -> Result<i64> {
    let sql = "SELECT id, high_water, checksum FROM allocator WHERE id = 0";
    let found = first(connection, sql, [], |row| {
        let columns = Columns::of(ALLOCATOR, row);
        let high_water = columns.get(1)?;
        columns.verify(allocator_checksum(high_water), 2)?;
        Ok(high_water)
    })?;
    found.ok_or_else(|| {
        let message = "the allocator has lost its row: ids might be given twice";
        Error::new(ErrorKind::StoreCorrupt, message)
    })
}

fn max_id(transaction: &Transaction<'_>) -> Result<i64> {
    let mut statement = transaction.prepare_cached("SELECT COALESCE(MAX(id), 0) FROM entry")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

fn allocator_checksum(high_water: i64) -> Checksum {
    Checksum::of(ALLOCATOR).integer(0).integer(high_water)
}

// The valid cache files: the database keeps the checksum of at most one file for each session.
//
// The row is written after the file, in a transaction that reads the state of the file. So a database
// that has the row was once in that state, and every later change shows in the row of the session. A cache file
// therefore holds an earlier state of this database, or it has another checksum. This is also true of a database
// that was restored from a copy, whatever files lie beside it.

/// The prefix of these keys in `meta`; the key of the session follows.
const CACHE: &str = "postings-";

/// The checksum of the session's file. None without a file, or where the row is damaged.
pub(crate) fn cache_of(connection: &Connection, session: i64) -> Option<u64> {
    let value = find(connection, &cache_key(session)).ok()??;
    u64::from_str_radix(&value, 16).ok()
}

/// The checksum of each session's file, by the key of the session. Damaged rows are left out.
pub(crate) fn caches(connection: &Connection) -> Result<HashMap<i64, u64>> {
    let mut found = HashMap::new();
    for session in numbers(connection, CACHE)? {
        if let Some(checksum) = cache_of(connection, session) {
            found.insert(session, checksum);
        }
    }
    Ok(found)
}

/// Makes the file of that checksum the only valid file of the session.
pub(crate) fn put_cache(connection: &Connection, session: i64, checksum: u64) -> Result<()> {
    put(connection, &cache_key(session), &format!("{checksum:016x}"))
}

/// Makes every file of the session invalid.
pub(crate) fn forget_cache(connection: &Connection, session: i64) -> Result<()> {
    delete(connection, &cache_key(session))
}

/// Makes every file invalid.
pub(crate) fn forget_caches(connection: &Connection) -> Result<()> {
    delete_all(connection, CACHE)
}

fn cache_key(session: i64) -> String {
    format!("{CACHE}{session}")
}
