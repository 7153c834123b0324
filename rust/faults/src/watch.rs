//! What is known of the files of one directory, and which call on them is refused.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rusqlite::ffi;

use crate::replay::{Op, Recording};

/// Something that a file system can refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// A file is made.
    Create,
    /// Bytes are written.
    Write,
    /// A file is cut.
    Truncate,
    /// Bytes are to reach the disk.
    Sync,
    /// A file goes.
    Delete,
    /// The memory that processes share for the log grows.
    Share,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// `ENOSPC`
    NoSpace,
    /// `EIO`
    Io,
}

/// A refusal that is to come.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The number of the call, from 1, that is refused.
    pub at: u64,
    /// Why.
    pub trouble: Trouble,
    /// Whether every later one is refused too, until the disk is mended.
    pub lasting: bool,
}

/// A disk, or a caller, that does not do what it says: what the tests must find out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lie {
    /// None: it is honest.
    #[default]
    None,
    /// Syncs are accepted and not carried out.
    NoSync,
}

pub(crate) struct Shared {
    pub(crate) directory: PathBuf,
    pub(crate) inner: Mutex<Inner>,
}

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) lie: Lie,
    pub(crate) calls: Vec<Call>,
    pub(crate) fault: Option<Fault>,
    pub(crate) refused: Vec<Call>,
    pub(crate) recording: Option<Recording>,
    /// The file that a name stands for now.
    pub(crate) names: HashMap<String, u64>,
    pub(crate) next: u64,
    /// Connections that have the database open, as addresses, by the address of their file.
    pub(crate) connections: HashMap<usize, usize>,
    pub(crate) opened: u64,
}

/// The disks that there are.
static DISKS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// The disk under `path`.
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
    /// Watches `directory`, for as long as what is returned lives.
    pub(crate) fn over(directory: PathBuf) -> Arc<Self> {
        let shared = Arc::new(Self {
            directory,
            inner: Mutex::default(),
        });
        DISKS.lock().push(Arc::downgrade(&shared));
        shared
    }

    /// The code that the next call fails with, if it is to be refused.
    pub(crate) fn refuses(&self, call: Call) -> Option<i32> {
        let mut inner = self.inner.lock();
        inner.calls.push(call);
        let number = inner.calls.len() as u64;
        let fault = inner.fault?;
        let reached = if fault.lasting {
            // A full disk still syncs, cuts and deletes.
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

    /// The number of the file `name`, which was made now if `made`.
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

    /// `directory`: the names in it are safe as well.
    pub(crate) fn synced(&self, file: u64, directory: bool) {
        let mut inner = self.inner.lock();
        if inner.lie != Lie::NoSync {
            inner.note(|_| Op::Sync { file, directory });
        }
    }

    /// What is not on the disk yet may never get there: a later sync says nothing about it.
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
