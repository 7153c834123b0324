//! Arrays in a file, one after another.
//!
//! ```text
//! file    = head section* table end
//! head    = "siltcach" version:u32 order:u32 zero*     64 bytes
//! section = number* zero*                              begins at a multiple of 64
//! table   = (begin:u64 bytes:u64)*                     of each section
//! end     = table's begin:u64 sections:u64 checksum:u64
//! ```
//!
//! Numbers are as this machine has them; `order` tells where another one has them otherwise. The checksum is
//! xxh3-64 of all that lies before it. It is at the end, so that a file is written in one go.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zerocopy::{FromBytes, IntoBytes};

use crate::cache::array::{Array, Number};
use crate::cache::map::map;

const MAGIC: &[u8; 8] = b"siltcach";
const VERSION: u32 = 2;
/// Has other bytes where numbers begin with their other end.
const ORDER: u32 = 0x0102_0304;
/// What a section's begin is a multiple of: a line of the processor's cache.
const LINE: usize = 64;
const CHECKSUM: usize = size_of::<u64>();
const END: usize = 3 * size_of::<u64>();

/// Writes arrays, one after another.
pub struct Writer<W> {
    to: W,
    at: usize,
    hash: Xxh3,
    table: Vec<[u64; 2]>,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    ///
    /// Those of `to`, as everywhere here.
    pub fn new(to: W) -> io::Result<Self> {
        let mut writer = Self {
            to,
            at: 0,
            hash: Xxh3::new(),
            table: Vec::new(),
        };
        writer.write(MAGIC)?;
        writer.write([VERSION, ORDER].as_bytes())?;
        writer.fill()?;
        Ok(writer)
    }

    /// The next array.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn put<T: Number>(&mut self, numbers: &[T]) -> io::Result<()> {
        let bytes = numbers.as_bytes();
        self.table.push([self.at as u64, bytes.len() as u64]);
        self.write(bytes)?;
        self.fill()
    }

    /// Ends the file, and gives the checksum that it is known by.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        let (begin, sections) = (self.at as u64, self.table.len() as u64);
        let table = std::mem::take(&mut self.table);
        self.write(table.as_bytes())?;
        self.write([begin, sections].as_bytes())?;
        let checksum = self.hash.digest();
        self.to.write_all(checksum.as_bytes())?;
        self.to.flush()?;
        Ok((self.to, checksum))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.at += bytes.len();
        self.to.write_all(bytes)
    }

    /// Zeros up to where the next section begins.
    fn fill(&mut self) -> io::Result<()> {
        let missing = self.at.next_multiple_of(LINE) - self.at;
        self.write(&[0; LINE][..missing])
    }
}

/// Hands out the arrays of a file that is whole, in their order.
#[derive(Debug)]
pub struct Reader {
    map: Arc<Mmap>,
    sections: std::vec::IntoIter<Range<usize>>,
}

impl Reader {
    /// The file at `path`, if it is whole and has that checksum. It is not to be changed from then on.
    #[must_use]
    pub fn open(path: &Path, checksum: u64) -> Option<Self> {
        let file = File::open(path).ok()?;
        let length = usize::try_from(file.metadata().ok()?.len()).ok()?;
        if length < LINE + END {
            return None;
        }
        Self::of(map(&file).ok()?, checksum)
    }

    fn of(map: Mmap, checksum: u64) -> Option<Self> {
        let (body, end) = map.split_last_chunk::<CHECKSUM>()?;
        if u64::from_ne_bytes(*end) != checksum || xxh3_64(body) != checksum {
            return None;
        }
        let [version, order] = <[u32; 2]>::read_from_prefix(body.strip_prefix(MAGIC)?)
            .ok()?
            .0;
        if (version, order) != (VERSION, ORDER) {
            return None;
        }
        let (body, end) = body.split_last_chunk::<{ END - CHECKSUM }>()?;
        let [begin, count] = <[u64; 2]>::read_from_bytes(end).ok()?;
        let table = body.get(usize::try_from(begin).ok()?..)?;
        if table.len() as u64 != count.checked_mul(size_of::<[u64; 2]>() as u64)? {
            return None;
        }
        let section = |row: &[u8]| {
            let [begin, bytes] = <[u64; 2]>::read_from_bytes(row).ok()?;
            let end = begin.checked_add(bytes)?;
            Some(usize::try_from(begin).ok()?..usize::try_from(end).ok()?)
        };
        let sections: Option<Vec<_>> = table.chunks(size_of::<[u64; 2]>()).map(section).collect();
        Some(Self {
            sections: sections?.into_iter(),
            map: Arc::new(map),
        })
    }

    /// The next array, where it lies in the file; None where there is none, or not of such numbers.
    pub fn array<T: Number>(&mut self) -> Option<Array<T>> {
        Array::mapped(&self.map, self.sections.next()?)
    }

    /// The numbers of the next array.
    pub fn numbers<T: Number>(&mut self) -> Option<Vec<T>> {
        self.array().map(|array| array.to_vec())
    }

    /// Whether all arrays were handed out.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.sections.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn written() -> (Vec<u8>, u64) {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.put(&[1_u64, 2, u64::MAX]).unwrap();
        writer.put::<u16>(&[]).unwrap();
        writer.put(&[3_u16; 40]).unwrap();
        writer.put(&[-1_i64]).unwrap();
        writer.finish().unwrap()
    }

    fn open(bytes: &[u8], checksum: u64) -> Option<Reader> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, bytes).unwrap();
        Reader::open(&path, checksum)
    }

    #[test]
    fn arrays_come_back_in_their_order() {
        let (bytes, checksum) = written();
        let mut reader = open(&bytes, checksum).unwrap();
        assert_eq!(reader.array::<u64>().unwrap()[..], [1, 2, u64::MAX]);
        assert_eq!(reader.array::<u16>().unwrap()[..], []);
        assert_eq!(reader.numbers::<u16>().unwrap(), [3; 40]);
        assert!(!reader.is_done());
        assert_eq!(reader.array::<i64>().unwrap()[..], [-1]);
        assert!(reader.is_done() && reader.array::<u8>().is_none());
    }

    #[test]
    fn an_array_of_other_numbers_is_none() {
        let (bytes, checksum) = written();
        let mut reader = open(&bytes, checksum).unwrap();
        reader.array::<u64>().unwrap();
        reader.array::<u16>().unwrap();
        assert!(reader.array::<u32>().is_some()); // 80 bytes are 20 of them, too
        let mut other = open(&bytes, checksum).unwrap();
        assert!(other.array::<[u8; 7]>().is_none());
    }

    #[test]
    fn no_file_with_a_bit_flipped_or_an_end_cut_off_is_read() {
        let (bytes, checksum) = written();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            assert!(open(&changed, checksum).is_none(), "byte {at}");
        }
        for len in 0..bytes.len() {
            assert!(open(&bytes[..len], checksum).is_none(), "{len} bytes");
        }
        assert!(open(&bytes, checksum ^ 1).is_none(), "another file");
    }

    /// What a changed byte leads to where the checksum does not tell: None, or arrays within the file.
    #[test]
    fn a_table_that_leads_out_of_the_file_is_none() {
        let (bytes, _) = written();
        for at in LINE..bytes.len() - CHECKSUM {
            for value in [0, 0xFF] {
                let mut forged = bytes.clone();
                forged[at] = value;
                let body = forged.len() - CHECKSUM;
                let checksum = xxh3_64(&forged[..body]);
                forged[body..].copy_from_slice(&checksum.to_ne_bytes());
                if let Some(mut reader) = open(&forged, checksum) {
                    while !reader.is_done() {
                        let _ = reader.array::<u64>();
                    }
                }
            }
        }
    }

    #[test]
    fn a_file_of_another_version_is_none() {
        let (mut bytes, _) = written();
        bytes[MAGIC.len()] = 1;
        let body = bytes.len() - CHECKSUM;
        let checksum = xxh3_64(&bytes[..body]);
        bytes[body..].copy_from_slice(&checksum.to_ne_bytes());
        assert!(open(&bytes, checksum).is_none());
    }
}
