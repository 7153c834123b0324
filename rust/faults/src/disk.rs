//! A disk under one directory, as a test holds it: it records, it is armed, it is mended.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::replay::{Image, Op, Recording};
use crate::vfs;
use crate::watch::{Call, Fault, Lie, Shared};

/// A directory whose files are watched, for as long as this lives.
pub struct Disk(Arc<Shared>);

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
        Self(Shared::over(directory))
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
