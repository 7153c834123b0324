//! Turns errors of SQLite into errors of the store.

use std::error::Error as _;

use rusqlite::{ErrorCode, ffi};

use crate::error::{Error, ErrorKind};
use crate::sqlite::connection::BUSY_TIMEOUT;

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
        Sqlite::SqliteFailure(..) => failure(error),
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

fn failure(error: &rusqlite::Error) -> (ErrorKind, String) {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::StoreBusy,
            format!("another process held the store's lock for more than {BUSY_TIMEOUT:?}"),
        ),
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
