//! The end of the write-ahead log: what an unfinished transaction left behind it is cut off, and commits are synced.
//!
//! A transaction that fails, or whose process dies, may leave frames behind the last commit. The next transaction
//! overwrites them, frame by frame, and they have the salts of the log. If power is cut then, the head of a new frame
//! may stand on the disk in front of the old ones: its mark of a commit is the new one, its checksum the old one, which
//! the old frames follow. Nothing tells such a log from one that lost a commit. So nothing is written over such frames:
//! first the log is cut at its end, and that is synced.
//!
//! A process that dies between a write and its sync leaves a commit that power can still take away. A writer who finds
//! it says "this is stored already", so it is synced when a store is opened.

#![expect(
    unsafe_code,
    reason = "only SQLite's own file can be cut and synced as SQLite does it"
)]

use std::ffi::c_int;
use std::path::Path;
use std::ptr::null_mut;

use rusqlite::{Connection, Transaction, ffi};

use crate::error::Result;
use crate::sqlite::{connection, wal};

/// Cuts the log of `file` behind its last commit, and syncs it. The transaction holds the lock of writers and has
/// written nothing.
pub(super) fn cut(transaction: &Transaction<'_>, file: &Path) -> Result<()> {
    // A transaction that writes cannot be asked for the end of the log.
    let frames = connection::frames(&connection::readable(file)?)?;
    let page = transaction.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0))?;
    let end = wal::end(frames, u64::from(page));
    let end = i64::try_from(end).unwrap_or(i64::MAX);
    Ok(settle(transaction, Some(end))?)
}

/// Syncs the log. The transaction has read from it.
pub(super) fn sync(transaction: &Transaction<'_>) -> Result<()> {
    Ok(settle(transaction, None)?)
}

/// Whether a transaction of this connection wrote frames before its commit. Starts anew with each call.
pub(super) fn has_spilled(connection: &Connection) -> bool {
    let (mut pages, mut most): (c_int, c_int) = (0, 0);
    // SAFETY: the connection is open, and this thread has it. The call writes two numbers.
    let code = unsafe {
        ffi::sqlite3_db_status(
            connection.handle(),
            ffi::SQLITE_DBSTATUS_CACHE_SPILL,
            &raw mut pages,
            &raw mut most,
            1,
        )
    };
    code != ffi::SQLITE_OK || pages > 0
}

/// Cuts the log to `bytes`, if they are given, and syncs it.
fn settle(transaction: &Transaction<'_>, bytes: Option<i64>) -> rusqlite::Result<()> {
    let mut log: *mut ffi::sqlite3_file = null_mut();
    // SAFETY: the connection is open, and this thread has it. SQLite writes the address of its open log, which stays
    // open while the transaction lasts, and has the methods of a file.
    let code = unsafe {
        let found = ffi::sqlite3_file_control(
            transaction.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_JOURNAL_POINTER,
            (&raw mut log).cast(),
        );
        match (found, log.as_ref().and_then(|log| log.pMethods.as_ref())) {
            (ffi::SQLITE_OK, Some(methods)) => match (methods.xTruncate, methods.xSync) {
                (Some(truncate), Some(sync)) => {
                    match bytes.map_or(ffi::SQLITE_OK, |bytes| truncate(log, bytes)) {
                        ffi::SQLITE_OK => sync(log, ffi::SQLITE_SYNC_FULL),
                        failed => failed,
                    }
                }
                _ => ffi::SQLITE_MISUSE,
            },
            (ffi::SQLITE_OK, None) => ffi::SQLITE_MISUSE,
            (failed, _) => failed,
        }
    };
    if code == ffi::SQLITE_OK {
        return Ok(());
    }
    let message = "the log could not be cut at its end, or synced".to_owned();
    Err(rusqlite::Error::SqliteFailure(
        ffi::Error::new(code),
        Some(message),
    ))
}
