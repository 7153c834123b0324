//! Writes of several threads in one transaction, which share its commit and so its sync.
//!
//! A writer that has done its work, and sees another one waiting, leaves the transaction open to it and waits for the
//! end. The writer behind which nobody waits commits, and tells the others. Nobody waits for company.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::Result;

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
