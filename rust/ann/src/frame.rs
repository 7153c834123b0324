//! The frame of an index's file: a name, a version, and a checksum over all of it.

use xxhash_rust::xxh3::xxh3_64;

use crate::space::base::{Bytes, corrupt};
use siltstone_core::{Error, ErrorKind, Result};

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;
const NAME: usize = 8;
const CHECKSUM: usize = size_of::<u64>();

/// The beginning of a file: its kind and its version.
pub(crate) fn begin(name: [u8; NAME]) -> Vec<u8> {
    let mut file = name.to_vec();
    file.extend(VERSION.to_le_bytes());
    file
}

/// Adds the end of a file: the XXH3-64 of all before it.
pub(crate) fn end(mut file: Vec<u8>) -> Vec<u8> {
    let checksum = xxh3_64(&file);
    file.extend(checksum.to_le_bytes());
    file
}

/// The contents of a file of that kind.
///
/// # Errors
///
/// [`ErrorKind::StoreOpen`] for another kind of file, [`ErrorKind::StoreVersion`] for another version,
/// [`ErrorKind::StoreCorrupt`] for a damaged file.
pub(crate) fn open(name: [u8; NAME], file: &[u8]) -> Result<Bytes<'_>> {
    let mut bytes = Bytes(file);
    if bytes.array::<NAME>().ok() != Some(name) {
        let message = "the file of the index does not begin as one of its kind does";
        return Err(Error::new(ErrorKind::StoreOpen, message));
    }
    let version = bytes.u32()?;
    if version != VERSION {
        let message = format!(
            "the file of the index has version {version}, and this siltstone reads {VERSION}"
        );
        return Err(Error::new(ErrorKind::StoreVersion, message));
    }
    let length = bytes.0.len().checked_sub(CHECKSUM);
    let contents = bytes.take(length.ok_or_else(|| corrupt("cut short before its checksum"))?)?;
    if bytes.u64()? != xxh3_64(&file[..file.len() - CHECKSUM]) {
        return Err(corrupt("its checksum does not match"));
    }
    Ok(Bytes(contents))
}
