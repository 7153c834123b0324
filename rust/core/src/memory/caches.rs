//! The caches of a store: a file a session, in a directory beside the database.
//!
//! They are disposable. What fails here is not told: a search then reads the rows, as it does without.

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

/// Bytes that are written at once: the system keeps what was written so in large pieces, and maps those quickly.
const BUFFER: usize = 4 << 20;

/// Bytes that are brought to the disk at once, in some milliseconds.
const PIECE: usize = 1 << 20;

/// Where the caches of a store are.
pub(super) struct Caches {
    /// None for a store in memory, which has none.
    directory: Option<PathBuf>,
    /// The permissions of the files: those of the database.
    mode: Option<u32>,
    /// Held by who writes one: the disk is the store's as well, where others wait for their commits.
    turn: Mutex<()>,
}

/// A file that is brought to the disk piece by piece, as it is written. A commit that comes meanwhile waits for one
/// piece, where a system would otherwise bring all of the file to the disk first.
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

    /// No caches: for a store in memory.
    pub(super) fn none() -> Self {
        Self {
            directory: None,
            mode: None,
            turn: Mutex::new(()),
        }
    }

    /// Reads the needed indexes from the session's file of that checksum; None if the file is of no use.
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

    /// Writes a file, which is whole when it has its name. The checksum that it is known by.
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

    /// Whether the session has a file of that checksum, by its name.
    pub(super) fn has(&self, session: i64, checksum: u64) -> bool {
        self.path(session, checksum)
            .is_some_and(|path| path.exists())
    }

    /// Whether a file that is there is what its name says.
    pub(super) fn is_whole(&self, session: i64, checksum: u64) -> bool {
        self.path(session, checksum)
            .and_then(|path| Reader::open(&path, checksum))
            .is_some_and(|reader| reader.is_whole())
    }

    /// Deletes a file.
    pub(super) fn discard(&self, session: i64, checksum: u64) {
        if let Some(path) = self.path(session, checksum) {
            let _ = fs::remove_file(path); // one that stays is of no use to anybody
        }
    }

    /// Whether there has never been a cache.
    pub(super) fn are_none(&self) -> bool {
        !self
            .directory
            .as_ref()
            .is_some_and(|directory| directory.exists())
    }

    /// Deletes the files of a session, but for that of the checksum `kept`; whether all of them are gone.
    pub(super) fn remove(&self, session: i64, kept: Option<u64>) -> bool {
        let prefix = format!("{session}-");
        let kept = kept.map(|checksum| name(session, checksum));
        self.remove_if(|name| name.starts_with(&prefix) && Some(name) != kept.as_deref())
    }

    /// Deletes every file that the database does not name: those of writers that were killed.
    pub(super) fn sweep(&self, believed: &HashMap<i64, u64>) -> bool {
        let kept: Vec<String> = believed
            .iter()
            .map(|(&session, &checksum)| name(session, checksum))
            .collect();
        self.remove_if(|name| !kept.iter().any(|kept| kept == name))
    }

    /// Bytes that they take on the disk.
    pub(super) fn bytes(&self) -> u64 {
        let sizes = self.files().into_iter().map(|(_, path)| path.metadata());
        sizes
            .map(|metadata| metadata.map_or(0, |metadata| metadata.len()))
            .sum()
    }

    fn remove_if(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        let files = self.files().into_iter();
        let meant = files.filter(|(name, _)| is_meant(name));
        // Each is tried, whatever becomes of the others.
        meant.fold(true, |all, (_, path)| {
            let gone = match fs::remove_file(path) {
                Err(error) => error.kind() == io::ErrorKind::NotFound,
                Ok(()) => true,
            };
            gone && all
        })
    }

    /// The files that are ours, by their names.
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
