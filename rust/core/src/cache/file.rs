//! The format of a file of arrays, its writer and its reader, which maps it into memory.
//!
//! ```text
//! file    = head section* table end
//! head    = "siltcach" version:u32 order:u32 zero*     64 bytes
//! section = number* zero*                              an array, up to a multiple of 64
//! table   = (begin:u64 bytes:u64 group:u64 checksum:u64)*   of each section
//! end     = table's begin:u64 sections:u64 checksum:u64
//! ```
//!
//! Numbers have the byte order of this machine, and `order` shows a file of another byte order. Checksums are
//! xxh3-64: one of each section, and one of the head, the table and the rest of the end. So a section is checked
//! when it is requested, and the others are never read. The checksum at the end covers the checksums of all
//! sections, so it identifies the whole file.
//!
//! Sections that are requested together form a group.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::{Mmap, MmapMut, MmapOptions};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zerocopy::{FromBytes, IntoBytes};

use crate::cache::array::{Array, Number};

const MAGIC: &[u8; 8] = b"siltcach";
/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 5;
/// Its bytes in the file show the byte order of the machine that wrote it.
const ORDER: u32 = 0x0102_0304;
/// The alignment of sections: a cache line of the processor.
const LINE: usize = 64;
const CHECKSUM: usize = size_of::<u64>();
const END: usize = 3 * size_of::<u64>();

/// A row of the table: the offset of a section, its bytes, its group and its checksum.
type Row = [u64; 4];

/// Writes arrays, one after another.
pub struct Writer<W> {
    to: W,
    at: usize,
    group: u64,
    table: Vec<Row>,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    ///
    /// The errors of `to`.
    pub fn new(to: W) -> io::Result<Self> {
        let mut writer = Self {
            to,
            at: 0,
            group: 0,
            table: Vec::new(),
        };
        writer.write(&head())?;
        Ok(writer)
    }

    /// Starts a group: the following arrays belong to it.
    pub fn begin(&mut self, group: u64) {
        self.group = group;
    }

    /// Writes the next array.
    ///
    /// # Errors
    ///
    /// The errors of the file.
    pub fn put<T: Number>(&mut self, numbers: &[T]) -> io::Result<()> {
        let bytes = numbers.as_bytes();
        let zeros = &[0; LINE][..bytes.len().next_multiple_of(LINE) - bytes.len()];
        let mut hash = Xxh3::new();
        hash.update(bytes);
        hash.update(zeros);
        let begin = self.at as u64;
        let row = [begin, bytes.len() as u64, self.group, hash.digest()];
        self.table.push(row);
        self.write(bytes)?;
        self.write(zeros)
    }

    /// Ends the file, and gives its checksum.
    ///
    /// # Errors
    ///
    /// The errors of the file.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        let end = [self.at as u64, self.table.len() as u64];
        let table = std::mem::take(&mut self.table);
        self.write(table.as_bytes())?;
        self.write(end.as_bytes())?;
        let checksum = checksum(&head(), table.as_bytes(), end.as_bytes());
        self.write(checksum.as_bytes())?;
        self.to.flush()?;
        Ok((self.to, checksum))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len();
        self.to.write_all(bytes)
    }
}

/// The head of a file.
fn head() -> [u8; LINE] {
    let mut head = [0; LINE];
    let (magic, rest) = head.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    rest[..2 * size_of::<u32>()].copy_from_slice([VERSION, ORDER].as_bytes());
    head
}

/// The version in the head of a file of arrays; None for another kind of file.
#[must_use]
pub fn version(file: &[u8]) -> Option<u32> {
    let (version, _) = u32::read_from_prefix(file.strip_prefix(MAGIC)?).ok()?;
    Some(version)
}

/// The checksum that identifies a file.
fn checksum(head: &[u8], table: &[u8], end: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    for bytes in [head, table, end] {
        hash.update(bytes);
    }
    hash.digest()
}

/// A section that was not checked yet.
#[derive(Clone, Debug)]
struct Section {
    /// The range of its numbers, without the zeros behind them.
    bytes: Range<usize>,
    end: usize,
    group: u64,
    checksum: u64,
}

/// Returns the arrays of a file in order. Each is checked when it is requested.
#[derive(Clone, Debug)]
pub struct Reader {
    map: Arc<Mmap>,
    sections: std::vec::IntoIter<Section>,
}

impl Reader {
    /// Opens the file at `path` if it has that checksum. The file must not change afterwards.
    #[must_use]
    pub fn open(path: &Path, checksum: u64) -> Option<Self> {
        let file = File::open(path).ok()?;
        let length = usize::try_from(file.metadata().ok()?.len()).ok()?;
        if length < LINE + END {
            return None;
        }
        Self::of(map(&file).ok()?, checksum)
    }

    /// A file in memory, if it is whole. It is copied, so that its arrays are aligned.
    #[must_use]
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let known_by = u64::from_ne_bytes(*bytes.last_chunk()?);
        let mut memory = MmapMut::map_anon(bytes.len()).ok()?;
        memory.copy_from_slice(bytes);
        Self::of(memory.make_read_only().ok()?, known_by)
    }

    fn of(map: Mmap, known_by: u64) -> Option<Self> {
        let (body, stored) = map.split_last_chunk::<CHECKSUM>()?;
        let (body, end) = body.split_last_chunk::<{ END - CHECKSUM }>()?;
        let [begin, count] = <[u64; 2]>::read_from_bytes(end).ok()?;
        let begin = usize::try_from(begin).ok()?;
        let (head, table) = (body.first_chunk::<LINE>()?, body.get(begin..)?);
        let is_it = u64::from_ne_bytes(*stored) == known_by && *head == self::head();
        if !is_it || checksum(head, table, end) != known_by {
            return None;
        }
        let table = <[Row]>::ref_from_bytes(table).ok()?;
        let mut sections = Vec::with_capacity(table.len());
        let mut at = LINE;
        for &[from, bytes, group, checksum] in table {
            let to = from.checked_add(bytes)?;
            let bytes = usize::try_from(from).ok()?..usize::try_from(to).ok()?;
            let end = bytes.end.checked_next_multiple_of(LINE)?;
            if bytes.start != at || end > begin {
                return None;
            }
            at = end;
            sections.push(Section {
                bytes,
                end,
                group,
                checksum,
            });
        }
        (at == begin && sections.len() as u64 == count).then(|| Self {
            sections: sections.into_iter(),
            map: Arc::new(map),
        })
    }

    /// A reader of the arrays of that group; None if the group is empty.
    #[must_use]
    pub fn group(&self, group: u64) -> Option<Self> {
        let sections = self.sections.as_slice().iter();
        let sections: Vec<Section> = sections
            .filter(|section| section.group == group)
            .cloned()
            .collect();
        (!sections.is_empty()).then(|| Self {
            map: Arc::clone(&self.map),
            sections: sections.into_iter(),
        })
    }

    /// The next array, without a copy. None where there is no further array, it does not match its checksum, or its
    /// size does not fit the type.
    pub fn array<T: Number>(&mut self) -> Option<Array<T>> {
        let section = self.sections.next()?;
        self.has(&section).then_some(())?;
        Array::mapped(&self.map, section.bytes)
    }

    fn has(&self, section: &Section) -> bool {
        let bytes = self.map.get(section.bytes.start..section.end);
        bytes.is_some_and(|bytes| xxh3_64(bytes) == section.checksum)
    }

    /// A copy of the next array.
    pub fn numbers<T: Number>(&mut self) -> Option<Vec<T>> {
        self.array().map(|array| array.to_vec())
    }

    /// Whether all arrays were requested.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.sections.len() == 0
    }

    /// Whether all remaining arrays match their checksums.
    #[must_use]
    pub(crate) fn is_whole(&self) -> bool {
        let mut sections = self.sections.as_slice().iter();
        sections.all(|section| self.has(section))
    }
}

/// Gives a forged file valid checksums, as far as its table allows.
#[cfg(test)]
pub(crate) fn renew(bytes: &mut [u8]) {
    let end = bytes.len() - END;
    let begin = u64::from_ne_bytes(*bytes[end..].first_chunk().unwrap());
    let begin = usize::try_from(begin).unwrap_or(usize::MAX).min(end);
    for row in (begin..end).step_by(size_of::<Row>()) {
        let Some(Ok([from, len, ..])) = bytes
            .get(row..row + size_of::<Row>())
            .map(Row::read_from_bytes)
        else {
            break;
        };
        let to = usize::try_from(from.saturating_add(len)).unwrap_or(usize::MAX);
        let to = to.checked_next_multiple_of(LINE).unwrap_or(usize::MAX);
        let section = bytes.get(usize::try_from(from).unwrap_or(usize::MAX)..to);
        if let Some(checksum) = section.map(xxh3_64) {
            let at = row + size_of::<Row>() - CHECKSUM;
            bytes[at..at + CHECKSUM].copy_from_slice(&checksum.to_ne_bytes());
        }
    }
    let (body, last) = bytes.split_at_mut(end + END - CHECKSUM);
    let checksum = checksum(&body[..LINE], &body[begin..end], &body[end..]);
    last.copy_from_slice(&checksum.to_ne_bytes());
}

// Maps a file into memory.

/// Maps `file` into memory.
///
/// The caller maps only files of [`Writer`](super::Writer). Such a file gets its name when it is complete, and this
/// project never opens it for writing again. It may be deleted, or replaced by a file of another name; the mapped bytes
/// stay as they are.
///
/// Another program that truncates a mapped file stops this process (SIGBUS), as it would by overwriting a shared
/// library that is in use.
#[expect(unsafe_code, reason = "a mapped file may be changed by others")]
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: this project does not change such a file once it has its name, see above. Only numbers are read
    // from it, for which any bits are values, and every use of a number is checked.
    unsafe { MmapOptions::new().map(file) }
}

/// Gives memory that was freed back to the system. The GNU library keeps it otherwise, for the next indexes.
pub(crate) fn give_back_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "a function of the C library")]
        // SAFETY: the library has it with this signature, and any thread may call it at any time.
        unsafe extern "C" {
            safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
    fn no_array_with_a_bit_flipped_is_read_nor_a_file_with_an_end_cut_off() {
        let (bytes, checksum) = written();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            let Some(mut reader) = open(&changed, checksum) else {
                continue;
            };
            assert!(!reader.is_whole(), "byte {at}");
            let arrays = [0; 4].map(|_| reader.array::<u8>().is_some());
            let missing = arrays.iter().filter(|&&is_there| !is_there).count();
            assert_eq!(missing, 1, "byte {at}: {arrays:?}");
        }
        for len in 0..bytes.len() {
            assert!(open(&bytes[..len], checksum).is_none(), "{len} bytes");
        }
        assert!(open(&bytes, checksum ^ 1).is_none(), "another file");
        assert!(open(&bytes, checksum).unwrap().is_whole());
    }

    #[test]
    fn a_group_has_its_arrays_alone() {
        let mut writer = Writer::new(Vec::new()).unwrap();
        for number in 0..6_u64 {
            writer.begin(number % 3);
            writer.put(&[number]).unwrap();
        }
        let (mut bytes, checksum) = writer.finish().unwrap();
        bytes[LINE] ^= 1; // the first array, of group 0
        let reader = open(&bytes, checksum).unwrap();
        for group in 0..3 {
            let mut arrays = reader.group(group).unwrap();
            let found = [0; 2].map(|_| arrays.numbers::<u64>());
            let first = (group > 0).then(|| vec![group]);
            assert_eq!(found, [first, Some(vec![group + 3])]);
            assert!(arrays.is_done());
        }
        assert!(reader.group(3).is_none());
    }

    /// With valid checksums, a changed byte gives None, or arrays within the file.
    #[test]
    fn a_table_that_leads_out_of_the_file_is_none() {
        let (bytes, _) = written();
        for at in LINE..bytes.len() - CHECKSUM {
            for value in [0, 0xFF] {
                let mut forged = bytes.clone();
                forged[at] = value;
                renew(&mut forged);
                let checksum = u64::from_ne_bytes(*forged.last_chunk().unwrap());
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
        let (mut bytes, checksum) = written();
        renew(&mut bytes);
        assert!(open(&bytes, checksum).is_some(), "it was right");
        bytes[MAGIC.len()] = 1;
        renew(&mut bytes);
        let checksum = u64::from_ne_bytes(*bytes.last_chunk().unwrap());
        assert!(open(&bytes, checksum).is_none());
    }
}
