//! A directory for a store, with a [`Disk`] over its files.

use std::fs;
use std::path::PathBuf;

use crate::disk::Disk;

/// A directory for a store. It is deleted when this is dropped.
pub struct Place {
    _directory: tempfile::TempDir,
    /// The path with which the store is opened.
    pub path: PathBuf,
    /// The directory of the store's files.
    pub files: PathBuf,
    /// The disk under these files.
    pub disk: Disk,
}

impl Place {
    /// An empty place.
    ///
    /// # Panics
    ///
    /// Where no directory can be created.
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
