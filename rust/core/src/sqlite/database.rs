//! One file, opened: a connection that writes, one that reads, and whole transactions on both.

use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::exclusive::Exclusive;
use crate::sqlite::migrate::{self, Found};
use crate::sqlite::schema::VERSION;
use crate::sqlite::wal::{self, Damage};
use crate::sqlite::writer::WriteConnection;
use crate::sqlite::{connection, meta, repair};

/// Bytes of the smallest page: no SQLite database is shorter, unless it is empty.
const SMALLEST_PAGE: u64 = 512;

/// The database of a store.
///
/// Its lock comes first in the order of locks: a writer is taken before anything in memory is locked.
pub(crate) struct Database {
    file: PathBuf,
    /// Closed before the writer: who closes last empties the write-ahead log into the file, and only a
    /// writer can.
    reader: Mutex<Connection>,
    writer: Option<Mutex<WriteConnection>>,
}

/// The right to write, held for as long as this lives.
pub(crate) struct Writer<'database>(MutexGuard<'database, WriteConnection>);

impl Database {
    /// Opens the file; a new store is made where there is none, remembering `birth`.
    ///
    /// A file that cannot be written is opened for reading.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreOpen`] and [`ErrorKind::StoreVersion`], naming the file, which is left as it was.
    pub(crate) fn open(file: &Path, read_only: bool, birth: &[(&str, &str)]) -> Result<Self> {
        let found = probe(file)?;
        if read_only && found == Some(Found::Nothing) {
            return Err(unopened(file, "there is no store to read"));
        }
        if read_only {
            if let Some(Found::Older(version)) = found {
                return Err(older(file, version));
            }
            return Self::open_for_reading(file);
        }
        match connection::writable(file) {
            Ok(writer) => Self::open_for_writing(file, writer, birth),
            Err(error) if found != Some(Found::Nothing) && is_unwritable(&error) => {
                Self::open_for_reading(file)
            }
            Err(error) => Err(refused(file, error)),
        }
    }

    fn open_for_writing(
        file: &Path,
        mut writer: Connection,
        birth: &[(&str, &str)],
    ) -> Result<Self> {
        match migrate::identify(&writer, file)? {
            Found::Store => {}
            Found::Nothing => migrate::create(&mut writer, file, birth)?,
            Found::Older(_) => {
                let _exclusive = Exclusive::wait(file, "migrate")?;
                migrate::create(&mut writer, file, birth)?;
            }
        }
        let reader = connection::readable(file).map_err(|error| refused(file, error))?;
        Ok(Self {
            file: file.to_owned(),
            reader: Mutex::new(reader),
            writer: Some(Mutex::new(WriteConnection::new(file, writer))),
        })
    }

    fn open_for_reading(file: &Path) -> Result<Self> {
        let reader = match connection::readable(file) {
            Ok(reader) => reader,
            // Where nothing can be created beside the file, SQLite cannot read a store that was closed
            // well. The file is then complete by itself; with a log beside it, it would not be.
            Err(error) if is_unwritable(&error) && !has_log(file) => {
                connection::immutable(file).map_err(|error| refused(file, error))?
            }
            Err(error) => return Err(refused(file, error)),
        };
        match migrate::identify(&reader, file)? {
            Found::Store => {}
            Found::Nothing => return Err(unopened(file, "there is no store to read")),
            Found::Older(version) => return Err(older(file, version)),
        }
        Ok(Self {
            file: file.to_owned(),
            reader: Mutex::new(reader),
            writer: None,
        })
    }

    /// Where it is.
    #[must_use]
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Whether it can only be read.
    #[must_use]
    pub(crate) fn is_read_only(&self) -> bool {
        self.writer.is_none()
    }

    /// Bytes of the file and of the log beside it.
    #[must_use]
    pub(crate) fn disk_bytes(&self) -> u64 {
        [self.file.clone(), beside(&self.file, "-wal")]
            .iter()
            .map(|file| file.metadata().map_or(0, |metadata| metadata.len()))
            .sum()
    }

    /// What was decided about `key` when the store was made.
    pub(crate) fn meta(&self, key: &'static str) -> Result<String> {
        meta::get(&self.reader.lock(), key)
    }

    /// Sees to it that `key` has that value, unless the database is only to be read.
    pub(crate) fn remember(&self, key: &'static str, value: &str) -> Result<()> {
        if self.is_read_only() || meta::find(&self.reader.lock(), key)?.as_deref() == Some(value) {
            return Ok(());
        }
        self.writer()?
            .transaction(|transaction| meta::put(transaction, key, value))
    }

    /// Runs `work` on one state of the database.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let mut reader = self.reader.lock();
        let transaction = Transaction::new(&mut reader, TransactionBehavior::Deferred)?;
        work(&transaction)
    }

    /// Waits for the right to write.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ReadOnlyStore`]
    pub(crate) fn writer(&self) -> Result<Writer<'_>> {
        let writer = self.writer.as_ref().ok_or_else(|| {
            let message = format!(
                "the store '{}' is open for reading only",
                self.file.display()
            );
            Error::new(ErrorKind::ReadOnlyStore, message)
                .with("path", self.file.to_string_lossy().into_owned())
        })?;
        Ok(Writer(writer.lock()))
    }
}

impl Writer<'_> {
    /// Runs `work` in one transaction: when this returns, all of it is on the disk, or nothing.
    ///
    /// The lock is taken at once (`IMMEDIATE`): a transaction that reads first and then wants to write
    /// is refused without waiting when another process wrote meanwhile.
    ///
    /// A process of a newer version may have brought the file up to date: then this one, which does not know
    /// what its rows must be, writes no more.
    pub(crate) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        self.0.transaction(work)
    }
}

impl Database {
    /// Keeps other processes from such work as long as the answer lives; see `exclusive.rs`.
    pub(crate) fn exclusive(&self, work: &'static str) -> Result<Exclusive> {
        Exclusive::wait(&self.file, work)
    }

    /// Writes one state of the database to the file `name`, which there is not yet.
    pub(super) fn copy_into(&self, name: &str) -> Result<()> {
        self.reader.lock().execute("VACUUM INTO ?1", [name])?;
        Ok(())
    }

    /// Makes anew what follows from the rest, and sets aside what cannot be believed.
    pub(crate) fn repair(&self, now: i64) -> Result<()> {
        self.writer()?
            .transaction(|transaction| repair::repair(transaction, now))
    }

    /// Rewrites the file without what was freed, and empties the log beside it.
    ///
    /// False where another process reads or writes: then it is still to be done.
    pub(crate) fn erase(&self) -> Result<bool> {
        let _exclusive = self.exclusive("erase what was forgotten from")?;
        let mut writer = self.writer()?;
        let _reader = self.reader.lock(); // nobody in this process reads meanwhile
        match writer.0.run(|connection, _| vacuum(connection)) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if error.kind() == ErrorKind::StoreBusy => return Ok(false),
            Err(error) => return Err(error),
        }
        writer.transaction(|transaction| meta::set(transaction, meta::ERASURE, meta::DONE))?;
        Ok(true)
    }
}

/// Whether nothing of an earlier state is left in the file or in the log.
fn vacuum(connection: &Connection) -> Result<bool> {
    connection.execute_batch("VACUUM")?;
    let busy: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    Ok(busy == 0)
}

/// Looks at an existing file without touching it or anything beside it.
///
/// None where that does not tell: a creation that was killed leaves a journal that only a writer can
/// roll back.
fn probe(file: &Path) -> Result<Option<Found>> {
    match file.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Some(Found::Nothing));
        }
        Err(error) => return Err(unopened(file, &error.to_string()).caused_by(error)),
        Ok(metadata) if metadata.is_dir() => {
            return Err(unopened(file, "it is a directory, not a file"));
        }
        // SQLite would throw the log away and begin anew.
        Ok(metadata) if metadata.len() == 0 && has_bytes(&beside(file, "-wal")) => {
            return Err(unopened(
                file,
                "it is empty, though there is a log beside it",
            ));
        }
        Ok(metadata) if metadata.len() == 0 => return Ok(Some(Found::Nothing)),
        Ok(metadata) if metadata.len() < SMALLEST_PAGE => {
            return Err(unopened(file, "it is too short to be an SQLite database"));
        }
        Ok(_) => {}
    }
    check_log(file)?;
    let connection = if has_log(file) {
        connection::readable(file)
    } else {
        connection::immutable(file)
    };
    match connection {
        Ok(connection) => {
            let found = migrate::identify(&connection, file)?;
            if !has_log(file) {
                check_end(&connection, file)?;
            }
            Ok(Some(found))
        }
        Err(error) if has_log(file) && is_unwritable(&error) => Ok(None),
        Err(error) => Err(refused(file, error)),
    }
}

/// Nothing, if the file ends where a page does. SQLite reads what is missing of its last page as zeros.
fn check_end(connection: &Connection, file: &Path) -> Result<()> {
    let read = |error| refused(file, error);
    let page: u32 = connection
        .pragma_query_value(None, "page_size", |row| row.get(0))
        .map_err(read)?;
    let length = file.metadata().map(|metadata| metadata.len());
    let length = length.map_err(|error| unopened(file, &error.to_string()).caused_by(error))?;
    if length.is_multiple_of(u64::from(page.max(1))) {
        return Ok(());
    }
    let why = format!("its end is missing: {length} bytes are no whole number of pages of {page}");
    Err(unopened(file, &why))
}

/// Nothing, if no commit would be lost that stands in the log behind a damaged part of it.
fn check_log(file: &Path) -> Result<()> {
    let log = beside(file, "-wal");
    let damage = wal::damage(&log);
    let place = match damage.map_err(|error| unopened(file, &error.to_string()).caused_by(error))? {
        None => return Ok(()),
        Some(Damage::Header) => "at its beginning".to_owned(),
        Some(Damage::Frame(number, _)) => format!("in frame {number}"),
    };
    let message = format!(
        "the log '{}' is damaged {place}, and commits stand behind it: keep a copy of it and of the file; \
         `PRAGMA wal_checkpoint(TRUNCATE)` by SQLite's own shell keeps what was committed before",
        log.display()
    );
    Err(Error::new(ErrorKind::StoreCorrupt, message)
        .with("path", log.to_string_lossy().into_owned()))
}

/// Whether the file alone is not the whole story.
fn has_log(file: &Path) -> bool {
    ["-wal", "-journal"]
        .iter()
        .any(|suffix| has_bytes(&beside(file, suffix)))
}

fn has_bytes(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.len() > 0)
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn is_unwritable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied)
    )
}

fn refused(file: &Path, error: rusqlite::Error) -> Error {
    unopened(file, &error.to_string()).caused_by(error)
}

fn older(file: &Path, version: usize) -> Error {
    let why = format!(
        "it has schema version {version}, and is brought up to {VERSION} when it is next opened for writing"
    );
    unopened(file, &why)
}

fn unopened(file: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::StoreOpen,
        format!("cannot open the store '{}': {why}", file.display()),
    )
    .with("path", file.to_string_lossy().into_owned())
}
