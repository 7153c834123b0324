//! Takes forgotten bytes out of the file, and out of the log beside it, while others read and write.

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::error::{ErrorKind, Result};
use crate::sqlite::database::{BESIDE, Database, beside};
use crate::sqlite::{connection, meta};

impl Database {
    /// Rewrites the file without what was freed, and empties the log beside it. Those who read go on meanwhile.
    ///
    /// False where another process writes, or somebody reads an earlier state for too long: then it is still to
    /// be done.
    pub(crate) fn erase(&self) -> Result<bool> {
        let _exclusive = self.exclusive("erase what was forgotten from")?;
        let mut writer = self.writer()?;
        let rewritten = writer.run(|connection| Ok(connection.execute_batch("VACUUM")?));
        drop(writer);
        match rewritten.and_then(|()| self.empty_log()) {
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

/// Whether the log is empty now: nobody read an earlier state.
fn truncate_log(connection: &mut Connection) -> Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, i64>(0)
    });
    connection.busy_timeout(connection::BUSY_TIMEOUT)?;
    Ok(busy? == 0)
}
