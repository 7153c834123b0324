//! The mark of the newest commit, and how far the log is copied, in the memory that the processes of a store share
//! (`-shm`).
//!
//! SQLite keeps both at the head of that memory. A transaction that finds the mark of its connection's last transaction
//! knows that nobody has committed since, and goes on with the pages that it has. The same comparison tells without a
//! transaction that a row is as it was.

#![expect(
    unsafe_code,
    reason = "only SQLite gives the address of the memory that it shares"
)]

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rusqlite::{Connection, ffi};

/// Words of a head. It stands twice at the beginning of the memory; the second copy is written first.
const WORDS: usize = 12;

/// Bytes of the first part of the memory, which SQLite maps as one.
const BYTES: c_int = 32 * 1024;

/// The place of the number of commits.
const COMMITS: usize = 2;

/// The place of the number of frames in the log.
const FRAMES: usize = 4;

/// The place of the number of frames whose copies are synced. It stands after both copies of the head.
const COPIED: usize = 2 * WORDS;

/// The place of the number of frames that a copy has begun to write. The marks of readers and the locks stand before it.
const COPYING: usize = COPIED + 8;

/// The mark of a commit: a count, the number of frames in the log, their salts and their checksums.
///
/// Two equal marks of one open file mean that nothing was committed between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommitMark([u32; WORDS]);

impl CommitMark {
    /// The mark of the newest commit. None in the middle of a commit, or while the log is empty: all empty logs have the
    /// same mark.
    ///
    /// The connection has read from a log beside its file.
    pub(super) fn newest(connection: &Connection) -> Option<Self> {
        let head = shared(connection)?;
        let read = |copy: usize| -> [u32; WORDS] {
            std::array::from_fn(|at| head[copy * WORDS + at].load(Ordering::Relaxed))
        };
        let first = read(0);
        fence(Ordering::SeqCst);
        Self::whole(first, read(1))
    }

    /// The mark of a head whose two copies were read in the order in which a reader reads them. Copies that differ are
    /// those of a commit that is being written.
    fn whole(first: [u32; WORDS], second: [u32; WORDS]) -> Option<Self> {
        (second == first && first[FRAMES] > 0).then_some(Self(first))
    }

    /// Whether exactly one commit lies between `before` and this mark.
    pub(super) fn is_next_after(self, before: Self) -> bool {
        self.0[COMMITS] == before.0[COMMITS].wrapping_add(1)
    }
}

/// How much of the log is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogCopy {
    copied: u32,
    copying: u32,
}

impl LogCopy {
    /// None if SQLite does not tell. The connection has read from a log beside its file.
    pub(super) fn of(connection: &Connection) -> Option<Self> {
        let head = shared(connection)?;
        let [copied, copying] = [COPIED, COPYING].map(|place| head[place].load(Ordering::SeqCst));
        Some(Self { copied, copying })
    }

    /// Whether a copy is under way, or broke off. The file alone is between two states then.
    pub(super) fn is_partial(self) -> bool {
        self.copied < self.copying
    }
}

/// The head of the memory that the processes of the connection's file share.
///
/// The head stays mapped while the connection is open, so it lives no longer than the reference to the connection.
fn shared(connection: &Connection) -> Option<&[AtomicU32; COPYING + 1]> {
    let mut file: *mut ffi::sqlite3_file = null_mut();
    let mut memory: *mut c_void = null_mut();
    // SAFETY: the connection is open, and this thread has it. SQLite writes the address of its open file, which has
    // the methods of a file, and these give the address of the memory that it has mapped.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_FILE_POINTER,
            (&raw mut file).cast(),
        );
        let methods = file.as_ref()?.pMethods.as_ref()?;
        match methods.xShmMap {
            Some(map) if methods.iVersion >= 2 => map(file, 0, BYTES, 0, (&raw mut memory).cast()),
            _ => return None,
        }
    };
    let head: *mut [AtomicU32; COPYING + 1] = memory.cast();
    if code != ffi::SQLITE_OK || head.is_null() || !head.is_aligned() {
        return None;
    }
    // SAFETY: the first 32 KiB of the memory stay mapped while the connection is open. Others change its words, and
    // every word is read as an atomic.
    Some(unsafe { &*head })
}

#[cfg(test)]
impl LogCopy {
    pub(super) fn numbered(copied: u32, copying: u32) -> Self {
        Self { copied, copying }
    }
}

#[cfg(test)]
impl CommitMark {
    /// The mark of the commit with this number.
    pub(crate) fn numbered(commit: u32) -> Self {
        let mut words = [0; WORDS];
        (words[COMMITS], words[FRAMES]) = (commit, 1);
        Self(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connection;

    #[test]
    fn a_head_that_is_being_written_has_no_mark() {
        let [old, new] = [7, 8].map(CommitMark::numbered);
        assert_eq!(CommitMark::whole(old.0, old.0), Some(old));
        assert_eq!(CommitMark::whole(old.0, new.0), None);
    }

    #[test]
    fn the_count_of_commits_goes_on_at_zero() {
        let [last, first, second] = [u32::MAX, 0, 1].map(CommitMark::numbered);
        assert!(first.is_next_after(last) && second.is_next_after(first));
        assert!(!last.is_next_after(last) && !second.is_next_after(last));
    }

    #[test]
    fn a_copy_that_breaks_off_is_partial_until_one_is_done() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sqlite3");
        let writer = connection::writable(&file).unwrap();
        writer
            .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
            .unwrap();
        let copy = || LogCopy::of(&writer).unwrap();
        assert!(!copy().is_partial());
        connection::copy_log(&writer).unwrap();
        let whole = copy();
        assert!(whole.copied > 0 && !whole.is_partial(), "{whole:?}");
        writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        assert!(!copy().is_partial());
        connection::copy_log(&writer).unwrap();

        // Who opens the file anew knows nothing of a copy that may have broken off.
        writer.execute_batch("INSERT INTO t VALUES (3)").unwrap();
        let elsewhere = directory.path().join("b.sqlite3");
        for end in ["", "-wal"] {
            let [from, to] = [&file, &elsewhere].map(|file| format!("{}{end}", file.display()));
            std::fs::copy(from, to).unwrap();
        }
        let after = connection::writable(&elsewhere).unwrap();
        let _: i64 = after
            .query_row("SELECT COUNT(*) FROM t", [], |row| row.get(0))
            .unwrap();
        assert!(LogCopy::of(&after).unwrap().is_partial());
        connection::copy_log(&after).unwrap();
        assert!(!LogCopy::of(&after).unwrap().is_partial());
    }

    fn marks(connections: [&Connection; 2]) -> [Option<CommitMark>; 2] {
        connections.map(CommitMark::newest)
    }

    #[test]
    fn every_commit_of_any_connection_changes_the_mark_and_nothing_else_does() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sqlite3");
        let writer = connection::writable(&file).unwrap();
        writer.execute_batch("CREATE TABLE t (x)").unwrap();
        let reader = connection::readable(&file).unwrap();
        let both = [&writer, &reader];
        let [first, same] = marks(both);
        assert!(first.is_some() && first == same);
        let count = "SELECT COUNT(*) FROM t";
        let _: i64 = reader.query_row(count, [], |row| row.get(0)).unwrap();
        writer
            .execute_batch("BEGIN; INSERT INTO t VALUES (1); ROLLBACK; BEGIN IMMEDIATE")
            .unwrap();
        assert_eq!(marks(both), [first; 2]);
        writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        assert_eq!(marks(both), [first; 2], "it was committed too early");
        writer.execute_batch("COMMIT").unwrap();
        let [second, same] = marks(both);
        assert!(second != first && second == same);
        assert!(second.unwrap().is_next_after(first.unwrap()));
        let other = connection::existing(&file).unwrap();
        other.execute_batch("INSERT INTO t VALUES (3)").unwrap();
        let [third, _] = marks(both);
        assert!(!third.unwrap().is_next_after(first.unwrap()));
        assert!(third.unwrap().is_next_after(second.unwrap()));
    }

    #[test]
    fn an_empty_log_and_a_database_in_memory_have_none() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sqlite3");
        let writer = connection::writable(&file).unwrap();
        writer.execute_batch("CREATE TABLE t (x)").unwrap();
        drop(writer); // the log goes into the file
        let reader = connection::readable(&file).unwrap();
        assert_eq!(CommitMark::newest(&reader), None);
        assert_eq!(CommitMark::newest(&connection::in_memory().unwrap()), None);
    }
}
