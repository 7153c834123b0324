//! Looks at a file before it is opened, and refuses what is no store, or a damaged one.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::connection;
use crate::sqlite::file_identity::{self, Content};
use crate::sqlite::row::believed;
use crate::sqlite::schema::{self, Found};
use crate::sqlite::wal::{self, Damage, State};
use crate::whole_file::beside;

/// Bytes of the smallest SQLite page. A shorter file is empty, or no SQLite database.
const SMALLEST_PAGE: u64 = 512;

/// What is known of an existing file before it is opened.
#[derive(Default)]
pub(super) struct Probe {
    /// Its kind. None if only a writer can find it out: a process that is killed while it creates a store leaves
    /// a journal, and only a writer can roll it back.
    pub(super) found: Option<Found>,
    /// The content of a store without a log.
    pub(super) content: Option<Content>,
    /// Whether an unfinished transaction stands behind the last commit of the log.
    pub(super) is_unfinished: bool,
}

impl Probe {
    fn of(found: Found) -> Self {
        Self {
            found: Some(found),
            ..Self::default()
        }
    }
}

/// Looks at an existing file, without changing it or any file beside it.
pub(super) fn probe(file: &Path) -> Result<Probe> {
    match file.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Probe::of(Found::Nothing));
        }
        Err(error) => return Err(unopened(file, &error.to_string()).caused_by(error)),
        Ok(metadata) if metadata.is_dir() => {
            return Err(unopened(file, "it is a directory, not a file"));
        }
        // SQLite would delete the log and begin an empty database.
        Ok(metadata) if metadata.len() == 0 && has_bytes(&beside(file, "-wal")) => {
            return Err(unopened(
                file,
                "it is empty, though there is a log beside it",
            ));
        }
        Ok(metadata) if metadata.len() == 0 => return Ok(Probe::of(Found::Nothing)),
        Ok(metadata) if metadata.len() < SMALLEST_PAGE => {
            return Err(unopened(file, "it is too short to be an SQLite database"));
        }
        Ok(_) => {}
    }
    let is_unfinished = check_log(file)?;
    let connection = if has_log(file) {
        connection::readable(file)
    } else {
        connection::immutable(file)
    };
    match connection {
        Ok(connection) => {
            let found = schema::identify(&connection, file)?;
            if has_log(file) {
                return Ok(Probe {
                    is_unfinished,
                    ..Probe::of(found)
                });
            }
            check_end(&connection, file)?;
            let content = match found {
                Found::Store => believed(file_identity::content(&connection))?.flatten(),
                Found::Nothing => None,
            };
            Ok(Probe {
                content,
                ..Probe::of(found)
            })
        }
        Err(error) if has_log(file) && is_unwritable(&error) => Ok(Probe {
            is_unfinished,
            ..Probe::default()
        }),
        Err(error) => Err(refused(file, error)),
    }
}

/// Refuses a file that ends inside a page: SQLite would read the missing rest of the page as zeros.
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

/// Refuses a log with commits behind a damaged part, because SQLite would drop these commits. True if an unfinished
/// transaction stands behind the last commit.
fn check_log(file: &Path) -> Result<bool> {
    let log = beside(file, "-wal");
    let state = wal::state(&log);
    let place = match state.map_err(|error| unopened(file, &error.to_string()).caused_by(error))? {
        State::Whole => return Ok(false),
        State::Unfinished => return Ok(true),
        State::Damaged(Damage::Header) => "at its beginning".to_owned(),
        State::Damaged(Damage::Frame(number, _)) => format!("in frame {number}"),
    };
    let message = format!(
        "the log '{}' is damaged {place}, and commits stand behind it: keep a copy of it and of the file; \
         `PRAGMA wal_checkpoint(TRUNCATE)` by SQLite's own shell keeps what was committed before",
        log.display()
    );
    Err(Error::new(ErrorKind::StoreCorrupt, message)
        .with("path", log.to_string_lossy().into_owned()))
}

/// Cuts off what an unfinished transaction left behind the end of the log, before anything is written over it. Where
/// another process is writing, the frames are its own.
pub(super) fn cut_log(file: &Path, writer: &mut Connection) -> Result<()> {
    writer.busy_timeout(Duration::ZERO)?;
    let cut = Transaction::new(writer, TransactionBehavior::Immediate)
        .map_err(Error::from)
        // Another process may have been writing, and is done now.
        .and_then(|transaction| {
            if check_log(file)? {
                wal::cut_tail(&transaction, file)
            } else {
                Ok(())
            }
        });
    connection::be_patient(writer)?;
    match cut {
        Err(error) if error.kind() == ErrorKind::StoreBusy => Ok(()),
        cut => cut,
    }
}

/// Syncs the commits of the log, if there is one. A process may have died before it did so.
pub(super) fn sync_log(file: &Path, writer: &mut Connection) -> Result<()> {
    if !has_bytes(&beside(file, "-wal")) {
        return Ok(());
    }
    let transaction = Transaction::new(writer, TransactionBehavior::Deferred)?;
    schema::identify(&transaction, file)?; // SQLite opens the log with the first read
    wal::sync_tail(&transaction)
}

/// Whether a log or a journal beside the file is not empty, and so may hold a part of the data.
pub(super) fn has_log(file: &Path) -> bool {
    ["-wal", "-journal"]
        .iter()
        .any(|suffix| has_bytes(&beside(file, suffix)))
}

fn has_bytes(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.len() > 0)
}

pub(super) fn is_unwritable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied)
    )
}

pub(super) fn refused(file: &Path, error: rusqlite::Error) -> Error {
    unopened(file, &error.to_string()).caused_by(error)
}

pub(super) fn unopened(file: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::StoreOpen,
        format!("cannot open the store '{}': {why}", file.display()),
    )
    .with("path", file.to_string_lossy().into_owned())
}
