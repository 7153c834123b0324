//! Short writes, which share a transaction with those that wait; see `group.rs`.

use std::panic::resume_unwind;

use parking_lot::MutexGuard;

use crate::error::Result;
use crate::sqlite::database::{Database, Writer};
use crate::sqlite::transaction::Transaction;
use crate::sqlite::writer::Shared;

/// Bytes of the largest write that shares a transaction. A larger one would delay the others for long.
const SHORT: usize = 64 * 1024;

/// Bytes that a row counts for beside its texts.
const ROW: usize = 512;

/// The size of a write that brings a row for each of `texts`.
pub(crate) fn size<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts.into_iter().map(|text| text.len() + ROW).sum()
}

impl Database {
    /// Runs `work` in a transaction that it may share with short writes of other threads: one commit and one sync for
    /// all of them. When this returns, its writes are on the disk, or none of them.
    ///
    /// `size` is that of the write; a large one has a transaction of its own. `work` must change nothing but the
    /// database. If it fails, the others go on without it. If the commit fails, all of them fail.
    ///
    /// The right to write comes with the result, unless another thread has got it meanwhile.
    pub(crate) fn write_short<T>(
        &self,
        size: usize,
        work: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<(T, Option<Writer<'_>>)> {
        let Some((lock, place)) = self.write_lock().filter(|_| size <= SHORT) else {
            let mut writer = self.writer()?;
            let value = writer.transaction(work)?;
            return Ok((value, Some(writer)));
        };
        let mut held = lock.join();
        let shared = held.share(place, || lock.is_awaited(), work);
        if place.is_replaced() {
            self.abandon(Some(&mut held));
        }
        match shared {
            Shared::Done(outcome) => {
                let value = outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
                Ok((value, Some(Writer::of_file(self, held, place))))
            }
            Shared::Waits(end, outcome) => {
                MutexGuard::unlock_fair(held); // to the thread that has waited longest
                let ended = end.wait();
                let own = outcome.unwrap_or_else(|panic| resume_unwind(panic));
                ended.and(own).map(|value| (value, None))
            }
        }
    }
}
