//! The state of a disk: the files of one directory, and the calls that are refused.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::ffi;

use crate::replay::{Op, Recording};

/// A call that a file system can refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// Creates a file.
    Create,
    /// Writes bytes.
    Write,
    /// Cuts a file.
    Truncate,
    /// Brings written bytes to the disk.
    Sync,
    /// Deletes a file.
    Delete,
    /// Extends the memory that processes share for the log.
    Share,
}

/// The reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// `ENOSPC`
    NoSpace,
    /// `EIO`
    Io,
}

/// A refusal of a later call.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The number of the refused call, from 1.
    pub at: u64,
    /// The reason.
    pub trouble: Trouble,
    /// Whether all later calls are refused too, until the disk is mended.
    pub lasting: bool,
}

/// A false promise of the disk. The tests must detect its effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lie {
    /// None: the disk is honest.
    #[default]
    None,
    /// Syncs report success and do nothing.
    NoSync,
}

pub(crate) struct Shared {
    pub(crate) directory: PathBuf,
    pub(crate) inner: Mutex<Inner>,
}

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) lie: Lie,
    /// The time that a sync takes.
    pub(crate) sync_time: Duration,
    pub(crate) calls: Vec<Call>,
    pub(crate) fault: Option<Fault>,
    pub(crate) refused: Vec<Call>,
    pub(crate) recording: Option<Recording>,
    /// The number of the file that has each name now.
    pub(crate) names: HashMap<String, u64>,
    pub(crate) next: u64,
    /// The addresses of the connections with an open database, by the address of their file.
    pub(crate) connections: HashMap<usize, usize>,
    pub(crate) opened: u64,
}

/// All disks.
static DISKS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// The disk of the directory that contains `path`.
pub(crate) fn under(path: &Path) -> Option<Arc<Shared>> {
    let mut disks = DISKS.lock();
    disks.retain(|disk| disk.strong_count() > 0);
    disks
        .iter()
        .filter_map(Weak::upgrade)
        .find(|disk| path.starts_with(&disk.directory))
}

impl Inner {
    pub(crate) fn note(&mut self, op: impl FnOnce(&HashMap<String, u64>) -> Op) {
        if let Some(recording) = &mut self.recording {
            recording.ops.push(op(&self.names));
        }
    }
}

impl Shared {
    /// Watches `directory` while the returned value lives.
    pub(crate) fn over(directory: PathBuf) -> Arc<Self> {
        let shared = Arc::new(Self {
            directory,
            inner: Mutex::default(),
        });
        DISKS.lock().push(Arc::downgrade(&shared));
        shared
    }

    /// The error code of the next call, if it is to be refused.
    pub(crate) fn refuses(&self, call: Call) -> Option<i32> {
        let mut inner = self.inner.lock();
        inner.calls.push(call);
        let number = inner.calls.len() as u64;
        let fault = inner.fault?;
        let reached = if fault.lasting {
            // A full disk still syncs, cuts and deletes files.
            let grows = matches!(call, Call::Create | Call::Write | Call::Share);
            number >= fault.at && (grows || fault.trouble == Trouble::Io)
        } else {
            number == fault.at
        };
        if !reached {
            return None;
        }
        inner.refused.push(call);
        Some(match (call, fault.trouble) {
            (Call::Create, _) => ffi::SQLITE_CANTOPEN,
            (Call::Write, Trouble::NoSpace) => ffi::SQLITE_FULL,
            (Call::Write, Trouble::Io) => ffi::SQLITE_IOERR_WRITE,
            (Call::Truncate, _) => ffi::SQLITE_IOERR_TRUNCATE,
            (Call::Sync, _) => ffi::SQLITE_IOERR_FSYNC,
            (Call::Delete, _) => ffi::SQLITE_IOERR_DELETE,
            (Call::Share, _) => ffi::SQLITE_IOERR_SHMSIZE,
        })
    }

    /// The number of the file `name`. With `made`, it is a new file.
    pub(crate) fn opened(&self, name: &str, made: bool) -> u64 {
        let mut inner = self.inner.lock();
        if let (false, Some(&number)) = (made, inner.names.get(name)) {
            return number;
        }
        let number = inner.next;
        inner.next += 1;
        inner.names.insert(name.to_owned(), number);
        let name = name.to_owned();
        inner.note(|_| Op::Create { file: number, name });
        number
    }

    pub(crate) fn wrote(&self, file: u64, offset: u64, bytes: &[u8]) {
        let mut inner = self.inner.lock();
        inner.note(|_| Op::Write {
            file,
            offset,
            bytes: bytes.to_vec(),
        });
    }

    pub(crate) fn truncated(&self, file: u64, size: u64) {
        self.inner.lock().note(|_| Op::Truncate { file, size });
    }

    /// Notes a sync of the file; with `directory`, also of the names in the directory.
    pub(crate) fn synced(&self, file: u64, directory: bool) {
        let mut inner = self.inner.lock();
        if inner.lie != Lie::NoSync {
            inner.note(|_| Op::Sync { file, directory });
        }
    }

    /// Notes a failed sync. Unsynced changes may be lost now, and a later sync does not report this.
    pub(crate) fn sync_failed(&self, file: u64) {
        self.inner.lock().note(|_| Op::SyncFailed { file });
    }

    pub(crate) fn deleted(&self, name: &str, directory: bool) {
        let mut inner = self.inner.lock();
        inner.names.remove(name);
        let name = name.to_owned();
        let directory = directory && inner.lie != Lie::NoSync;
        inner.note(|_| Op::Delete { name, directory });
    }

    pub(crate) fn connected(&self, file: usize, connection: usize) {
        let mut inner = self.inner.lock();
        inner.opened += 1;
        inner.connections.insert(file, connection);
    }

    pub(crate) fn closed(&self, file: usize) {
        self.inner.lock().connections.remove(&file);
    }
}
