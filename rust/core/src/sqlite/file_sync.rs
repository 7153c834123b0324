//! Syncs the file of a database, without its log.
//!
//! SQLite syncs the file when it has copied the whole log into it. If others commit meanwhile, it leaves the sync to
//! the next copy.

#![expect(
    unsafe_code,
    reason = "only SQLite's own file can be synced without opening the file once more"
)]

use std::ptr::null_mut;

use rusqlite::{Connection, ffi};

/// Syncs the file of the connection, as far as it was written.
///
/// A file that is opened once more and closed would lose the locks of the process. So this uses SQLite's own.
pub(super) fn sync(connection: &Connection) -> rusqlite::Result<()> {
    let mut file: *mut ffi::sqlite3_file = null_mut();
    // SAFETY: the connection is open, and this thread has it. SQLite writes the address of its open file, which stays
    // open while the connection is, and has the methods of a file.
    let code = unsafe {
        let found = ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_FILE_POINTER,
            (&raw mut file).cast(),
        );
        let methods = file.as_ref().and_then(|file| file.pMethods.as_ref());
        match (found, methods.and_then(|methods| methods.xSync)) {
            (ffi::SQLITE_OK, Some(sync)) => sync(file, ffi::SQLITE_SYNC_FULL),
            (ffi::SQLITE_OK, None) => ffi::SQLITE_MISUSE,
            (failed, _) => failed,
        }
    };
    if code == ffi::SQLITE_OK {
        return Ok(());
    }
    Err(rusqlite::Error::SqliteFailure(
        ffi::Error::new(code),
        Some("the file could not be synced".to_owned()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connection;

    #[test]
    fn a_file_is_synced_and_a_database_without_a_file_says_that_it_cannot_be() {
        let directory = tempfile::tempdir().unwrap();
        let file = connection::writable(&directory.path().join("a.sqlite3")).unwrap();
        file.execute_batch("CREATE TABLE t (x)").unwrap();
        sync(&file).unwrap();
        let error = sync(&connection::in_memory().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "the file could not be synced");
    }
}
