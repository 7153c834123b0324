//! Writes files that are complete, or not there at all.
//!
//! A file is written in the directory of its place, under a unique temporary name: several threads may write the same
//! file at once, and processes of several containers may have the same ids. It gets its name once it is on the
//! disk, and is deleted if this fails.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempPath};

/// The suffix of a file that is not complete yet.
pub(crate) const UNFINISHED: &str = ".saving";

/// A new file in `directory` with a name that begins with `prefix`. The caller writes it and then calls [`name`].
///
/// Without `permissions`, only its owner can read it.
pub(crate) fn begin(
    directory: &Path,
    prefix: &str,
    permissions: Option<Permissions>,
) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(prefix).suffix(UNFINISHED);
    if let Some(permissions) = permissions {
        builder.permissions(permissions);
    }
    builder.tempfile_in(directory)
}

/// Gives a complete file its name. It replaces an existing file of that name.
pub(crate) fn name(file: &File, unfinished: TempPath, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    unfinished.persist(path).map_err(|refused| refused.error)
}

/// Writes `contents` to the file `path`, whole or not at all. The file and its name are on the disk afterwards.
pub(crate) fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let directory = directory_of(path);
    let mut prefix = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    prefix.push('.');
    let (mut file, unfinished) = begin(directory, &prefix, usual_permissions())?.into_parts();
    file.write_all(contents)?;
    name(&file, unfinished, path)?;
    match sync_directory(path) {
        // A directory that may be written and not read cannot be opened.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

/// Writes the names in the directory of `path` to the disk, as far as the system has a way to do so.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(directory_of(path))?.sync_all()?;
    }
    Ok(())
}

/// The path whose name is that of `file` with `suffix` behind it.
pub(crate) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The permissions of an ordinary new file, before the umask of the process. Without them, only the owner could read a
/// temporary file.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there are none")]
fn usual_permissions() -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt;

    Some(Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn usual_permissions() -> Option<Permissions> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, thread};

    #[test]
    fn threads_that_write_one_file_at_once_leave_one_of_theirs_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index");
        thread::scope(|scope| {
            for byte in 0..8_u8 {
                let path = &path;
                scope.spawn(move || write(path, &vec![byte; 100_000]).unwrap());
            }
        });
        let found = fs::read(&path).unwrap();
        assert_eq!(found.len(), 100_000);
        assert!(found.iter().all(|byte| *byte == found[0]));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_take_its_place_is_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "kept").unwrap();
        assert!(write(&path, b"new").is_err());
        assert_eq!(fs::read_to_string(path.join("inside")).unwrap(), "kept");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_has_the_permissions_of_any_new_one() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let [ours, usual] = ["ours", "usual"].map(|name| directory.path().join(name));
        write(&ours, b"").unwrap();
        fs::write(&usual, b"").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&usual));
    }
}
