//! Permissions of the files of a store, and the lock for long work on them. By default only the owner can read them,
//! whatever the umask of the process; the caller can choose another mode.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::connection::BUSY_TIMEOUT;
use crate::whole_file::beside;

/// The default mode of a new file: only its owner reads and writes it.
const OWNER: u32 = 0o600;

/// Makes an empty file with the permissions `mode`; by default only its owner can read it. An existing file stays as
/// it is. A failure is not reported here: the open that follows reports it.
pub(crate) fn make_file(file: &Path, mode: Option<u32>) {
    let _ = try_to_make(file, mode.unwrap_or(OWNER) & 0o666);
}

/// Makes a directory with the permissions `mode`; by default only its owner can enter it.
pub(crate) fn make_directory(directory: &Path, mode: Option<u32>) -> io::Result<()> {
    let mode = mode.unwrap_or(OWNER) & 0o666;
    let searched = (mode & 0o444) >> 2; // a user who may read files may also enter the directory
    make_one(directory, mode | searched)
}

/// The permissions of `file`. The files beside it get the same.
pub(crate) fn mode_of(file: &Path) -> Option<u32> {
    file.metadata().ok().and_then(|metadata| bits(&metadata))
}

/// Sets the mode of an open file, whatever the umask of the process.
#[cfg(unix)]
pub(crate) fn set_mode(file: &fs::File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(unix)]
fn try_to_make(file: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;

    let created = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(file)?;
    // The umask may have removed some bits.
    set_mode(&created, mode)
}

#[cfg(unix)]
fn make_one(directory: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    fs::DirBuilder::new().mode(mode).create(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(mode))
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there are none")]
fn bits(metadata: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;

    Some(metadata.permissions().mode() & 0o666)
}

#[cfg(not(unix))]
pub(crate) fn set_mode(_: &fs::File, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn try_to_make(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn make_one(directory: &Path, _: u32) -> io::Result<()> {
    fs::create_dir(directory)
}

#[cfg(not(unix))]
fn bits(_: &fs::Metadata) -> Option<u32> {
    None
}

// A lock for work that only one process may do at a time: repairing, erasing or copying a file.
//
// `SQLite` keeps single transactions apart, but this work takes several transactions. The lock is
// advisory. The system holds it on the directory of the file, and releases it when the process ends.

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
