//! What is done to the files of one directory: counted, recorded, refused.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rusqlite::ffi;

use crate::replay::{Image, Op, Recording};
use crate::vfs;

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

/// A directory whose files are watched, for as long as this lives.
pub struct Disk(Arc<Shared>);

pub(crate) struct Shared {
    directory: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    lie: Lie,
    calls: Vec<Call>,
    fault: Option<Fault>,
    refused: Vec<Call>,
    recording: Option<Recording>,
    /// The file that a name stands for now.
    names: HashMap<String, u64>,
    next: u64,
    /// Connections that have the database open, as addresses, by the address of their file.
    connections: HashMap<usize, usize>,
    opened: u64,
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

impl Disk {
    /// Lays a disk over `directory`, which is there.
    ///
    /// # Panics
    ///
    /// Where the directory cannot be found.
    #[must_use]
    pub fn over(directory: &Path) -> Self {
        vfs::install();
        let directory = directory.canonicalize().expect("the directory is there");
        let shared = Arc::new(Shared {
            directory,
            inner: Mutex::default(),
        });
        DISKS.lock().push(Arc::downgrade(&shared));
        Self(shared)
    }

    /// Records from now on. Whatever is in the directory counts as safe.
    ///
    /// # Panics
    ///
    /// Where the directory cannot be read.
    pub fn record(&self, lie: Lie) {
        let base = Image::of(&self.0.directory);
        let mut inner = self.0.inner.lock();
        inner.names.clear();
        inner.next = 0;
        for name in base.names() {
            let number = inner.next;
            inner.names.insert(name.clone(), number);
            inner.next += 1;
        }
        inner.lie = lie;
        inner.recording = Some(Recording::of(base));
    }

    /// What was recorded so far. Recording ends.
    ///
    /// # Panics
    ///
    /// Where nothing was being recorded.
    #[must_use]
    pub fn recorded(&self) -> Recording {
        self.0.inner.lock().recording.take().expect("recording")
    }

    /// Says in the recording that the store has acknowledged the step `number`.
    pub fn acknowledged(&self, number: usize) {
        self.0.inner.lock().note(|_| Op::Acknowledged(number));
    }

    /// Counts from 0 again, and refuses what `fault` says.
    pub fn arm(&self, fault: Fault) {
        let mut inner = self.0.inner.lock();
        inner.fault = Some(fault);
        inner.calls.clear();
        inner.refused.clear();
    }

    /// Refuses nothing any more. What was refused.
    #[must_use]
    pub fn mend(&self) -> Vec<Call> {
        let mut inner = self.0.inner.lock();
        inner.fault = None;
        std::mem::take(&mut inner.refused)
    }

    /// The calls that can be refused, in their order, since the disk was laid or armed.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.0.inner.lock().calls.clone()
    }

    /// How often a connection opened a database.
    #[must_use]
    pub fn connections_opened(&self) -> u64 {
        self.0.inner.lock().opened
    }

    /// Sets `PRAGMA synchronous` behind the store's back, on every connection that is open.
    ///
    /// No connection may be in use meanwhile.
    ///
    /// # Panics
    ///
    /// Where a connection refuses it, or none is open.
    pub fn set_synchronous(&self, mode: &str) {
        let connections: Vec<usize> = {
            let inner = self.0.inner.lock();
            inner.connections.values().copied().collect()
        };
        assert!(!connections.is_empty(), "no connection is open");
        for connection in connections {
            vfs::execute(connection, &format!("PRAGMA synchronous = {mode}"));
        }
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }
}

impl Inner {
    fn note(&mut self, op: impl FnOnce(&HashMap<String, u64>) -> Op) {
        if let Some(recording) = &mut self.recording {
            recording.ops.push(op(&self.names));
        }
    }
}

impl Shared {
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

impl Image {
    /// What is in `directory`; the memory that processes share is no file that a power cut leaves.
    ///
    /// # Panics
    ///
    /// Where the directory cannot be read.
    #[must_use]
    pub fn of(directory: &Path) -> Self {
        let files = fs::read_dir(directory).expect("the directory is there");
        files
            .map(|file| file.expect("an entry of the directory").path())
            .filter(|path| path.is_file())
            .filter_map(|path| {
                let name = path.file_name()?.to_str()?.to_owned();
                let bytes = fs::read(&path).expect("a file that is there");
                (!name.ends_with("-shm")).then_some((name, bytes))
            })
            .collect()
    }
}
