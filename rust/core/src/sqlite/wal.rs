//! Is the log beside the file whole? SQLite stops at the first frame that is wrong, and takes it for the end.
//!
//! That is right after a power cut, which can leave the last commit half written. It is not where a frame
//! in the middle was damaged: then commits that were acknowledged are left out in silence. The two are
//! told apart by what comes after: a commit is synced before the next one is written, so behind a frame
//! that was torn no commit is followed by another.
//!
//! Source of the format: <https://www.sqlite.org/fileformat2.html#walformat>.

use std::fs::File;
use std::io::{BufReader, ErrorKind as Io, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes before the first frame.
const HEADER: usize = 32;
/// Bytes of a frame before its page.
const FRAME_HEADER: usize = 24;
/// The first four bytes; the last bit says that checksums are of big-endian words.
const MAGIC: u32 = 0x377F_0682;

/// Where a log is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// In its header.
    Header,
    /// In that frame, from 0, of the log with these salts.
    Frame(u64, [u32; 2]),
}

/// Where the log is damaged, so that commits behind it would be lost; None for one that is whole, absent,
/// or ends in a commit that was cut by a loss of power.
///
/// The file is only read, and so without the locks of SQLite.
pub(super) fn damage(log: &Path) -> std::io::Result<Option<Damage>> {
    let Some(first) = look(log)? else {
        return Ok(None);
    };
    // Another process may have written while this one read: what was half there is whole now.
    let second = look(log)?;
    Ok(second.filter(|&second| second == first))
}

/// A moment in the life of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Which log it is: one that begins anew has others. None where there is none yet.
    salts: Option<[u32; 2]>,
    /// How many frames of it are committed.
    frames: u64,
}

impl Moment {
    /// Now, when the log has so many committed frames. Nobody may write meanwhile.
    pub(super) fn now(log: &Path, frames: u64) -> std::io::Result<Self> {
        let salts = Header::read(log)?.map(|(_, header)| header.salts);
        Ok(Self { salts, frames })
    }
}

/// The pages that were written between two moments, some more than once. In between the log has begun anew once at
/// most: who reads since the first moment sees to that.
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
        // It is synced before the first frame is written.
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
    /// The log, behind its header, and what that says; None where there is no log, or one that has not begun.
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

    /// None for one that is not whole.
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

/// The running checksum after a frame, from which the next frame's follows.
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

/// Fills `bytes`, or says that the file ends before.
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
