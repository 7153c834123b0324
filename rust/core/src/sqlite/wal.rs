//! Checks whether the write-ahead log beside the file is whole.
//!
//! SQLite stops at the first wrong frame and treats it as the end of the log. This is right after a loss of power,
//! which can leave the last commit half written. It is wrong where a frame in the middle is damaged: then SQLite
//! silently drops commits that were acknowledged. The frames behind the wrong one tell the two cases apart: a commit is
//! synced before the next one is written, so no complete commit with a successor stands behind a torn frame.
//!
//! Source of the format: <https://www.sqlite.org/fileformat2.html#walformat>.

use std::fs::File;
use std::io::{BufReader, ErrorKind as Io, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes before the first frame.
const HEADER: usize = 32;
/// Bytes of a frame before its page.
const FRAME_HEADER: usize = 24;
/// The first four bytes; with the last bit set, checksums are computed over big-endian words.
const MAGIC: u32 = 0x377F_0682;

/// The place of damage in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// In its header.
    Header,
    /// In the frame of that number, counted from 0, of the log with these salts.
    Frame(u64, [u32; 2]),
}

/// The place of damage that would cost the commits behind it. None for a log that is whole or absent,
/// or that ends in a commit which a loss of power cut off.
///
/// The file is only read, without SQLite's locks.
pub(super) fn damage(log: &Path) -> std::io::Result<Option<Damage>> {
    let Some(first) = look(log)? else {
        return Ok(None);
    };
    // Another process may have been writing during the first look. Damage that the second look does not see was none.
    let second = look(log)?;
    Ok(second.filter(|&second| second == first))
}

/// A position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// The salts of the log. A log that begins anew has new ones. None where there is no log yet.
    salts: Option<[u32; 2]>,
    /// The number of committed frames.
    frames: u64,
}

impl Moment {
    /// The present end of the log, with `frames` committed frames. The caller makes sure that nobody writes meanwhile.
    pub(super) fn now(log: &Path, frames: u64) -> std::io::Result<Self> {
        let salts = Header::read(log)?.map(|(_, header)| header.salts);
        Ok(Self { salts, frames })
    }
}

/// The numbers of the pages that were written between two moments; a page may come several times. The log must not
/// have begun anew more than once in between: a reader that began at the first moment prevents this.
pub(super) fn written(log: &Path, from: Moment, to: Moment) -> std::io::Result<Vec<u32>> {
    let first = if from.salts == to.salts {
        from.frames
    } else {
        0
    };
    let Some((mut file, header)) = Header::read(log)?.filter(|_| first < to.frames) else {
        return Ok(Vec::new());
    };
    let length = (FRAME_HEADER + header.page) as u64;
    let mut pages = Vec::new();
    for frame in first..to.frames {
        let mut number = [0; 4];
        file.seek(SeekFrom::Start(HEADER as u64 + frame * length))?;
        file.read_exact(&mut number)?;
        pages.push(u32::from_be_bytes(number));
    }
    Ok(pages)
}

fn look(log: &Path) -> std::io::Result<Option<Damage>> {
    let mut file = match File::open(log) {
        Ok(file) => BufReader::with_capacity(1 << 16, file),
        Err(error) if error.kind() == Io::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; HEADER];
    if !fill(&mut file, &mut bytes)? {
        return Ok(None);
    }
    let Some(header) = Header::of(&bytes) else {
        // The header is synced before the first frame is written, so a wrong header before a frame is damage.
        return Ok(fill(&mut file, &mut [0; FRAME_HEADER])?.then_some(Damage::Header));
    };
    let mut frame = vec![0; FRAME_HEADER + header.page];
    let (mut sum, mut bad) = (header.sum, None);
    let mut before = Seen::default();
    for number in 0.. {
        if !fill(&mut file, &mut frame)? {
            return Ok(None);
        }
        let now = Seen {
            sum: [word(&frame, 16), word(&frame, 20)],
            is_commit: word(&frame, 4) != 0,
            is_of_this_log: [word(&frame, 8), word(&frame, 12)] == header.salts,
        };
        let start = if bad.is_some() { before.sum } else { sum };
        let follows = now.is_of_this_log && header.sum_of(start, &frame) == now.sum;
        match bad {
            None if follows => sum = now.sum,
            None => bad = Some(number),
            Some(bad) if follows && before.is_commit => {
                if before.is_of_this_log || bad + 1 == number {
                    return Ok(Some(Damage::Frame(bad, header.salts)));
                }
            }
            Some(_) => {}
        }
        before = now;
    }
    Ok(None)
}

/// The header of a log.
struct Header {
    big_endian: bool,
    page: usize,
    salts: [u32; 2],
    sum: [u32; 2],
}

impl Header {
    /// The log file, open behind its header, and the header. None where there is no log, or no whole header.
    fn read(log: &Path) -> std::io::Result<Option<(File, Self)>> {
        let mut file = match File::open(log) {
            Ok(file) => file,
            Err(error) if error.kind() == Io::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = [0; HEADER];
        if !fill(&mut file, &mut bytes)? {
            return Ok(None);
        }
        Ok(Self::of(&bytes).map(|header| (file, header)))
    }

    /// The header in `bytes`; None where it is damaged.
    fn of(bytes: &[u8; HEADER]) -> Option<Self> {
        let page = usize::try_from(word(bytes, 8)).ok()?;
        let header = Self {
            big_endian: word(bytes, 0) & 1 != 0,
            page,
            salts: [word(bytes, 16), word(bytes, 20)],
            sum: [word(bytes, 24), word(bytes, 28)],
        };
        let known = word(bytes, 0) & !1 == MAGIC;
        let possible = page.is_power_of_two() && (512..=65_536).contains(&page);
        let right = header.add([0, 0], &bytes[..24]) == header.sum;
        (known && possible && right).then_some(header)
    }

    fn sum_of(&self, start: [u32; 2], frame: &[u8]) -> [u32; 2] {
        self.add(self.add(start, &frame[..8]), &frame[FRAME_HEADER..])
    }

    fn add(&self, [mut one, mut two]: [u32; 2], bytes: &[u8]) -> [u32; 2] {
        let read = |bytes: &[u8]| {
            let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
            if self.big_endian {
                u32::from_be_bytes(bytes)
            } else {
                u32::from_le_bytes(bytes)
            }
        };
        for pair in bytes.chunks_exact(8) {
            one = one.wrapping_add(read(&pair[..4])).wrapping_add(two);
            two = two.wrapping_add(read(&pair[4..])).wrapping_add(one);
        }
        [one, two]
    }
}

/// The facts about a frame that the check of the next frame needs; `sum` is the running checksum.
#[derive(Default)]
struct Seen {
    sum: [u32; 2],
    is_commit: bool,
    is_of_this_log: bool,
}

/// The big-endian word at `at`.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Fills `bytes`. False where the file ends before.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == Io::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn frames(connection: &Connection) -> u64 {
        let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(1);
        let frames = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], count);
        u64::try_from(frames.unwrap()).unwrap()
    }

    #[test]
    fn what_was_written_between_two_moments_is_known_also_where_the_log_began_anew() {
        let directory = tempfile::tempdir().unwrap();
        let (file, log) = (directory.path().join("a"), directory.path().join("a-wal"));
        let writer = Connection::open(&file).unwrap();
        writer
            .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x); CREATE TABLE u (x)")
            .unwrap();
        let now = || Moment::now(&log, frames(&writer)).unwrap();
        let root = |table: &str| -> u32 {
            let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
            writer.query_row(sql, [table], |row| row.get(0)).unwrap()
        };
        let first = now();
        assert_eq!(written(&log, first, first).unwrap(), []);
        writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        let second = now();
        writer.execute_batch("INSERT INTO u VALUES (1)").unwrap();
        assert_eq!(written(&log, first, second).unwrap(), [root("t")]);
        assert_eq!(written(&log, second, now()).unwrap(), [root("u")]);
        assert_eq!(written(&log, first, now()).unwrap(), [root("t"), root("u")]);

        writer
            .execute_batch("PRAGMA wal_checkpoint(RESTART)")
            .unwrap();
        let third = now();
        writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        assert_eq!(written(&log, second, now()).unwrap(), [root("t")]);
        assert_eq!(written(&log, third, now()).unwrap(), [root("t")]);
    }
}
