//! Permissions of the files of a store. By default only the owner can read them, whatever the umask of the process;
//! the caller can choose another mode.

use std::fs;
use std::io;
use std::path::Path;

/// The default mode of a new file: only its owner reads and writes it.
const OWNER: u32 = 0o600;

/// Makes an empty file with the permissions `mode`; by default only its owner can read it. An existing file stays as
/// it is. A failure is not reported here: the open that follows reports it.
pub(crate) fn make_file(file: &Path, mode: Option<u32>) {
    let _ = try_to_make(file, mode.unwrap_or(OWNER) & 0o666);
}

/// Makes a directory with the permissions `mode`; by default only its owner can enter it.
pub(crate) fn make_directory(directory: &Path, mode: Option<u32>) -> io::Result<()> {
    let mode = mode.unwrap_or(OWNER) & 0o666;
    let searched = (mode & 0o444) >> 2; // a user who may read files may also enter the directory
    make_one(directory, mode | searched)
}

/// The permissions of `file`. The files beside it get the same.
pub(crate) fn mode_of(file: &Path) -> Option<u32> {
    file.metadata().ok().and_then(|metadata| bits(&metadata))
}

/// Sets the mode of an open file, whatever the umask of the process.
#[cfg(unix)]
pub(crate) fn set_mode(file: &fs::File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(unix)]
fn try_to_make(file: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;

    let created = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(file)?;
    // The umask may have removed some bits.
    set_mode(&created, mode)
}

#[cfg(unix)]
fn make_one(directory: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    fs::DirBuilder::new().mode(mode).create(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(mode))
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there are none")]
fn bits(metadata: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;

    Some(metadata.permissions().mode() & 0o666)
}

#[cfg(not(unix))]
pub(crate) fn set_mode(_: &fs::File, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn try_to_make(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn make_one(directory: &Path, _: u32) -> io::Result<()> {
    fs::create_dir(directory)
}

#[cfg(not(unix))]
fn bits(_: &fs::Metadata) -> Option<u32> {
    None
}
