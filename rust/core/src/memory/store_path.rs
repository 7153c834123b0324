//! Finds the file of a store, and checks that a store can be there.

use std::fs;
use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::modes;

/// The canonical path of the file of the store at `path`: `path/memory/memory.sqlite3`.
///
/// Unless the store is read-only, missing directories are made durably, with permissions from `mode`; by default only
/// the owner can enter them. Existing directories stay as they are.
pub(super) fn file(path: &Path, read_only: bool, mode: Option<u32>) -> Result<PathBuf> {
    let directory = path.join("memory");
    if !read_only {
        make(&directory, mode)
            .map_err(|error| unopened(path, &error.to_string()).caused_by(error))?;
    }
    let directory = match directory.canonicalize() {
        Ok(directory) if directory.is_dir() => directory,
        Ok(_) => return Err(unopened(path, "'memory' in it is not a directory")),
        Err(error) if error.kind() == Io::NotFound => {
            return Err(unopened(path, "there is no store to read").caused_by(error));
        }
        Err(error) => return Err(unopened(path, &error.to_string()).caused_by(error)),
    };
    let file = directory.join("memory.sqlite3");
    // Links are followed, so that a store has one name, whatever path leads to it.
    Ok(file.canonicalize().unwrap_or(file))
}

/// Makes `directory` and its missing parents. A new name is durable once its parent directory is synced.
fn make(directory: &Path, mode: Option<u32>) -> std::io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let parent = directory
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or_else(|| Path::new("."));
    make(parent, mode)?;
    match modes::make_directory(directory, mode) {
        Err(error) if error.kind() == Io::AlreadyExists && directory.is_dir() => Ok(()),
        outcome => outcome,
    }?;
    if cfg!(unix) {
        fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}

fn unopened(path: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::StoreOpen,
        format!("cannot open a store at '{}': {why}", path.display()),
    )
    .with("path", path.to_string_lossy().into_owned())
}
