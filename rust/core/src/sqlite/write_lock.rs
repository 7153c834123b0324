//! The lock around the connection that writes, and the number of short writes that wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use crate::sqlite::place::Place;
use crate::sqlite::writer::WriteConnection;

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
