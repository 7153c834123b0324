//! Splits long work into short transactions, so that others can write in between.

use std::ptr::null_mut;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};

use crate::error::Result;
use crate::sqlite::connection;
use crate::sqlite::database::Database;
use crate::sqlite::transaction::Transaction;

/// The length of the work of one turn, in which others cannot write. Its commit takes about as long.
const TURN: Duration = Duration::from_millis(2);
/// The longest pause between two turns.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

impl Database {
    /// Runs `work` again and again until it returns true, each time in a transaction of its own, with a longer
    /// pause in between. So another writer waits for one turn at most. The function passed to `work` says whether the
    /// turn has time left.
    ///
    /// `beside` runs at the beginning of each pause, without the right to write.
    pub(super) fn in_turns(
        &self,
        mut work: impl FnMut(&Transaction<'_>, &dyn Fn() -> bool) -> Result<bool>,
        beside: impl Fn(),
    ) -> Result<()> {
        loop {
            let mut writer = self.writer()?;
            let begun = Instant::now();
            let is_done =
                writer.transaction(|transaction| work(transaction, &|| begun.elapsed() < TURN));
            writer.pass_on();
            if is_done? {
                return Ok(());
            }
            let pause = (begun.elapsed() * 3 / 2).min(LONGEST_PAUSE);
            let paused = Instant::now();
            beside();
            thread::sleep(pause.saturating_sub(paused.elapsed()));
        }
    }

    /// Deletes rows in turns: calls `work` until it returns true. The function passed to `work` says whether the turn
    /// has time left.
    pub(crate) fn delete_in_turns(
        &self,
        work: impl FnMut(&Transaction<'_>, &dyn Fn() -> bool) -> Result<bool>,
    ) -> Result<()> {
        // The turns fill the log again and again. A commit that copies it into the file takes as long as some turns.
        let uncopied = Uncopied::begin(self)?;
        self.in_turns(work, || uncopied.copy_if_long())?;
        uncopied.copy_if_long();
        Ok(())
    }
}

// Copies the log into the file beside the writers, while many pages are written.

/// The pages in the log from which on it is copied into the file: SQLite's own number.
const LOG_PAGES: u32 = 1_000;

/// While this lives, no commit of this process copies the log into the file: a commit that did would take as long as
/// many commits. Whoever has this copies the log itself, beside the writers.
pub(super) struct Uncopied<'a>(&'a Database);

impl<'a> Uncopied<'a> {
    pub(super) fn begin(database: &'a Database) -> Result<Self> {
        copy_at(database, 0)?;
        Ok(Self(database))
    }

    /// Copies a long log into the file. Then the next transaction begins the log anew, if no reader holds an earlier
    /// state.
    ///
    /// Nobody waits for this copy. Only the few pages that others wrote meanwhile are copied while they wait. If the
    /// copy fails, the log stays long, and a later commit copies it.
    fn copy_if_long(&self) {
        let database = self.0;
        let pages = database.committed_frames().unwrap_or(0);
        if pages < u64::from(LOG_PAGES) || database.copy_log().is_err() {
            return;
        }
        let left = database.with_reader(|reader| Ok(connection::copied(reader)?));
        if left.is_ok_and(|(pages, copied)| copied < pages)
            && let Ok(mut writer) = database.writer()
        {
            let _ = writer.run(|connection| Ok(connection::copy_log(connection)?));
            writer.pass_on();
        }
    }
}

impl Drop for Uncopied<'_> {
    fn drop(&mut self) {
        // If this fails, the connection is broken, and the next one has SQLite's own setting.
        let _ = copy_at(self.0, LOG_PAGES);
    }
}

impl Database {
    /// The number of committed frames in the log.
    pub(super) fn committed_frames(&self) -> Result<u64> {
        self.with_reader(|connection| Ok(connection::frames(connection)?))
    }

    /// Copies as much of the log as possible into the file, and syncs the file. It uses a connection of its own, so
    /// nobody waits for it.
    ///
    /// If others commit meanwhile, SQLite leaves the sync to the next copy, for which they might have to wait. So the
    /// file is synced here, and what they wrote is copied as well. Few pages are left then, or none.
    pub(super) fn copy_log(&self) -> Result<()> {
        let Some(place) = self.place() else {
            return Ok(());
        };
        // A fork waits until nobody reads, and so until this connection is closed too.
        self.with_reader(|_| {
            place.check()?;
            let beside = connection::existing(self.file())?;
            // If the file was replaced meanwhile, the log must not get into the new file.
            let copied = place.check().and_then(|()| copy_and_sync(&beside));
            connection::leave(Some(beside));
            copied
        })
    }
}

/// Copies as much of the log as possible into the file, and syncs the file.
fn copy_and_sync(beside: &Connection) -> Result<()> {
    let (_, before) = connection::copied(beside)?;
    connection::copy_log(beside)?;
    let (pages, copied) = connection::copied(beside)?;
    if copied < pages && copied != before {
        sync(beside)?;
        connection::copy_log(beside)?;
    }
    Ok(())
}

/// Sets the number of pages in the log from which on a commit copies them into the file; 0 for never.
fn copy_at(database: &Database, pages: u32) -> Result<()> {
    database.writer()?.run(|connection| {
        connection.pragma_update_and_check(None, "wal_autocheckpoint", pages, |_| Ok(()))?;
        Ok(())
    })
}

// Syncs the file of a database, without its log.
//
// SQLite syncs the file when it has copied the whole log into it. If others commit meanwhile, it leaves the sync to
// the next copy.

/// Syncs the file of the connection, as far as it was written.
///
/// A file that is opened once more and closed would lose the locks of the process. So this uses SQLite's own.
#[expect(
    unsafe_code,
    reason = "only SQLite's own file can be synced without opening the file once more"
)]
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
    use crate::error::{Error, ErrorKind};
    use crate::sqlite::{connection, meta};

    #[test]
    fn each_turn_is_a_transaction_and_others_write_in_the_pauses() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sqlite3");
        let database = Database::open(&file, false, None, &[(meta::ERASURE, meta::DONE)]).unwrap();
        let mut turns = 0;
        let pauses = std::cell::Cell::new(0);
        let ended = database.in_turns(
            |transaction, is_time| {
                assert_eq!(meta::get(transaction, meta::ERASURE)?, meta::DONE);
                meta::set(transaction, meta::ERASURE, meta::DUE)?;
                while is_time() {}
                turns += 1;
                if turns == 4 {
                    return Err(Error::new(ErrorKind::Internal, "the fourth turn"));
                }
                Ok(false)
            },
            || {
                assert_eq!(database.meta(meta::ERASURE).unwrap(), meta::DUE);
                let mut writer = database.writer().unwrap();
                let done = |transaction: &Transaction<'_>| {
                    meta::set(transaction, meta::ERASURE, meta::DONE)
                };
                writer.transaction(done).unwrap();
                pauses.set(pauses.get() + 1);
            },
        );
        assert_eq!(ended.unwrap_err().to_string(), "the fourth turn");
        assert_eq!((turns, pauses.get()), (4, 3));
        assert_eq!(database.meta(meta::ERASURE).unwrap(), meta::DONE); // what failed left nothing
    }

    /// Bytes that take about half of the pages of a long log.
    const MUCH: u32 = LOG_PAGES / 2 * 4_096;

    fn write(database: &Database) {
        database
            .writer()
            .unwrap()
            .transaction(|transaction| {
                transaction.execute_batch("CREATE TABLE IF NOT EXISTS much (data BLOB)")?;
                transaction.execute("INSERT INTO much VALUES (zeroblob(?1))", [MUCH])?;
                Ok(())
            })
            .unwrap();
    }

    /// The pages of the log that are in the file as well.
    fn copied(database: &Database) -> u64 {
        let found = database.with_reader(|reader| Ok(connection::copied(reader)?));
        found.unwrap().1
    }

    #[test]
    fn commits_copy_the_log_again_when_it_ends_and_not_before() {
        let directory = tempfile::tempdir().unwrap();
        let birth = [(meta::ERASURE, meta::DONE)];
        let file = directory.path().join("a.sqlite3");
        let database = Database::open(&file, false, None, &birth).unwrap();
        let uncopied = Uncopied::begin(&database).unwrap();
        database.copy_log().unwrap();
        write(&database); // begins the log anew
        uncopied.copy_if_long();
        assert!(database.committed_frames().unwrap() < u64::from(LOG_PAGES));
        assert_eq!(copied(&database), 0);

        write(&database);
        write(&database);
        assert_eq!(copied(&database), 0);
        uncopied.copy_if_long();
        assert_eq!(copied(&database), database.committed_frames().unwrap());
        write(&database);
        assert!(database.committed_frames().unwrap() < u64::from(LOG_PAGES)); // the log began anew
        assert_eq!(copied(&database), 0);

        drop(uncopied);
        let is_copied = || {
            write(&database);
            copied(&database) > 0
        };
        assert!((0..2).any(|_| is_copied())); // the write after a copy begins the log anew
    }

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
