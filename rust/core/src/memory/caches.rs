//! The caches of a store: one file for each session, in a directory beside the database.
//!
//! Caches are disposable. Failures here are not reported: a search then reads the rows instead.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::cache::Reader;
use crate::memory::cached::Snapshot;
use crate::memory::reading::Reading;
use crate::memory::required_indexes::RequiredIndexes;
use crate::sqlite::{SessionRow, modes};
use crate::whole_file::{self, UNFINISHED};

/// The suffix of a cache's name, and of a file that is being written.
const ENDS: [&str; 2] = [".postings", UNFINISHED];

/// Bytes of one write. The system keeps data that is written in large pieces in large pages, which are fast to map.
const BUFFER: usize = 4 << 20;

/// Bytes that are synced at once, which takes some milliseconds.
const PIECE: usize = 1 << 20;

/// The directory of the caches of a store.
pub(super) struct Caches {
    /// None for a store in memory, which has no caches.
    directory: Option<PathBuf>,
    /// The permissions of the files, which are those of the database.
    mode: Option<u32>,
    /// Held while a cache is written. One at a time, because commits of the store wait for the same disk.
    turn: Mutex<()>,
}

/// A file that is synced piece by piece while it is written. A commit in between waits for one piece. Without this,
/// the system could write the whole file to the disk before the commit.
struct Paced(File);

impl Write for Paced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(&bytes[..bytes.len().min(PIECE)])?;
        self.0.sync_data()?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Caches {
    /// The caches beside the database `file`. The directory is made with the first cache.
    pub(super) fn beside(file: &Path) -> Self {
        Self {
            directory: Some(file.with_file_name("cache")),
            mode: modes::mode_of(file),
            turn: Mutex::new(()),
        }
    }

    /// No caches, for a store in memory.
    pub(super) fn none() -> Self {
        Self {
            directory: None,
            mode: None,
            turn: Mutex::new(()),
        }
    }

    /// Reads the needed indexes from the session's file of that checksum. None if the file cannot be used.
    pub(super) fn read(
        &self,
        row: &SessionRow,
        checksum: u64,
        reading: Reading,
        needs: RequiredIndexes,
    ) -> Option<Snapshot> {
        let reader = Reader::open(&self.path(row.id, checksum)?, checksum)?;
        Snapshot::read(&reader, row, reading, needs)
    }

    /// Writes a cache file, which gets its name when it is complete. Gives its checksum.
    pub(super) fn write(&self, snapshot: &Snapshot) -> io::Result<u64> {
        let Some(directory) = &self.directory else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        match modes::make_directory(directory, self.mode) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let _turn = self.turn.lock();
        let prefix = format!("{}-", snapshot.session);
        let (file, unfinished) = whole_file::begin(directory, &prefix, None)?.into_parts();
        if let Some(mode) = self.mode {
            modes::set_mode(&file, mode)?;
        }
        let (to, checksum) = snapshot.write(BufWriter::with_capacity(BUFFER, Paced(file)))?;
        let path = directory.join(name(snapshot.session, checksum));
        whole_file::name(&to.into_inner()?.0, unfinished, &path)?;
        Ok(checksum)
    }

    /// Whether there is a file of that session and checksum, by its name.
    pub(super) fn has(&self, session: i64, checksum: u64) -> bool {
        self.path(session, checksum)
            .is_some_and(|path| path.exists())
    }

    /// Whether the content of the file matches its checksum.
    pub(super) fn is_whole(&self, session: i64, checksum: u64) -> bool {
        self.path(session, checksum)
            .and_then(|path| Reader::open(&path, checksum))
            .is_some_and(|reader| reader.is_whole())
    }

    /// Deletes a file.
    pub(super) fn discard(&self, session: i64, checksum: u64) {
        if let Some(path) = self.path(session, checksum) {
            let _ = fs::remove_file(path); // a file that cannot be deleted does no harm
        }
    }

    /// Whether the directory of the caches does not exist.
    pub(super) fn are_none(&self) -> bool {
        !self
            .directory
            .as_ref()
            .is_some_and(|directory| directory.exists())
    }

    /// Deletes the files of a session, except the one with checksum `kept`. True if all of them are gone.
    pub(super) fn remove(&self, session: i64, kept: Option<u64>) -> bool {
        let prefix = format!("{session}-");
        let kept = kept.map(|checksum| name(session, checksum));
        self.remove_if(|name| name.starts_with(&prefix) && Some(name) != kept.as_deref())
    }

    /// Deletes every file that is not in `believed`, such as files of killed writers. True if all of them are gone.
    pub(super) fn sweep(&self, believed: &HashMap<i64, u64>) -> bool {
        let kept: Vec<String> = believed
            .iter()
            .map(|(&session, &checksum)| name(session, checksum))
            .collect();
        self.remove_if(|name| !kept.iter().any(|kept| kept == name))
    }

    /// Bytes of the files on the disk.
    pub(super) fn bytes(&self) -> u64 {
        let sizes = self.files().into_iter().map(|(_, path)| path.metadata());
        sizes
            .map(|metadata| metadata.map_or(0, |metadata| metadata.len()))
            .sum()
    }

    fn remove_if(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        let files = self.files().into_iter();
        let meant = files.filter(|(name, _)| is_meant(name));
        // Each file is tried, even after a failure.
        meant.fold(true, |all, (_, path)| {
            let gone = match fs::remove_file(path) {
                Err(error) => error.kind() == io::ErrorKind::NotFound,
                Ok(()) => true,
            };
            gone && all
        })
    }

    /// The cache files in the directory, with their names.
    fn files(&self) -> Vec<(String, PathBuf)> {
        let Some(Ok(entries)) = self.directory.as_ref().map(fs::read_dir) else {
            return Vec::new();
        };
        let named = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_ours = ENDS.iter().any(|end| name.ends_with(end));
            is_ours.then(|| (name, entry.path()))
        });
        named.collect()
    }

    fn path(&self, session: i64, checksum: u64) -> Option<PathBuf> {
        let directory = self.directory.as_ref()?;
        Some(directory.join(name(session, checksum)))
    }
}

fn name(session: i64, checksum: u64) -> String {
    format!("{session}-{checksum:016x}{}", ENDS[0])
}
