//! Takes forgotten bytes out of the file, and out of the log beside it, while others read and write.
//!
//! What was deleted is overwritten when it is deleted (`secure_delete`). What rows left behind that had been moved from
//! page to page is overwritten here, page by page (`pages.rs`):
//!
//! 1. Somebody begins to read, so that from now on the log keeps what is written.
//! 2. The pages of that state are looked at, for as long as it takes: nobody waits.
//! 3. Those that have leftovers are overwritten, some in each transaction. What others have written since, they may have
//!    moved: so each transaction looks first at all pages that the log has since the last one.
//! 4. The log is emptied.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustc_hash::FxHashSet;

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::database::{BESIDE, Database, beside};
use crate::sqlite::wal::{self, Moment};
use crate::sqlite::{connection, meta, pages};

/// Pages that one transaction overwrites at most: they are synced while others wait.
const PAGES: usize = 128;

impl Database {
    /// Overwrites what the file has that is in no row, and empties the log beside it. Those who read go on meanwhile,
    /// and who writes waits for moments.
    ///
    /// False where another process writes, or somebody reads an earlier state for too long: then it is still to
    /// be done.
    pub(crate) fn erase(&self) -> Result<bool> {
        let _exclusive = self.exclusive("erase what was forgotten from")?;
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

    /// Overwrites what the pages have that is in no row.
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
            // It reads this state from now on, of which no frame can leave the log.
            let mut since = self.writer()?.transaction(|_| {
                earlier.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))?;
                self.moment()
            })?;
            let mut due = with_leftovers(earlier)?.into_iter();
            self.in_turns(|transaction, is_time| {
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
            })
        })
    }

    fn log(&self) -> PathBuf {
        beside(self.file(), BESIDE[0])
    }

    /// What was read of the log.
    fn of_log<T>(&self, read: std::io::Result<T>) -> Result<T> {
        read.map_err(|error| {
            let message = format!("could not read '{}': {error}", self.log().display());
            Error::new(ErrorKind::StoreIo, message).caused_by(error)
        })
    }

    /// This moment in the life of the log, for who keeps others from writing.
    fn moment(&self) -> Result<Moment> {
        let frames = self.committed_frames()?;
        self.of_log(Moment::now(&self.log(), frames))
    }

    /// Empties the log into the file, as soon as nobody reads an earlier state. Whether it is empty.
    ///
    /// Who writes waits for moments only: what is long is done beside him, and between two looks the right to
    /// write is free.
    fn empty_log(&self) -> Result<bool> {
        const PAUSE: Duration = Duration::from_millis(10);
        if self.is_in_memory() {
            return Ok(true);
        }
        let begun = Instant::now();
        loop {
            self.copy_log()?;
            match self.writer()?.run(truncate_log) {
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

    /// Deletes logs of files that were replaced, which say what those said. Whether there are none left.
    fn remove_aside(&self) -> bool {
        BESIDE.iter().all(|suffix| {
            let aside = beside(self.file(), &format!("{suffix}-replaced"));
            self.is_in_memory() || !aside.exists() || std::fs::remove_file(aside).is_ok()
        })
    }
}

/// The pages that have bytes that are in no row, in the order of the file.
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

/// Whether the log is empty now: nobody read an earlier state.
fn truncate_log(connection: &mut Connection) -> Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, i64>(0)
    });
    connection.busy_timeout(connection::BUSY_TIMEOUT)?;
    Ok(busy? == 0)
}
