//! Recognises the version of a file, makes a new store, and migrates an older one.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};
use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::schema::{APPLICATION_ID, BEFORE_RESHAPE, RESHAPED, SHAPE, STEPS, VERSION};
use crate::sqlite::transaction::Transaction;
use crate::sqlite::{allocator, meta, reshape};

/// The kind of a file. A file of any other kind is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An empty database: new, or left behind when its creation was killed.
    Nothing,
    /// A store of this version.
    Store,
    /// A store of an earlier version, which is the number of its steps.
    Older(usize),
}

/// Finds the kind of the database. It only reads.
///
/// # Errors
///
/// [`ErrorKind::StoreOpen`] where it is no SQLite database, or no store; [`ErrorKind::StoreVersion`] where a
/// newer version wrote it.
pub(super) fn identify(connection: &Connection, file: &Path) -> Result<Found> {
    let read =
        |error| not_a_store(file, "it cannot be read as an SQLite database").caused_by(error);
    // One transaction for all reads, because another process may be creating the store.
    let begun = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction());
    let _moment = begun.transpose().map_err(read)?;
    let application: i64 = pragma(connection, "application_id").map_err(read)?;
    let version = pragma(connection, "user_version").map_err(read)?;
    let shape = shape(connection).map_err(read)?;
    if application == 0 && version == 0 && shape.is_empty() {
        return Ok(Found::Nothing);
    }
    if application != APPLICATION_ID {
        return Err(not_a_store(file, "it is a database of another application"));
    }
    if version > VERSION {
        let message = format!(
            "the store '{}' has schema version {version}, and this siltstone knows versions up to \
             {VERSION}: it was left untouched; open it with a newer siltstone",
            file.display()
        );
        return Err(newer(message, file, version));
    }
    let steps = usize::try_from(version).unwrap_or_default();
    let is_current = version == VERSION && digest(&shape) == SHAPE;
    if !is_current && (steps == 0 || shape != expected_shape(steps)?) {
        return Err(not_a_store(file, "its tables are not those of any version"));
    }
    Ok(match version {
        VERSION => Found::Store,
        _ => Found::Older(steps),
    })
}

/// Checks that the file still has this version.
///
/// # Errors
///
/// [`ErrorKind::StoreVersion`] where another process has migrated it to a newer version.
pub(super) fn check_version(connection: &Connection, file: &Path) -> Result<()> {
    let mut statement = connection.prepare_cached("PRAGMA user_version")?;
    let version: i64 = statement.query_row([], |row| row.get(0))?;
    if version == VERSION {
        return Ok(());
    }
    let message = format!(
        "the store '{}' was brought to schema version {version} by another process meanwhile, and this \
         siltstone writes version {VERSION}: nothing was written; open it with a newer siltstone",
        file.display()
    );
    Err(newer(message, file, version))
}

/// Makes a store in an empty database, or migrates a store of an earlier version. A store of this version stays as
/// it is. All of it is one transaction, so an interruption leaves the file in its old version.
///
/// `birth` are the settings of a new store, which say how its rows are read.
pub(super) fn create(
    connection: &mut Connection,
    file: &Path,
    birth: &[(&str, &str)],
) -> Result<()> {
    // Tables are created again under their names, and other tables must keep referring to these names.
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "legacy_alter_table", true)?;
    let outcome = bring_up_to_date(connection, file, birth);
    connection.pragma_update(None, "legacy_alter_table", false)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    outcome
}

fn bring_up_to_date(
    connection: &mut Connection,
    file: &Path,
    birth: &[(&str, &str)],
) -> Result<()> {
    // Another process may do the same. The second one to get the lock finds a finished store.
    let begun = rusqlite::Transaction::new(connection, TransactionBehavior::Immediate)?;
    let transaction = Transaction::on(&begun);
    let done = match identify(&transaction, file)? {
        Found::Store => return Ok(()),
        Found::Older(steps) => steps,
        Found::Nothing => 0,
    };
    if done == 0 {
        make(&transaction, STEPS.len())?;
        allocator::create(&transaction)?;
        for (key, value) in birth {
            meta::put(&transaction, key, value)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    } else {
        if done <= BEFORE_RESHAPE {
            for step in &STEPS[done..BEFORE_RESHAPE] {
                transaction.execute_batch(step)?;
            }
            reshape::set_aside(&transaction)?;
            transaction.execute_batch(STEPS[BEFORE_RESHAPE])?;
            reshape::move_rows(&transaction)?;
        }
        for step in &STEPS[done.max(BEFORE_RESHAPE + 1)..] {
            transaction.execute_batch(step)?;
        }
    }
    if done <= BEFORE_RESHAPE {
        // Stores of a later version have both. Their salt must stay, because digests of forgotten messages use it.
        meta::put(&transaction, meta::SALT, &meta::random(&transaction)?)?;
        meta::put(&transaction, meta::LINEAGE, &meta::random(&transaction)?)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    Ok(begun.commit()?)
}

/// Runs the first `steps` steps on an empty database.
fn make(connection: &Connection, steps: usize) -> rusqlite::Result<()> {
    for (number, step) in STEPS[..steps].iter().enumerate() {
        if number == BEFORE_RESHAPE {
            for table in RESHAPED {
                connection.execute_batch(&format!("DROP TABLE {table}"))?;
            }
        }
        connection.execute_batch(step)?;
    }
    Ok(())
}

/// The names and definitions of all tables and indexes. SQLite keeps the text of each definition.
fn shape(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare(
        "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// A number by which one schema is told from another.
fn digest(shape: &[(String, String)]) -> u128 {
    let mut hasher = Xxh3::new();
    for text in shape.iter().flat_map(|(name, sql)| [name, sql]) {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.digest128()
}

/// The schema after the first `steps` steps.
fn expected_shape(steps: usize) -> Result<Vec<(String, String)>> {
    let scratch = Connection::open_in_memory()?;
    scratch.pragma_update(None, "foreign_keys", false)?;
    make(&scratch, steps)?;
    Ok(shape(&scratch)?)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

fn newer(message: String, file: &Path, version: i64) -> Error {
    Error::new(ErrorKind::StoreVersion, message)
        .with("path", file.to_string_lossy().into_owned())
        .with("version", version)
        .with("supported", VERSION)
}

fn not_a_store(file: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::StoreOpen,
        format!("'{}' is not a siltstone store: {why}", file.display()),
    )
    .with("path", file.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_memory(sql: &str) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(sql).unwrap();
        connection
    }

    #[test]
    fn a_created_store_is_recognised() {
        let mut connection = in_memory("");
        let file = Path::new("a.sqlite3");
        assert_eq!(identify(&connection, file).unwrap(), Found::Nothing);
        create(&mut connection, file, &[(meta::HASH_RULE, "xxh3")]).unwrap();
        assert_eq!(identify(&connection, file).unwrap(), Found::Store);
        assert_eq!(meta::get(&connection, meta::HASH_RULE).unwrap(), "xxh3");
        create(&mut connection, file, &[]).unwrap();
    }

    #[test]
    fn the_digest_is_that_of_the_schema() {
        let shape = expected_shape(STEPS.len()).unwrap();
        assert_eq!(digest(&shape), SHAPE, "put {:#034x}", digest(&shape));
        let mut other = shape.clone();
        other[0].1.push(' ');
        assert_ne!(digest(&other), SHAPE);
        other = shape;
        other.pop();
        assert_ne!(digest(&other), SHAPE);
    }

    #[test]
    fn a_table_more_in_a_store_of_this_version_is_refused() {
        let mut connection = in_memory("");
        let file = Path::new("a.sqlite3");
        create(&mut connection, file, &[]).unwrap();
        connection
            .execute_batch("CREATE TABLE more (text)")
            .unwrap();
        let refused = identify(&connection, file).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StoreOpen);
    }

    #[test]
    fn a_store_that_another_makes_meanwhile_is_nothing_or_a_store() {
        for _ in 0..40 {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("a.sqlite3");
            let looking = Connection::open(&file).unwrap();
            looking.execute_batch("PRAGMA journal_mode = WAL").unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut making = Connection::open(&file).unwrap();
                    create(&mut making, &file, &[]).unwrap();
                });
                while identify(&looking, &file).unwrap() == Found::Nothing {}
            });
        }
    }

    #[test]
    fn a_store_of_every_earlier_version_is_recognised_and_brought_up_to_date() {
        let file = Path::new("a.sqlite3");
        for steps in 1..STEPS.len() {
            let mut connection = in_memory("");
            let older = rusqlite::Transaction::new(&mut connection, TransactionBehavior::Immediate)
                .unwrap();
            make(&older, steps).unwrap();
            older
                .pragma_update(None, "application_id", APPLICATION_ID)
                .unwrap();
            older
                .pragma_update(None, "user_version", i64::try_from(steps).unwrap())
                .unwrap();
            older.commit().unwrap();
            assert_eq!(identify(&connection, file).unwrap(), Found::Older(steps));
            create(&mut connection, file, &[]).unwrap();
            assert_eq!(identify(&connection, file).unwrap(), Found::Store);
        }
    }

    #[test]
    fn what_is_not_ours_is_refused_by_name() {
        for sql in [
            "CREATE TABLE note (text)",
            "PRAGMA user_version = 1",
            "PRAGMA application_id = 7; CREATE TABLE entry (id)",
            "PRAGMA application_id = 1937010277; PRAGMA user_version = 1; CREATE TABLE entry (id)",
            "PRAGMA application_id = 1937010277; PRAGMA user_version = 0; CREATE TABLE entry (id)",
        ] {
            let error = identify(&in_memory(sql), Path::new("a.sqlite3")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StoreOpen, "{sql}: {error}");
            assert!(error.to_string().contains("a.sqlite3"), "{error}");
        }
    }

    #[test]
    fn a_newer_version_is_refused_with_both_numbers() {
        let newer = in_memory("PRAGMA application_id = 1937010277; PRAGMA user_version = 9");
        let error = identify(&newer, Path::new("a.sqlite3")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreVersion);
        assert!(error.to_string().contains("version 9"), "{error}");
    }
}
