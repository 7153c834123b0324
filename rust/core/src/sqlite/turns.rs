//! Long work beside those who write: in pieces, between which others have the right to write.

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Transaction;

use crate::error::Result;
use crate::sqlite::connection;
use crate::sqlite::database::Database;

/// How long a piece of long work keeps others from writing, about.
const TURN: Duration = Duration::from_millis(4);
/// How long others have the right to write in between, at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

impl Database {
    /// Runs `work` again and again until it says that it is done, each time in a transaction of its own, and gives way
    /// to others in between: they wait for one of them at most. `work` is told whether it has time left.
    pub(crate) fn in_turns(
        &self,
        mut work: impl FnMut(&Transaction<'_>, &dyn Fn() -> bool) -> Result<bool>,
    ) -> Result<()> {
        loop {
            let begun = Instant::now();
            let mut writer = self.writer()?;
            let is_done =
                writer.transaction(|transaction| work(transaction, &|| begun.elapsed() < TURN));
            writer.pass_on();
            if is_done? {
                return Ok(());
            }
            thread::sleep(begun.elapsed().min(LONGEST_PAUSE));
        }
    }

    /// How many frames of the log are committed.
    pub(super) fn committed_frames(&self) -> Result<u64> {
        self.with_reader(|connection| {
            let frames = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| {
                row.get::<_, i64>(1)
            })?;
            Ok(u64::try_from(frames).unwrap_or(0))
        })
    }

    /// Copies as much of the log as possible into the file, on a connection of its own, so that nobody waits for it.
    pub(super) fn copy_log(&self) -> Result<()> {
        let Some(place) = self.place() else {
            return Ok(());
        };
        place.check()?;
        let beside = connection::existing(self.file())?;
        // Where the file was replaced meanwhile, the log must not get into the one that is there now.
        let copied = place
            .check()
            .and_then(|()| Ok(beside.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?));
        connection::leave(Some(beside));
        copied
    }
}
