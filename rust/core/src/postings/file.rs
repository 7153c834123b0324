//! Postings in a file: written whole, checked whole before any of it is believed.
//!
//! ```text
//! file     = "siltpost" version:u32 label blocks checksum:u64
//! label    = length:u32 bytes            what the postings are of; the reader asks for it
//! blocks   = entries:u64 block*          4,096 entries each, the last one what is left
//! block    = removed:u32 entry:u16* keys:u32 list*
//! list     = key:u64 codes:u32 code:u16* overflows:u32 (entry:u16 more:u32)*
//! ```
//!
//! Numbers are little-endian; the checksum is xxh3-64 of all that lies before it.

use std::fs;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, ErrorKind, Result};
use crate::postings::BLOCK;
use crate::postings::block::Removed;
use crate::postings::dictionary::Dictionary;
use crate::postings::part::{Builder, MAX_CODE, Part, count, entry};
use crate::postings::store::Postings;
use crate::whole_file;

const MAGIC: &[u8; 8] = b"siltpost";
const VERSION: u32 = 1;
const CHECKSUM: usize = size_of::<u64>();

/// Writes the postings to `path`, all of them or nothing: another file takes its place when it is on disk.
///
/// # Errors
///
/// [`ErrorKind::StoreIo`]
pub fn save<D: Dictionary>(path: &Path, label: &str, postings: &Postings<D>) -> Result<()> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(MAGIC);
    put_u32(&mut bytes, VERSION as usize);
    put_u32(&mut bytes, label.len());
    bytes.extend_from_slice(label.as_bytes());
    bytes.extend_from_slice(&(postings.len() as u64).to_le_bytes());
    for number in 0..postings.blocks().len() {
        put_block(&mut bytes, postings, number);
    }
    let checksum = xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    whole_file::write(path, &bytes).map_err(|cause| {
        let message = format!("could not write '{}': {cause}", path.display());
        named(ErrorKind::StoreIo, message, path).caused_by(cause)
    })
}

/// The postings of `path`, which were saved with a label that `accept` takes, and what it makes of that.
///
/// # Errors
///
/// [`ErrorKind::StoreIo`] where it cannot be read, [`ErrorKind::StoreOpen`] where it is another kind of
/// file, [`ErrorKind::StoreVersion`], or [`ErrorKind::StoreCorrupt`] where it was cut short or changed.
pub fn load<D: Dictionary, T>(
    path: &Path,
    frequent: usize,
    accept: impl FnOnce(&str) -> Option<T>,
) -> Result<(Postings<D>, T)> {
    let bytes = fs::read(path).map_err(|cause| {
        let message = format!("could not read '{}': {cause}", path.display());
        named(ErrorKind::StoreIo, message, path).caused_by(cause)
    })?;
    let refuse = |kind, what: &str| named(kind, format!("'{}' {what}", path.display()), path);
    let corrupt = || {
        refuse(
            ErrorKind::StoreCorrupt,
            "was cut short or changed since it was saved",
        )
    };
    let Some(after) = bytes.strip_prefix(MAGIC) else {
        return Err(refuse(
            ErrorKind::StoreOpen,
            "is not an index that was saved",
        ));
    };
    let version = Reader(after).u32().ok_or_else(corrupt)?;
    if version as usize != VERSION as usize {
        let what =
            format!("has version {version} of the format, and this siltstone reads {VERSION}");
        return Err(refuse(ErrorKind::StoreVersion, &what));
    }
    let (body, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or_else(corrupt)?;
    if xxh3_64(body).to_le_bytes() != *checksum {
        return Err(corrupt());
    }
    let mut reader = Reader(
        body.get(MAGIC.len() + size_of::<u32>()..)
            .ok_or_else(corrupt)?,
    );
    let label = reader.text().ok_or_else(corrupt)?;
    let Some(accepted) = accept(label) else {
        let what = format!("is an index of another kind: {label:?}");
        return Err(refuse(ErrorKind::StoreOpen, &what));
    };
    let postings = reader.postings(frequent).ok_or_else(corrupt)?;
    Ok((postings, accepted))
}

fn named(kind: ErrorKind, message: String, path: &Path) -> Error {
    Error::new(kind, message).with("path", path.to_string_lossy().into_owned())
}

fn put_u32(bytes: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).expect("a block has fewer than 2^32 of anything");
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_block<D: Dictionary>(bytes: &mut Vec<u8>, postings: &Postings<D>, number: usize) {
    let removed = postings.blocks()[number].removed();
    let entries = |entry: &u16| removed.is_some_and(|removed| removed.has(*entry));
    let removed: Vec<u16> = (0..).take(BLOCK).filter(entries).collect();
    put_u32(bytes, removed.len());
    bytes.extend(removed.iter().flat_map(|entry| entry.to_le_bytes()));
    let part = postings.whole(number);
    put_u32(bytes, part.keys().len());
    for (place, &key) in part.keys().iter().enumerate() {
        let list = part.list_at(place);
        bytes.extend_from_slice(&key.into().to_le_bytes());
        put_u32(bytes, list.codes.len());
        bytes.extend(list.codes.iter().flat_map(|code| code.to_le_bytes()));
        put_u32(bytes, list.overflow.len());
        for above in list.overflow {
            bytes.extend_from_slice(&above.entry.to_le_bytes());
            bytes.extend_from_slice(&above.more.to_le_bytes());
        }
    }
}

/// What is left to be read. Nothing is believed: None is what was never saved.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        str::from_utf8(text).ok()
    }

    fn postings<D: Dictionary>(&mut self, frequent: usize) -> Option<Postings<D>> {
        let mut left = usize::try_from(self.u64()?).ok()?;
        u32::try_from(left).ok()?;
        let mut postings = Postings::new(frequent);
        while left > 0 {
            let len = left.min(BLOCK);
            let gone = self.removed(len)?;
            let removed = (!gone.is_empty()).then(|| Removed::purged(gone.into_iter()));
            // Only a block that has all its entries has columns.
            let frequent = if len == BLOCK { frequent } else { usize::MAX };
            let part = self.part(len, removed.as_ref(), frequent)?;
            postings.push_block(len, part, removed);
            left -= len;
        }
        self.0.is_empty().then_some(postings)
    }

    /// The entries of a block of that length that were removed.
    fn removed(&mut self, len: usize) -> Option<Vec<u16>> {
        let count = self.u32()?;
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(self.u16()?);
        }
        let ascends = entries.is_sorted_by(|one, other| one < other);
        let is_inside = entries.last().is_none_or(|&last| usize::from(last) < len);
        (ascends && is_inside).then_some(entries)
    }

    fn part<D: Dictionary>(
        &mut self,
        len: usize,
        removed: Option<&Removed>,
        frequent: usize,
    ) -> Option<Part<D>> {
        let keys = self.u32()?;
        let mut builder = Builder::<D>::new(frequent, 0);
        let mut next = 0; // the least that the next key may be
        for number in 0..keys {
            let key = self.u64()?;
            if key > D::LAST || (number > 0 && key < next) {
                return None;
            }
            next = key.checked_add(1).or((number + 1 == keys).then_some(0))?;
            self.list(len, removed, &mut builder)?;
            builder.end_key(key.try_into().ok()?);
        }
        Some(builder.finish())
    }

    fn list<D: Dictionary>(
        &mut self,
        len: usize,
        removed: Option<&Removed>,
        builder: &mut Builder<D>,
    ) -> Option<()> {
        let codes = self.u32()?;
        let mut full = Vec::new(); // entries that may have more than their code says
        let mut next = 0;
        for _ in 0..codes {
            let code = self.u16()?;
            let (entry, count) = (entry(code), count(code));
            let is_gone = removed.is_some_and(|removed| removed.has(entry));
            if entry < next || usize::from(entry) >= len || count == 0 || is_gone {
                return None;
            }
            next = entry + 1;
            if u32::from(count) == MAX_CODE {
                full.push(entry);
            }
            builder.push(code);
        }
        let mut full = full.into_iter();
        for _ in 0..self.u32()? {
            let (entry, more) = (self.u16()?, self.u32()?);
            full.find(|&other| other == entry).filter(|_| more > 0)?;
            builder.overflow(entry, more);
        }
        (codes > 0).then_some(())
    }
}
