//! Opens a database so that its commits survive a loss of power, and turns errors of SQLite into errors of the store.

use std::cell::Cell;
use std::error::Error as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::error::{Error, ErrorKind};

/// The time that a write waits for another process that is writing.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// KiB of pages that a connection keeps in memory.
const CACHE_KIB: i64 = 8 * 1024;

/// The number of prepared statements that a connection keeps.
const STATEMENTS: usize = 64;

/// SQLite up to 3.51.2 could reset a write-ahead log that another connection still needed.
const OLDEST_SQLITE: i32 = 3_051_003;

/// The value of `PRAGMA synchronous` that writes the log to the disk before a commit returns. Weaker settings lost
/// acknowledged commits in a third of the simulated power losses. A test with `kill -9` alone does not show this.
const SYNCHRONOUS_FULL: i64 = 2;

/// Opens the file for writing, and creates it if it does not exist.
///
/// Fails with `SQLITE_READONLY` or `SQLITE_CANTOPEN` where the file or its directory cannot be written.
pub(super) fn writable(file: &Path) -> rusqlite::Result<Connection> {
    for_writing(file, OpenFlags::SQLITE_OPEN_CREATE)
}

/// Opens the file for writing. The file must exist.
pub(super) fn existing(file: &Path) -> rusqlite::Result<Connection> {
    for_writing(file, OpenFlags::empty())
}

/// A database in memory, which only this connection can use.
pub(super) fn in_memory() -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    set_up(&mut connection)?;
    set_up_writes(&connection)?;
    Ok(connection)
}

/// Closes a connection without a checkpoint: the log stays, because the file at the path may be another store's.
pub(super) fn leave(connection: Option<Connection>) {
    if let Some(connection) = connection {
        // If this fails, the connection still closes, possibly with a checkpoint.
        let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }
}

/// The number of committed frames in the log. The connection is in no transaction that writes.
pub(super) fn frames(connection: &Connection) -> rusqlite::Result<u64> {
    Ok(copied(connection)?.0)
}

/// The number of committed frames in the log, and how many of them are in the file as well. The connection is in no
/// transaction that writes.
pub(super) fn copied(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| {
        let number = |frames: i64| u64::try_from(frames).unwrap_or(0);
        Ok((number(row.get(1)?), number(row.get(2)?)))
    })
}

/// Copies as much of the log into the file as is possible without waiting.
pub(super) fn copy_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

fn for_writing(file: &Path, more: OpenFlags) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more,
    )?;
    set_up(&mut connection)?;
    if connection.is_readonly("main")? {
        return Err(failure(ffi::SQLITE_READONLY, "the file is not writable"));
    }
    write_ahead(&connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // On macOS, fsync leaves the data in the drive's cache. These settings have no effect elsewhere.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    set_up_writes(&connection)?;
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    if synchronous != SYNCHRONOUS_FULL {
        return Err(failure(ffi::SQLITE_MISUSE, "synchronous=FULL was refused"));
    }
    Ok(connection)
}

/// Opens an existing file for reading. Other processes may write it meanwhile.
pub(super) fn readable(file: &Path) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    set_up(&mut connection)?;
    connection.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// Opens an existing file for reading, without creating a file beside it and without a lock.
///
/// It reads the file alone: neither the write-ahead log nor later writes are visible.
pub(super) fn immutable(file: &Path) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(
        uri(file, "immutable=1"),
        OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI,
    )?;
    set_up(&mut connection)?;
    Ok(connection)
}

fn set_up(connection: &mut Connection) -> rusqlite::Result<()> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        let message = format!("SQLite {} can damage the log", rusqlite::version());
        return Err(failure(ffi::SQLITE_MISUSE, &message));
    }
    be_patient(connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // A file from an unknown source must not run its own code, and must not damage itself.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // A plan does not depend on bound values. Without this, SQLite prepares a statement anew for each new value where
    // a partial index might serve. That took most of the time of indexing an entry.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

/// Lets the connection wait up to [`BUSY_TIMEOUT`] for a lock that another process holds.
///
/// SQLite's own way sleeps up to 100 ms at a time. Where some processes write all the time, one that sleeps so long
/// finds the lock taken again and again, and waits for seconds.
pub(super) fn be_patient(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait))
}

thread_local! {
    /// When this thread began to wait.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Sleeps once; false when the time is over.
fn wait(tries: i32) -> bool {
    let begun = BEGUN.try_with(|begun| {
        let known = begun.get().filter(|_| tries > 0);
        let since = known.unwrap_or_else(Instant::now);
        begun.set(Some(since));
        since
    });
    let waited = begun.map_or(BUSY_TIMEOUT, |begun| begun.elapsed());
    if waited >= BUSY_TIMEOUT {
        return false;
    }
    thread::sleep(pause(waited));
    true
}

/// How long to sleep after that time of waiting. A caller that has waited longer looks more often, and so comes first
/// as a rule. After half a second the writer is one that takes long, and it is enough to look rarely.
fn pause(waited: Duration) -> Duration {
    const PAUSES: [(Duration, Duration); 2] = [
        (Duration::from_millis(4), Duration::from_millis(1)),
        (Duration::from_millis(500), Duration::from_micros(200)),
    ];
    let found = PAUSES.iter().find(|(until, _)| waited < *until);
    found.map_or(Duration::from_millis(2), |&(_, pause)| pause)
}

fn set_up_writes(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "foreign_keys", true)?;
    // Deleted bytes are overwritten with zeros.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))
}

/// Switches a new file to write-ahead logging.
///
/// SQLite does not wait for a lock here. Without this loop, one of two processes that create a store at the same
/// time would fail.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    const PAUSE: Duration = Duration::from_millis(10);
    let mut patience = BUSY_TIMEOUT;
    loop {
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => {
                return Err(failure(
                    ffi::SQLITE_CANTOPEN,
                    "write-ahead logging was refused",
                ));
            }
            Err(error) if is_busy(&error) && !patience.is_zero() => {
                patience = patience.saturating_sub(PAUSE);
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether another process holds the lock.
fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn failure(code: std::ffi::c_int, message: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message.to_owned()))
}

/// The file's name as a URI of SQLite. Every byte that might have a meaning is escaped.
fn uri(file: &Path, query: &str) -> String {
    let mut uri = String::from("file:");
    let path = file.as_os_str().as_encoded_bytes();
    if cfg!(windows) {
        uri.push('/');
    }
    for &byte in path {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            b'\\' if cfg!(windows) => uri.push('/'),
            b':' if cfg!(windows) => uri.push(':'),
            _ => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                uri.push('%');
                uri.push(char::from(HEX[usize::from(byte >> 4)]));
                uri.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
    uri.push('?');
    uri.push_str(query);
    uri
}

// Turns errors of SQLite into errors of the store.

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let (kind, message) = meaning(&error);
        Self::new(kind, message).caused_by(error)
    }
}

/// Whether the disk failed. A full disk is not a failure of the disk.
pub(super) fn is_of_the_disk(error: &Error) -> bool {
    code(error) == Some(ErrorCode::SystemIoFailure)
}

/// Whether the disk is full.
pub(super) fn is_of_a_full_disk(error: &Error) -> bool {
    code(error) == Some(ErrorCode::DiskFull)
}

fn code(error: &Error) -> Option<ErrorCode> {
    let cause = error.source().and_then(|source| source.downcast_ref());
    cause.and_then(rusqlite::Error::sqlite_error_code)
}

fn meaning(error: &rusqlite::Error) -> (ErrorKind, String) {
    use rusqlite::Error as Sqlite;
    match error {
        Sqlite::SqliteFailure(..) => failure_of(error),
        Sqlite::FromSqlConversionFailure(..)
        | Sqlite::IntegralValueOutOfRange(..)
        | Sqlite::Utf8Error(..)
        | Sqlite::InvalidColumnType(..)
        | Sqlite::QueryReturnedNoRows => (
            ErrorKind::StoreCorrupt,
            format!("the store holds a value that its schema does not allow: {error}"),
        ),
        _ => (ErrorKind::Internal, format!("SQLite was misused: {error}")),
    }
}

fn failure_of(error: &rusqlite::Error) -> (ErrorKind, String) {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::StoreBusy,
            format!("another process held the store's lock for more than {BUSY_TIMEOUT:?}"),
        ),
        Some(ErrorCode::OutOfMemory) => (ErrorKind::OutOfMemory, error.to_string()),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => (
            ErrorKind::ReadOnlyStore,
            format!("the store cannot be written: {error}"),
        ),
        // The file is shorter than its pages say.
        Some(ErrorCode::SystemIoFailure) if is_short(error) => (
            ErrorKind::StoreCorrupt,
            format!("the store's file is damaged: its end is missing ({error})"),
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
            ErrorKind::StoreCorrupt,
            format!("the store's file is damaged: {error}"),
        ),
        // A row exists where a counter says that there is none.
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => (
            ErrorKind::StoreCorrupt,
            format!("the store's rows contradict each other: {error}"),
        ),
        Some(ErrorCode::TooBig) => (
            ErrorKind::InvalidEntry,
            format!("a value is too large for SQLite: {error}"),
        ),
        Some(ErrorCode::ApiMisuse | ErrorCode::ParameterOutOfRange | ErrorCode::Unknown) => {
            (ErrorKind::Internal, format!("SQLite was misused: {error}"))
        }
        _ => (
            ErrorKind::StoreIo,
            format!("the store could not be read or written: {error}"),
        ),
    }
}

fn is_short(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(ffi::SQLITE_IOERR_SHORT_READ)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::StatementStatus;

    #[test]
    #[cfg(unix)]
    fn a_path_with_a_question_mark_is_not_a_query() {
        let uri = uri(Path::new("/tmp/a?b=c#d%20/ü"), "immutable=1");
        assert_eq!(uri, "file:/tmp/a%3Fb%3Dc%23d%2520/%C3%BC?immutable=1");
    }

    #[test]
    fn who_waits_gives_up_in_the_end_and_begins_anew_the_next_time() {
        BEGUN.set(Instant::now().checked_sub(BUSY_TIMEOUT));
        assert!(!wait(1));
        assert!(wait(0) && wait(1));
        let pauses = [0, 5, 499, 500, 4_999].map(|waited| pause(Duration::from_millis(waited)));
        assert_eq!(
            pauses.map(|pause| pause.as_micros()),
            [1_000, 200, 200, 2_000, 2_000]
        );
    }

    #[test]
    fn a_connection_waits_for_another_one_that_writes() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sqlite3");
        let (one, other) = (writable(&file).unwrap(), writable(&file).unwrap());
        one.execute_batch("BEGIN IMMEDIATE").unwrap();
        let waiting = thread::spawn(move || other.execute_batch("BEGIN IMMEDIATE; COMMIT"));
        thread::sleep(Duration::from_millis(20));
        one.execute_batch("COMMIT").unwrap();
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn a_writable_connection_is_durable_and_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let connection = writable(&directory.path().join("a.sqlite3")).unwrap();
        let pragma = |name: &str| -> String {
            connection
                .pragma_query_value(None, name, |row| {
                    row.get_ref(0).map(|value| format!("{value:?}"))
                })
                .unwrap()
        };
        assert_eq!(pragma("synchronous"), "Integer(2)");
        assert_eq!(pragma("foreign_keys"), "Integer(1)");
        let mode: String = connection
            .pragma_query_value(None, "journal_mode", |row| row.get(0))
            .unwrap();
        assert_eq!(mode, "wal");
    }

    #[test]
    fn a_statement_is_prepared_once_whatever_is_bound_to_it() {
        let connection = in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE a (id INTEGER PRIMARY KEY, b INTEGER, c INTEGER, d INTEGER);
                 CREATE INDEX a_c ON a (b, c);
                 CREATE INDEX a_d ON a (b, d) WHERE d IS NOT NULL;",
            )
            .unwrap();
        let prepared_again = || {
            let sql = "SELECT id, d FROM a WHERE b = ?1 AND c = ?2 ORDER BY id";
            let mut statement = connection.prepare(sql).unwrap();
            for value in 0..10 {
                assert!(!statement.exists([value, value]).unwrap());
            }
            statement.get_status(StatementStatus::RePrepare)
        };
        assert_eq!(prepared_again(), 0);
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, false)
            .unwrap();
        assert!(prepared_again() > 0, "SQLite does without the setting now");
    }
}
