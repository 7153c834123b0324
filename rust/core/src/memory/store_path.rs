//! Where is a store's file, and may it be there?

use std::fs;
use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::modes;

/// The file of the store at `path`, by its one canonical name: `path/memory/memory.sqlite3`.
///
/// Directories are made, durably, unless the store is only to be read: for those whom `mode` lets read files, or
/// else for their owner alone. Those that are there stay as they are.
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
    // A link is followed, so that a store has one name whatever way leads to it.
    Ok(file.canonicalize().unwrap_or(file))
}

/// Makes `directory` and what leads to it; a name is durable once its parent is synced.
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
