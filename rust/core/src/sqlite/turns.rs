//! Splits long work into short transactions, so that others can write in between.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::sqlite::connection;
use crate::sqlite::database::Database;
use crate::sqlite::transaction::Transaction;

/// The approximate length of one turn, in which others cannot write.
const TURN: Duration = Duration::from_millis(4);
/// The longest pause between two turns.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

impl Database {
    /// Runs `work` again and again until it returns true, each time in a transaction of its own, with a pause in
    /// between. So another writer waits for one turn at most. The function passed to `work` says whether the turn has
    /// time left.
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

    /// The number of committed frames in the log.
    pub(super) fn committed_frames(&self) -> Result<u64> {
        self.with_reader(|connection| Ok(connection::frames(connection)?))
    }

    /// Copies as much of the log as possible into the file. It uses a connection of its own, so nobody waits for it.
    pub(super) fn copy_log(&self) -> Result<()> {
        let Some(place) = self.place() else {
            return Ok(());
        };
        place.check()?;
        let beside = connection::existing(self.file())?;
        // If the file was replaced meanwhile, the log must not get into the new file.
        let copied = place
            .check()
            .and_then(|()| Ok(beside.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?));
        connection::leave(Some(beside));
        copied
    }
}
