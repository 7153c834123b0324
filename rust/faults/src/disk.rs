//! A disk under one directory. A test can record its calls, make it fail, and mend it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::replay::{Image, Op, Recording};
use crate::vfs;
use crate::watch::{Call, Fault, Lie, Shared};

/// The mark of a store in its file.
const APPLICATION: u32 = 0x7374_6E65;

/// Watches the files of a directory while it lives.
pub struct Disk(Arc<Shared>);

impl Disk {
    /// Puts a disk under `directory`, which must exist.
    ///
    /// # Panics
    ///
    /// Where the directory cannot be found.
    #[must_use]
    pub fn over(directory: &Path) -> Self {
        vfs::install();
        let directory = directory.canonicalize().expect("the directory is there");
        Self(Shared::over(directory))
    }

    /// Starts a recording. All files that are in the directory now count as synced.
    ///
    /// # Panics
    ///
    /// Where the directory cannot be read.
    pub fn record(&self, lie: Lie) {
        let base = Image::of(&self.0.directory);
        let mut inner = self.0.inner.lock();
        // A file that is open keeps its number.
        inner.names.retain(|name, _| base.get(name).is_some());
        for name in base.names() {
            if !inner.names.contains_key(name) {
                let number = inner.next;
                inner.names.insert(name.clone(), number);
                inner.next += 1;
            }
        }
        inner.lie = lie;
        let numbers = inner.names.clone();
        inner.recording = Some(Recording::of(base, numbers));
    }

    /// Ends the recording and returns it.
    ///
    /// # Panics
    ///
    /// Where there is no recording.
    #[must_use]
    pub fn recorded(&self) -> Recording {
        self.0.inner.lock().recording.take().expect("recording")
    }

    /// Notes in the recording that the store has acknowledged step `number`.
    pub fn acknowledged(&self, number: usize) {
        self.0.inner.lock().note(|_| Op::Acknowledged(number));
    }

    /// Restarts the count of calls at 0, and refuses the calls of `fault`.
    pub fn arm(&self, fault: Fault) {
        let mut inner = self.0.inner.lock();
        inner.fault = Some(fault);
        inner.calls.clear();
        inner.refused.clear();
    }

    /// Makes each sync take that time, so that other threads come to wait for it.
    pub fn set_sync_time(&self, time: Duration) {
        self.0.inner.lock().sync_time = time;
    }

    /// Stops refusing calls. Returns the calls that were refused.
    #[must_use]
    pub fn mend(&self) -> Vec<Call> {
        let mut inner = self.0.inner.lock();
        inner.fault = None;
        std::mem::take(&mut inner.refused)
    }

    /// The calls that could have been refused, in order, since the disk was created or armed.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.0.inner.lock().calls.clone()
    }

    /// The number of connections that were opened to the database.
    #[must_use]
    pub fn connections_opened(&self) -> u64 {
        self.0.inner.lock().opened
    }

    /// Sets `PRAGMA synchronous` on every open connection, without the store's knowledge.
    ///
    /// No connection may be in use at the time.
    ///
    /// # Panics
    ///
    /// Where a connection refuses it, or no connection is open.
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

    /// Commits one page that says what it said before, without the store's knowledge.
    ///
    /// No connection may be in use at the time.
    ///
    /// # Panics
    ///
    /// Where no connection that writes is open.
    pub fn commit_a_page(&self) {
        let connections: Vec<usize> = {
            let inner = self.0.inner.lock();
            inner.connections.values().copied().collect()
        };
        let sql = format!("PRAGMA application_id = {APPLICATION}");
        let mut committed = connections
            .into_iter()
            .map(|each| vfs::executes(each, &sql));
        assert!(committed.any(|is_done| is_done), "no connection writes");
    }

    /// The directory of the disk.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }
}

impl Image {
    /// The files of `directory`, without the shared memory `-shm`, which a loss of power does not leave.
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
