//! Writes of several threads in one transaction, which share its commit and so its sync.
//!
//! A writer that has done its work, and sees another one waiting, leaves the transaction open to it and waits for the
//! end. The writer behind which nobody waits commits, and tells the others. Nobody waits for company.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::{Result, check_memory};
use crate::sqlite::database::{Database, Writer};
use crate::sqlite::file_identity::Place;
use crate::sqlite::transaction::Transaction;
use crate::sqlite::writer::{Shared, WriteConnection};

/// The time after which a group takes no more writes, so that the first of them is not delayed for long.
const LONGEST: Duration = Duration::from_millis(4);

/// The writes whose transaction is open.
pub(super) struct Group {
    since: Instant,
    end: Arc<End>,
}

/// The end of a group, for which its writers wait.
#[derive(Default)]
pub(super) struct End {
    outcome: Mutex<Option<Result<()>>>,
    told: Condvar,
}

impl Group {
    /// A group that begins now.
    pub(super) fn begin() -> Self {
        Self {
            since: Instant::now(),
            end: Arc::default(),
        }
    }

    /// Whether another write may join it.
    pub(super) fn has_room(&self) -> bool {
        self.since.elapsed() < LONGEST
    }

    /// Its end.
    pub(super) fn end(&self) -> Arc<End> {
        Arc::clone(&self.end)
    }

    /// Tells all its writers whether their writes are on the disk.
    pub(super) fn tell(self, outcome: Result<()>) {
        *self.end.outcome.lock() = Some(outcome);
        self.end.told.notify_all();
    }
}

impl End {
    /// Waits until the group has ended.
    ///
    /// # Errors
    ///
    /// The error of its commit. Nothing of the group was written then.
    pub(super) fn wait(&self) -> Result<()> {
        let mut outcome = self.outcome.lock();
        loop {
            match &*outcome {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => return Err(error.again()),
                None => self.told.wait(&mut outcome),
            }
        }
    }

    /// Whether it has come.
    #[cfg(test)]
    pub(super) fn is_told(&self) -> bool {
        self.outcome.lock().is_some()
    }
}

// The lock around the connection that writes, and the number of short writes that wait for it.

/// The connection that writes. One thread has it at a time.
///
/// A group whose transaction is open belongs to whoever gets the lock next: that thread joins it, or ends it. So a
/// group is left open only while somebody waits for the lock.
pub(super) struct WriteLock {
    connection: Mutex<WriteConnection>,
    /// The number of threads that wait in [`join`](Self::join). A thread that counts itself gets the lock for certain.
    waiting: AtomicUsize,
}

impl WriteLock {
    pub(super) fn new(connection: WriteConnection) -> Self {
        Self {
            connection: Mutex::new(connection),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits for the connection, for writes that share no transaction. A group that was left open ends here.
    pub(super) fn alone(&self, place: &Place) -> MutexGuard<'_, WriteConnection> {
        let mut held = self.connection.lock();
        let _ = held.end_group(place); // its writers are told
        held
    }

    /// Waits for the connection like [`alone`](Self::alone), until `deadline` at most.
    pub(super) fn alone_until(
        &self,
        place: &Place,
        deadline: Instant,
    ) -> Option<MutexGuard<'_, WriteConnection>> {
        let mut held = self.connection.try_lock_until(deadline)?;
        let _ = held.end_group(place); // its writers are told
        Some(held)
    }

    /// Waits for the connection, for a short write. A group may be open, which the write joins.
    pub(super) fn join(&self) -> MutexGuard<'_, WriteConnection> {
        // The lock orders these: whoever holds it sees that all who held it before no longer wait.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let held = self.connection.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        held
    }

    /// Whether a short write waits for the connection, which the caller holds.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

// Short writes, which share a transaction with those that wait.

/// Bytes of the largest write that shares a transaction. A larger one would delay the others for long.
const SHORT: usize = 64 * 1024;

/// The size of a write that has a transaction of its own, if nobody knows how much it changes.
pub(crate) const LONG: usize = SHORT + 1;

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
            check_memory(size.saturating_mul(3))?; // its terms and SQLite's pages beside it
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
