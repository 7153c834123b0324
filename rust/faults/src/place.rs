//! A directory for a store, with a disk over its files.

use std::fs;
use std::path::PathBuf;

use crate::disk::Disk;

/// Where a store can be, until this is dropped.
pub struct Place {
    _directory: tempfile::TempDir,
    /// What the store is opened by.
    pub path: PathBuf,
    /// Where its files are.
    pub files: PathBuf,
    /// What is under them.
    pub disk: Disk,
}

impl Place {
    /// A place with nothing in it.
    ///
    /// # Panics
    ///
    /// Where no directory can be made.
    #[must_use]
    pub fn empty() -> Self {
        let directory = tempfile::tempdir().expect("room for a directory");
        let path = directory.path().canonicalize().expect("it is there");
        let files = path.join("memory");
        fs::create_dir(&files).expect("room for a directory");
        Self {
            disk: Disk::over(&files),
            _directory: directory,
            path,
            files,
        }
    }
}
