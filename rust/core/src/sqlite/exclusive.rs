//! A lock for work that only one process may do at a time: repairing, erasing or copying a file.
//!
//! `SQLite` keeps single transactions apart, but this work takes several transactions. The lock is
//! advisory. The system holds it on the directory of the file, and releases it when the process ends.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::connection::BUSY_TIMEOUT;
use crate::whole_file::beside;

/// The lock, held while this lives. Another request, in this process or another, waits.
pub(crate) struct Exclusive(Option<File>);

impl Exclusive {
    /// Waits for the right to do `work`, a verb that the error names.
    ///
    /// Where the file system has no such locks, the right is given at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreBusy`] names the work and the time that was waited.
    pub(super) fn wait(file: &Path, work: &'static str) -> Result<Self> {
        Self::wait_for(file, work, BUSY_TIMEOUT)
    }

    /// The right to work on a database that no other process can open.
    pub(super) fn unneeded() -> Self {
        Self(None)
    }

    fn wait_for(file: &Path, work: &'static str, patience: Duration) -> Result<Self> {
        const PAUSE: Duration = Duration::from_millis(10);
        let Ok(lock) = lock_file(file) else {
            return Ok(Self(None));
        };
        let begun = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self(Some(lock))),
                Err(TryLockError::Error(_)) => return Ok(Self(None)),
                Err(TryLockError::WouldBlock) if begun.elapsed() < patience => {
                    std::thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => return Err(busy(file, work, begun.elapsed())),
            }
        }
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        if let Some(lock) = &self.0 {
            // An explicit unlock: closing is not enough, because a forked child may have the file open as well.
            drop(lock.unlock());
        }
    }
}

/// The file to lock: the directory, so that no lock file is left behind. The database itself must not be used, because
/// closing a second descriptor of it would release `SQLite`'s own locks.
fn lock_file(file: &Path) -> std::io::Result<File> {
    if cfg!(windows) {
        return File::create(beside(file, "-lock"));
    }
    File::open(file.parent().unwrap_or_else(|| Path::new(".")))
}

fn busy(file: &Path, work: &'static str, waited: Duration) -> Error {
    let message = format!(
        "cannot {work} '{}': other work of that kind did not end in the {:.1} s that were waited; try again \
         when it is done",
        file.display(),
        waited.as_secs_f64()
    );
    Error::new(ErrorKind::StoreBusy, message)
        .with("path", file.to_string_lossy().into_owned())
        .with("work", work)
        .with(
            "waited_ms",
            i64::try_from(waited.as_millis()).unwrap_or(i64::MAX),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_waits_and_is_told_for_what_and_the_third_gets_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sqlite3");
        let short = Duration::from_millis(30);
        let first = Exclusive::wait_for(&file, "repair", short).unwrap();
        assert!(first.0.is_some());
        let error = Exclusive::wait_for(&file, "erase", short).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::StoreBusy);
        assert!(error.to_string().starts_with("cannot erase"), "{error}");
        drop(first);
        assert!(Exclusive::wait_for(&file, "erase", short).is_ok());
    }
}
