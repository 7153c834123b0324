//! Erases forgotten bytes from the file and from the write-ahead log, while others read and write.
//!
//! SQLite overwrites deleted bytes when it deletes them (`secure_delete`). But when rows move to another page, their
//! bytes stay behind in the old one. These leftovers are overwritten here, page by page (`pages.rs`):
//!
//! 1. A read transaction begins. While it lasts, the log keeps every page that is written from now on.
//! 2. The pages of that state are searched for leftovers. Nobody waits, however long this takes.
//! 3. The pages with leftovers are overwritten, some in each transaction. Other writers may have moved rows since, so
//!    each transaction first overwrites the leftovers of all pages that were written since the last one.
//! 4. The log is copied into the file and emptied.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustc_hash::FxHashSet;

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::database::{BESIDE, Database};
use crate::sqlite::transaction::Transaction;
use crate::sqlite::uncopied::Uncopied;
use crate::sqlite::wal::{self, Moment};
use crate::sqlite::{connection, meta, pages};
use crate::whole_file::beside;

/// The highest number of pages in one transaction. Other writers wait while these are synced.
const PAGES: usize = 128;

impl Database {
    /// Overwrites the bytes of the file that are in no row, and empties the log. Readers go on meanwhile, and writers
    /// wait for moments only.
    ///
    /// False where another process writes, or a reader holds an earlier state for too long. The erasure is still due
    /// then.
    pub(crate) fn erase(&self) -> Result<bool> {
        let _exclusive = self.exclusive("erase forgotten texts from")?;
        let _uncopied = Uncopied::begin(self)?;
        match self.overwrite().and_then(|()| self.empty_log()) {
            Ok(true) if !self.remove_aside() => return Ok(false),
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if error.kind() == ErrorKind::StoreBusy => return Ok(false),
            Err(error) => return Err(error),
        }
        let mut writer = self.writer()?;
        writer.transaction(|transaction| meta::set(transaction, meta::ERASURE, meta::DONE))?;
        Ok(true)
    }

    /// Overwrites the bytes in pages that belong to no row.
    fn overwrite(&self) -> Result<()> {
        if self.is_in_memory() {
            return self.writer()?.transaction(|transaction| {
                for page in pages::of_trees(transaction)? {
                    pages::overwrite(transaction, page)?;
                }
                Ok(())
            });
        }
        self.read(|earlier| {
            // The first query of `earlier` fixes its state. From now on the log cannot begin anew, so it keeps all its
            // frames.
            let mut since = self.writer()?.transaction(|_| {
                earlier.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))?;
                self.moment()
            })?;
            let mut due = with_leftovers(earlier)?.into_iter();
            let overwrite = |transaction: &Transaction<'_>, is_time: &dyn Fn() -> bool| {
                let now = self.moment()?;
                let of_trees = pages::of_trees(transaction)?;
                let written = self.of_log(wal::written(&self.log(), since, now))?;
                since = now;
                for page in FxHashSet::from_iter(written).intersection(&of_trees) {
                    pages::overwrite(transaction, *page)?;
                }
                for page in due.by_ref().take(PAGES) {
                    if of_trees.contains(&page) {
                        pages::overwrite(transaction, page)?;
                    }
                    if !is_time() {
                        break;
                    }
                }
                Ok(due.as_slice().is_empty())
            };
            self.in_turns(overwrite, || {})
        })
    }

    fn log(&self) -> PathBuf {
        beside(self.file(), BESIDE[0])
    }

    /// Turns an error of reading the log into an error of the store.
    fn of_log<T>(&self, read: std::io::Result<T>) -> Result<T> {
        read.map_err(|error| {
            let message = format!("could not read '{}': {error}", self.log().display());
            Error::new(ErrorKind::StoreIo, message).caused_by(error)
        })
    }

    /// The present position in the log. The caller must keep others from writing.
    fn moment(&self) -> Result<Moment> {
        let frames = self.committed_frames()?;
        self.of_log(Moment::now(&self.log(), frames))
    }

    /// Copies the log into the file and empties it, once no reader holds an earlier state. False if one does for too
    /// long.
    ///
    /// Writers wait for moments only: most of the log is copied without the right to write, and that right is free
    /// between two attempts.
    fn empty_log(&self) -> Result<bool> {
        const PAUSE: Duration = Duration::from_millis(10);
        if self.is_in_memory() {
            return Ok(true);
        }
        let begun = Instant::now();
        loop {
            self.copy_log()?;
            let mut writer = self.writer()?;
            let emptied = writer.run(truncate_log);
            writer.pass_on(); // the next transaction of the erasure comes after those that wait
            match emptied {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::StoreBusy => {} // another process writes
                Err(error) => return Err(error),
            }
            if begun.elapsed() >= connection::BUSY_TIMEOUT {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
    }

    /// Deletes the logs of files that were replaced, because they may hold forgotten bytes. True if none are left.
    fn remove_aside(&self) -> bool {
        let left = BESIDE.iter().filter(|suffix| {
            let aside = beside(self.file(), &format!("{suffix}-replaced"));
            !self.is_in_memory() && aside.exists() && std::fs::remove_file(aside).is_err()
        });
        left.count() == 0 // every file is tried, also after one that stays
    }
}

/// The numbers of the pages with bytes that are in no row, ascending.
fn with_leftovers(connection: &Connection) -> Result<Vec<u32>> {
    let mut numbers: Vec<u32> = pages::of_trees(connection)?.into_iter().collect();
    numbers.sort_unstable();
    let mut found = Vec::new();
    for number in numbers {
        if pages::has_leftovers(connection, number)? {
            found.push(number);
        }
    }
    Ok(found)
}

/// Tries to empty the log. False where a reader holds an earlier state.
fn truncate_log(connection: &mut Connection) -> Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, i64>(0)
    });
    connection::be_patient(connection)?;
    Ok(busy? == 0)
}
