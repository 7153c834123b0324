//! Splits long work into short transactions, so that others can write in between.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::sqlite::database::Database;
use crate::sqlite::transaction::Transaction;
use crate::sqlite::uncopied::Uncopied;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::sqlite::meta;

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
}
