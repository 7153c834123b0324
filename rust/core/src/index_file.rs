//! An index in a file that a user saves: a label that describes it, and arrays in the format of a cache.
//!
//! A file is put in place whole or not at all, and checked completely before it is used. It is read into memory, so
//! overwriting it does not change an index that was loaded from it.

use std::fs;
use std::io;
use std::path::Path;

use crate::cache::{Reader, VERSION, Writer, version};
use crate::error::{Error, ErrorKind, Result};
use crate::whole_file;

/// The bytes of an index file: the label, and the arrays that `put` writes.
///
/// # Errors
///
/// [`ErrorKind::Internal`] where `put` fails.
pub fn to_bytes(
    label: &str,
    put: impl FnOnce(&mut Writer<Vec<u8>>) -> io::Result<()>,
) -> Result<Vec<u8>> {
    let write = || {
        let mut writer = Writer::new(Vec::new())?;
        writer.put(label.as_bytes())?;
        put(&mut writer)?;
        writer.finish().map(|(bytes, _)| bytes)
    };
    write().map_err(|cause| {
        Error::new(
            ErrorKind::Internal,
            "an index could not be written to memory",
        )
        .caused_by(cause)
    })
}

/// Reads a file of [`to_bytes`]. `accept` gets its label, `read` its arrays, and both refuse with None.
///
/// # Errors
///
/// [`ErrorKind::StoreOpen`] for another kind of file or of index; [`ErrorKind::StoreVersion`] for another version;
/// [`ErrorKind::StoreCorrupt`] where the file was cut short or changed.
pub fn from_bytes<T, L>(
    file: &[u8],
    accept: impl FnOnce(&str) -> Option<L>,
    read: impl FnOnce(&mut Reader) -> Option<T>,
) -> Result<(T, L)> {
    let refuse = |kind, why: &str| Err(Error::new(kind, format!("the file of the index {why}")));
    let is_corrupt = "was cut short or changed since it was saved";
    let Some(found) = version(file) else {
        return refuse(ErrorKind::StoreOpen, "is not an index that was saved");
    };
    if found != VERSION {
        let why = format!("has version {found} of the format, and this siltstone reads {VERSION}");
        return refuse(ErrorKind::StoreVersion, &why);
    }
    let Some(mut reader) = Reader::of_bytes(file) else {
        return refuse(ErrorKind::StoreCorrupt, is_corrupt);
    };
    let label = reader.numbers::<u8>();
    let Some(label) = label.and_then(|label| String::from_utf8(label).ok()) else {
        return refuse(ErrorKind::StoreCorrupt, is_corrupt);
    };
    let Some(accepted) = accept(&label) else {
        let why = format!("is an index of another kind: {label:?}");
        return refuse(ErrorKind::StoreOpen, &why);
    };
    match read(&mut reader).filter(|_| reader.is_done()) {
        Some(index) => Ok((index, accepted)),
        None => refuse(ErrorKind::StoreCorrupt, is_corrupt),
    }
}

/// Puts a file in place, whole or not at all. It replaces an existing file.
///
/// # Errors
///
/// [`ErrorKind::StoreIo`], with the path.
pub fn write(path: &Path, file: &[u8]) -> Result<()> {
    whole_file::write(path, file).map_err(|cause| failed("write", path, cause))
}

/// The bytes of a file.
///
/// # Errors
///
/// [`ErrorKind::StoreIo`], with the path.
fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|cause| failed("read", path, cause))
}

/// Reads the file at `path` with `open`. Errors name the path.
///
/// # Errors
///
/// [`ErrorKind::StoreIo`], and the errors of `open`.
pub fn load<T>(path: &Path, open: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    let file = read(path)?;
    open(&file).map_err(|error| {
        let message = format!("{error}, at '{}'", path.display());
        named(path, Error::new(error.kind(), message))
    })
}

fn failed(what: &str, path: &Path, cause: io::Error) -> Error {
    let message = format!(
        "could not {what} the index at '{}': {cause}",
        path.display()
    );
    named(path, Error::new(ErrorKind::StoreIo, message)).caused_by(cause)
}

fn named(path: &Path, error: Error) -> Error {
    error.with("path", path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bm25::{Bm25Index, Bm25Params, Document, Query};
    use crate::cache::renew;

    const LABEL: &str = "words";

    /// An index with all kinds of passages: a term that has a column, counts above 15, and removed passages.
    fn written() -> Vec<u8> {
        let mut index = Bm25Index::new(Bm25Params::default());
        for number in 0..5_000 {
            let often = if number % 700 == 0 { 40 } else { 1 };
            index.add(&Document::of(&format!(
                "{} {number}",
                "silt ".repeat(often)
            )));
        }
        for id in (0..5_000).step_by(3) {
            index.remove(id);
        }
        index.to_bytes(LABEL).unwrap()
    }

    fn kind(file: &[u8]) -> Option<ErrorKind> {
        Bm25Index::from_bytes(file, LABEL)
            .err()
            .map(|error| error.kind())
    }

    #[test]
    fn another_kind_of_file_another_label_and_another_version_are_told_apart() {
        let file = written();
        assert_eq!(kind(&file), None);
        assert_eq!(kind(b"not an index"), Some(ErrorKind::StoreOpen));
        let other = Bm25Index::from_bytes(&file, "other words").err().unwrap();
        assert_eq!(other.kind(), ErrorKind::StoreOpen);
        let mut newer = file.clone();
        newer[8] += 1;
        assert_eq!(kind(&newer), Some(ErrorKind::StoreVersion));
        assert_eq!(kind(&file[..file.len() - 1]), Some(ErrorKind::StoreCorrupt));
    }

    /// A forger can compute checksums. His file is refused, or is an index that works.
    #[test]
    fn a_forged_file_is_refused_or_works() {
        let (file, query) = (written(), Query::of("silt 17 4999"));
        for place in (64..file.len()).step_by(file.len() / 400) {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut forged = file.clone();
                forged[place] = value;
                renew(&mut forged);
                if let Ok(mut index) = Bm25Index::from_bytes(&forged, LABEL) {
                    index.add(&Document::of("silt"));
                    let found = index.search(&query, 5);
                    assert!(found.iter().all(|found| (0.0..=1.0).contains(&found.score)));
                }
            }
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = load(Path::new("/absent/a.index"), |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreIo);
        assert!(error.to_string().contains("/absent/a.index"));
    }
}
