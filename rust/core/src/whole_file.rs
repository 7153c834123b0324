//! Files that are there whole, or not at all.
//!
//! A file is written beside its place, under a name that nobody else has: several threads may write one
//! file at once, and processes of several containers may share their ids. It takes its name once it is on
//! disk, and is deleted where it does not come to that.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::path::Path;

use tempfile::{Builder, NamedTempFile, TempPath};

/// What the name of a file ends with that is not whole yet.
pub(crate) const UNFINISHED: &str = ".saving";

/// A file in `directory` whose name begins with `prefix`, to be written and then named.
///
/// Its owner alone can read it, until `permissions` are given.
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

/// Gives a file that was written whole its name, and takes the place of what has it.
pub(crate) fn name(file: &File, unfinished: TempPath, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    unfinished.persist(path).map_err(|refused| refused.error)
}

/// Puts `contents` in place at `path`.
pub(crate) fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut prefix = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    prefix.push('.');
    let (mut file, unfinished) = begin(directory, &prefix, usual_permissions())?.into_parts();
    file.write_all(contents)?;
    name(&file, unfinished, path)
}

/// Those of any new file, which the process's mask takes some of. A temporary file is its owner's alone
/// otherwise.
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
