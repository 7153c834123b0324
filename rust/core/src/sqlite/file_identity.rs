//! Checks whether the file at the path is still the file that is open.
//!
//! The system still accepts writes to an open file that was deleted, moved or overwritten, and these writes are lost.
//! So a store checks its file before it writes, and again before it acknowledges a write. It compares the
//! result of `stat`, and where that has changed, the content of the file.

use std::fs::Metadata;
use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::row::{believed, list};
use crate::sqlite::{connection, meta, session};
use crate::whole_file::beside;

/// The identity of a file, which another file at the same path does not share. There is none on systems other than
/// Unix, where an open file cannot be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    number: u64,
}

/// The length and the time of the last write of a file, from `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    bytes: u64,
    seconds: i64,
    nanoseconds: i64,
}

/// The mark of a store, and the changes of its sessions that are in its file, without those that are only in the
/// write-ahead log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    lineage: String,
    /// The key of each session and the number of its changes, ascending. The number never falls.
    sessions: Vec<(i64, i64)>,
}

impl Content {
    /// Whether a session has fewer changes than in `before`. A missing session has not.
    fn has_fewer_than(&self, before: &Self) -> bool {
        let mut before = before.sessions.iter().peekable();
        self.sessions.iter().any(|(session, changes)| {
            while before.next_if(|(other, _)| other < session).is_some() {}
            let known = before.next_if(|(other, _)| other == session);
            known.is_some_and(|(_, known)| changes < known)
        })
    }
}

/// The state of a store's file at the last check.
#[derive(Debug, Default)]
struct Seen {
    /// The random mark of the store; None where its row has a wrong checksum.
    lineage: Option<String>,
    /// The time and length of the file's last known write; None where the content must be read again.
    written: Option<Written>,
    /// The content at that time, without the log; None where it was not known, or the file had no mark yet.
    content: Option<Content>,
    /// The log beside the file that the connections have open; None where there was no log yet.
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
    /// The place of `file`, which `connection` has opened. `content` is the earlier content of the file, where it is
    /// known.
    pub(super) fn of(
        file: &Path,
        connection: &Connection,
        content: Option<Content>,
    ) -> Result<Self> {
        let metadata = file.metadata().ok();
        // With unknown content, the file is read before the first acknowledgement.
        let written = metadata
            .as_ref()
            .and_then(written)
            .filter(|_| content.is_some());
        let seen = Seen {
            lineage: believed(meta::get(connection, meta::LINEAGE))?,
            written,
            content,
            log: identity_of(&beside(file, "-wal")),
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
            Err(_) => return Ok(()), // not known: the next read or write reports its own error
        };
        if self.identity.is_some() && identity(&metadata) != self.identity {
            return Err(self.found_replaced());
        }
        Ok(())
    }

    /// Checks that the file at the path is the one that was opened, and that no other store and no older copy of this one
    /// was written over it.
    ///
    /// While the log is copied into the file, and after such a copy broke off, each page of the file has its earlier
    /// content or a newer one. So a session may be missing, but none has fewer changes than before.
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
            seen.log = identity_of(&beside(&self.file, "-wal"));
        }
        if seen.written == Some(now) {
            return Ok(());
        }
        // The file was written: a checkpoint of any process copied the log into it, or another store was copied over
        // it.
        let Ok(found) = self.read(content) else {
            return Ok(()); // another process is writing it now; the next check sees the result
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
            (Some(before), Some(found)) if found.has_fewer_than(before) => {
                // A page that is not yet copied may hold anything. Only a row with the right checksum is believed.
                let Ok(believed) = self.read(believed_content) else {
                    return Ok(());
                };
                believed.is_some_and(|believed| !believed.has_fewer_than(before))
            }
            (Some(_), None) => false,
            _ => true,
        };
        if !is_ours {
            drop(seen);
            return Err(self.found_replaced());
        }
        seen.written = Some(now);
        seen.content = found;
        Ok(())
    }

    /// Checks that `connection` reads the store that was opened. Another process may have put another store in
    /// its place, and the log of the first store may have been merged into it.
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

    /// Accepts the store that `connection` reads, after a repair. A repair may lower its figures and draw a new mark.
    pub(super) fn take_over(&self, connection: &Connection) -> Result<()> {
        *self.seen.lock() = Seen {
            lineage: believed(meta::get(connection, meta::LINEAGE))?,
            log: identity_of(&beside(&self.file, "-wal")),
            ..Seen::default()
        };
        Ok(())
    }

    /// Whether the log beside the file is the log that this process has open. After a replacement the log may belong to
    /// the new file.
    pub(super) fn has_own_log(&self) -> bool {
        let own = self.seen.lock().log;
        own.is_some() && identity_of(&beside(&self.file, "-wal")) == own
    }

    /// Forgets the log: the next process that opens the file may begin another one.
    pub(super) fn let_go_of_log(&self) {
        self.seen.lock().log = None;
    }

    /// Whether the file was found to be replaced. This store stays closed then, even if the first file comes back.
    pub(super) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    /// What `content` finds in the file, without the log beside it.
    fn read<T>(&self, content: impl Fn(&Connection) -> Result<T>) -> Result<T> {
        const PAUSE: Duration = Duration::from_millis(5);
        let look = || content(&connection::immutable(&self.file)?);
        // Another process may be copying the log into the file, and then the file is inconsistent for a moment.
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

/// The content of the file, which the connection reads without a log; None for a file without a mark.
pub(super) fn content(connection: &Connection) -> Result<Option<Content>> {
    with_sessions(connection, |connection| {
        let sql = "SELECT id, revision + redactions + counter FROM session ORDER BY id";
        list(connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
    })
}

/// The same content, without sessions whose rows have a wrong checksum.
fn believed_content(connection: &Connection) -> Result<Option<Content>> {
    with_sessions(connection, |connection| {
        let rows = list(connection, session::SELECT_ALL, [], |row| {
            let row = believed(session::read(row))?;
            Ok(row.map(|row| (row.id, row.revision + row.redactions + row.counter)))
        })?;
        Ok(rows.into_iter().flatten().collect())
    })
}

fn with_sessions(
    connection: &Connection,
    sessions: impl Fn(&Connection) -> Result<Vec<(i64, i64)>>,
) -> Result<Option<Content>> {
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
    let sessions = sessions(connection)?;
    Ok(Some(Content { lineage, sessions }))
}

fn identity_of(file: &Path) -> Option<Identity> {
    identity(&file.metadata().ok()?)
}

/// The number of names (hard links) of the file.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::SessionId;
    use crate::sqlite::database::Database;
    use crate::sqlite::transaction::Transaction;

    #[test]
    fn a_session_with_fewer_changes_is_of_an_older_copy_and_a_missing_one_may_be_copied_later() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sqlite3");
        let birth = [(meta::ERASURE, meta::DONE)];
        let database = Database::open(&file, false, None, &birth).unwrap();
        let mut writer = database.writer().unwrap();
        for name in ["a", "b"] {
            let id = SessionId::new(name).unwrap();
            let begin = |transaction: &Transaction<'_>| {
                let mut row = session::find_or_create(transaction, &id)?;
                row.count(7);
                session::save(transaction, &row)
            };
            writer.transaction(begin).unwrap();
        }
        drop(writer);
        drop(database);
        let connection = connection::readable(&file).unwrap();
        let place = Place::of(&file, &connection, None).unwrap();
        let found = place.read(content).unwrap().unwrap();
        assert_eq!(place.read(believed_content).unwrap().unwrap(), found);
        assert_eq!(found.sessions.len(), 2);
        let is_ours = |change: &dyn Fn(&mut Content)| {
            let mut before = found.clone();
            change(&mut before);
            *place.seen.lock() = Seen {
                lineage: Some(before.lineage.clone()),
                content: Some(before),
                ..Seen::default()
            };
            let is_ours = place.check_content().is_ok();
            place.replaced.store(false, Ordering::Release);
            is_ours
        };
        assert!(is_ours(&|_| {}));
        assert!(is_ours(&|before| before.sessions[0].1 -= 1));
        assert!(is_ours(&|before| before.sessions.push((9, 9))));
        for place in [0, 1] {
            assert!(!is_ours(&|before| before.sessions[place].1 += 1));
        }
        assert!(!is_ours(&|before| before.lineage.push('x')));
        // A row with a wrong checksum is not believed.
        let damage = "UPDATE session SET revision = revision - 1 WHERE name = 'b'";
        connection::existing(&file)
            .unwrap()
            .execute(damage, [])
            .unwrap();
        assert!(is_ours(&|_| {}));
        assert!(!is_ours(&|before| before.sessions[0].1 += 1));
    }
}
