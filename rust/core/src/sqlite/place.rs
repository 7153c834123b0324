//! Is the file at the path still the one that is open?
//!
//! A file that is deleted, moved, restored from a copy or overwritten while it is open still takes writes, and
//! these writes are lost. So a store looks before it writes, and again before it acknowledges: at the
//! result of `stat`, and, where that has changed, at the content of the file.

use std::fs::Metadata;
use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::checksum::believed;
use crate::sqlite::{connection, meta};

/// The identity of a file among all that were ever at its path. It is empty on systems other than Unix, where an
/// open file cannot be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    number: u64,
}

/// When a file was last written, as far as `stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    bytes: u64,
    seconds: i64,
    nanoseconds: i64,
}

/// How many changes the file holds, without the log beside it. The number never falls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    lineage: String,
    progress: i64,
}

/// The state of a store's file when it was last looked at.
#[derive(Debug, Default)]
struct Seen {
    /// The store's own mark; None where its row has a wrong checksum.
    lineage: Option<String>,
    /// When the file was written; None where it is to be looked at again.
    written: Option<Written>,
    /// Its content then, without the log; None if that was not known, or it had no mark yet.
    content: Option<Content>,
    /// The log beside it that the connections have open; None where there was none yet.
    log: Option<Identity>,
}

/// The place of a store that is open.
pub(super) struct Place {
    file: PathBuf,
    identity: Option<Identity>,
    seen: Mutex<Seen>,
    replaced: AtomicBool,
}

impl Place {
    /// The place of `file`, which `connection` has opened. `content` is what the file held before, if that is
    /// known.
    pub(super) fn of(
        file: &Path,
        connection: &Connection,
        content: Option<Content>,
    ) -> Result<Self> {
        let metadata = file.metadata().ok();
        // Where it is not known what the file holds, it is looked at before the first acknowledgement.
        let written = metadata
            .as_ref()
            .and_then(written)
            .filter(|_| content.is_some());
        let seen = Seen {
            lineage: believed(meta::get(connection, meta::LINEAGE))?,
            written,
            content,
            log: identity_of(&log_of(file)),
        };
        Ok(Self {
            file: file.to_owned(),
            identity: metadata.as_ref().and_then(identity),
            seen: Mutex::new(seen),
            replaced: AtomicBool::new(false),
        })
    }

    /// Checks that the file at the path is the one that was opened.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreReplaced`]
    pub(super) fn check(&self) -> Result<()> {
        if self.is_replaced() {
            return Err(self.replaced());
        }
        let metadata = match self.file.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == Io::NotFound => return Err(self.found_replaced()),
            Err(_) => return Ok(()), // nobody can tell, and whoever needs the file finds out
        };
        if self.identity.is_some() && identity(&metadata) != self.identity {
            return Err(self.found_replaced());
        }
        Ok(())
    }

    /// Checks that the file at the path is the one that was opened, and that nobody wrote another one over it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreReplaced`]
    pub(super) fn check_content(&self) -> Result<()> {
        self.check()?;
        let Some(now) = self.file.metadata().ok().as_ref().and_then(written) else {
            return Ok(());
        };
        let mut seen = self.seen.lock();
        if seen.log.is_none() {
            seen.log = identity_of(&log_of(&self.file));
        }
        if seen.written == Some(now) {
            return Ok(());
        }
        // Somebody wrote: the log was copied into the file, by this process or another, or something else was.
        let Ok(found) = self.read() else {
            return Ok(()); // it is being written right now: the next one who asks finds out
        };
        let is_ours = match (&seen.content, &found) {
            (_, Some(found))
                if seen
                    .lineage
                    .as_ref()
                    .is_some_and(|own| *own != found.lineage) =>
            {
                false
            }
            (Some(before), Some(found)) => found.progress >= before.progress,
            (Some(_), None) => false,
            (None, _) => true,
        };
        if !is_ours {
            drop(seen);
            return Err(self.found_replaced());
        }
        seen.written = Some(now);
        seen.content = found;
        Ok(())
    }

    /// Checks that `connection` reads the store that was opened: another process may have put another store in
    /// its place, and merged its log into that.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreReplaced`]
    pub(super) fn check_lineage(&self, connection: &Connection) -> Result<()> {
        let found = believed(meta::get(connection, meta::LINEAGE))?;
        match (&self.seen.lock().lineage, found) {
            (Some(own), Some(found)) if *own != found => Err(self.found_replaced()),
            _ => Ok(()),
        }
    }

    /// Accepts the store that `connection` reads. It was repaired, so its figures may be lower, and its mark may be
    /// another one.
    pub(super) fn take_over(&self, connection: &Connection) -> Result<()> {
        *self.seen.lock() = Seen {
            lineage: believed(meta::get(connection, meta::LINEAGE))?,
            log: identity_of(&log_of(&self.file)),
            ..Seen::default()
        };
        Ok(())
    }

    /// Whether the log beside the file is the one of the file that was opened. It is not that of the file that
    /// is there now, if that was replaced.
    pub(super) fn has_own_log(&self) -> bool {
        let own = self.seen.lock().log;
        own.is_some() && identity_of(&log_of(&self.file)) == own
    }

    /// Lets go of the log: whoever opens the file next may begin another one.
    pub(super) fn let_go_of_log(&self) {
        self.seen.lock().log = None;
    }

    /// Whether the file was found to be replaced. The connection is of no use then, whatever file comes back.
    pub(super) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    /// The content of the file, without the log beside it; None for a file without a mark.
    fn read(&self) -> Result<Option<Content>> {
        const PAUSE: Duration = Duration::from_millis(5);
        let look = || content(&connection::immutable(&self.file)?);
        // Another process may be copying the log into it, so that it is of no one state for a moment.
        for _ in 0..2 {
            if let Ok(found) = look() {
                return Ok(found);
            }
            thread::sleep(PAUSE);
        }
        look()
    }

    fn found_replaced(&self) -> Error {
        self.replaced.store(true, Ordering::Release);
        self.replaced()
    }

    fn replaced(&self) -> Error {
        let message = format!(
            "the file '{}' was deleted, moved or replaced while the store was open: what was written last may not \
             be in the file that is there now; close this store, and open the path again",
            self.file.display()
        );
        Error::new(ErrorKind::StoreReplaced, message)
            .with("path", self.file.to_string_lossy().into_owned())
    }
}

/// The content of the file by a connection to it alone; None for a file without a mark.
pub(super) fn content(connection: &Connection) -> Result<Option<Content>> {
    let tables: i64 = connection.query_row(
        "SELECT COUNT(*) FROM sqlite_schema WHERE name IN ('meta', 'session')",
        [],
        |row| row.get(0),
    )?;
    let lineage = match tables {
        2 => meta::find(connection, meta::LINEAGE)?,
        _ => None,
    };
    let Some(lineage) = lineage else {
        return Ok(None);
    };
    let progress = connection.query_row(
        "SELECT COALESCE(SUM(revision + redactions + counter), 0) FROM session",
        [],
        |row| row.get(0),
    )?;
    Ok(Some(Content { lineage, progress }))
}

/// The log beside the file.
fn log_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

fn identity_of(file: &Path) -> Option<Identity> {
    identity(&file.metadata().ok()?)
}

/// How many names the file has.
#[cfg(unix)]
pub(super) fn names(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it is not known")]
fn identity(metadata: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;

    Some(Identity {
        device: metadata.dev(),
        number: metadata.ino(),
    })
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it is not known")]
fn written(metadata: &Metadata) -> Option<Written> {
    use std::os::unix::fs::MetadataExt;

    Some(Written {
        bytes: metadata.len(),
        seconds: metadata.mtime(),
        nanoseconds: metadata.mtime_nsec(),
    })
}

#[cfg(not(unix))]
pub(super) fn names(_: &Metadata) -> u64 {
    1
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<Identity> {
    None
}

#[cfg(not(unix))]
fn written(_: &Metadata) -> Option<Written> {
    None
}
