//! The write-ahead log beside the file: checks whether it is whole, and cuts it behind its last commit.
//!
//! SQLite stops at the first wrong frame and treats it as the end of the log. This is right after a loss of power,
//! which can leave the last commit half written. It is wrong where a frame in the middle is damaged: then SQLite
//! silently drops commits that were acknowledged. The frames behind the wrong one tell the two cases apart: a commit is
//! synced before the next one is written, and nothing is written over frames of an unfinished one (`cut_tail`), so no
//! complete commit with a successor stands behind a torn frame.
//!
//! Source of the format: <https://www.sqlite.org/fileformat2.html#walformat>.

use std::ffi::c_int;
use std::fs::File;
use std::io::{BufReader, ErrorKind as Io, Read, Seek, SeekFrom};
use std::path::Path;
use std::ptr::null_mut;

use rusqlite::{Connection, Transaction, ffi};

use crate::error::Result;
use crate::sqlite::connection;

/// Bytes before the first frame.
const HEADER: usize = 32;
/// Bytes of a frame before its page.
const FRAME_HEADER: usize = 24;
/// Bytes of a frame up to the end of its mark of a commit; the salts come next.
const MARK: usize = 8;
/// The bytes that a disk writes at once, at least.
const SECTOR: u64 = 512;
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

/// The state of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is absent, or ends with its last commit.
    Whole,
    /// Behind its last commit are frames with its salts: a transaction is being written, or was never finished.
    Unfinished,
    /// SQLite would drop the commits behind the damage.
    Damaged(Damage),
}

/// The state of the log. The file is only read, without SQLite's locks.
pub(super) fn state(log: &Path) -> std::io::Result<State> {
    let first = look(log)?;
    if !matches!(first, State::Damaged(_)) {
        return Ok(first);
    }
    // Another process may have been writing during the first look. Damage that the second look does not see was none.
    let second = look(log)?;
    match second {
        State::Damaged(_) if second != first => Ok(State::Unfinished),
        _ => Ok(second),
    }
}

/// The bytes of a log with so many frames of pages of `page` bytes. A log without frames needs no header.
pub(super) fn end(frames: u64, page: u64) -> u64 {
    match frames {
        0 => 0,
        _ => HEADER as u64 + frames * (FRAME_HEADER as u64 + page),
    }
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

fn look(log: &Path) -> std::io::Result<State> {
    let mut file = match File::open(log) {
        Ok(file) => BufReader::with_capacity(1 << 16, file),
        Err(error) if error.kind() == Io::NotFound => return Ok(State::Whole),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; HEADER];
    if !fill(&mut file, &mut bytes)? {
        return Ok(State::Whole);
    }
    let Some(header) = Header::of(&bytes) else {
        // The header is synced before the first frame is written, so a wrong header before a frame is damage.
        return Ok(if fill(&mut file, &mut [0; FRAME_HEADER])? {
            State::Damaged(Damage::Header)
        } else {
            State::Whole
        });
    };
    let mut frame = vec![0; FRAME_HEADER + header.page];
    let (mut sum, mut bad) = (header.sum, None);
    let (mut before, mut is_unfinished) = (Seen::default(), false);
    for number in 0.. {
        if !fill(&mut file, &mut frame)? {
            break;
        }
        let salts = [word(&frame, 8), word(&frame, 12)];
        let mut now = Seen {
            sum: [word(&frame, 16), word(&frame, 20)],
            is_commit: word(&frame, 4) != 0,
            salts: header.salts_in(salts),
            follows: false,
        };
        let start = if bad.is_some() { before.sum } else { sum };
        now.follows = now.salts == Salts::Own && header.sum_of(start, &frame) == now.sum;
        match bad {
            None if now.follows => {
                sum = now.sum;
                is_unfinished = !now.is_commit;
            }
            None => bad = Some(number),
            // The mark of a commit is believed in a frame that follows the one before it. A frame that does not is damaged,
            // or the power cut left a part of an earlier log in it: then its mark is believed if its salts are there too.
            Some(bad) if now.follows && before.is_commit => {
                let is_whole = before.salts != Salts::Other && !header.is_parted(number - 1);
                if before.follows || is_whole {
                    return Ok(State::Damaged(Damage::Frame(bad, header.salts)));
                }
            }
            Some(_) => {}
        }
        is_unfinished |= bad.is_some() && now.salts == Salts::Own;
        before = now;
    }
    Ok(if is_unfinished {
        State::Unfinished
    } else {
        State::Whole
    })
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

    /// Whether the mark of a commit and the salts of that frame are in two sectors. A power cut may have kept one of them.
    fn is_parted(&self, number: u64) -> bool {
        let mark = HEADER as u64 + number * (FRAME_HEADER + self.page) as u64 + MARK as u64;
        mark.is_multiple_of(SECTOR)
    }

    /// What `salts` are to this log.
    fn salts_in(&self, salts: [u32; 2]) -> Salts {
        let equal = salts
            .iter()
            .zip(self.salts)
            .filter(|&(&one, own)| one == own);
        match equal.count() {
            2 => Salts::Own,
            1 => Salts::Damaged,
            _ => Salts::Other,
        }
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
    salts: Salts,
    /// Whether it is a frame of this log, and its checksum follows from that of the frame before it.
    follows: bool,
}

/// The salts of a frame. A log that begins anew changes both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Salts {
    /// Those of the log.
    Own,
    /// One of them is that of the log.
    Damaged,
    /// Those of an earlier log.
    #[default]
    Other,
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

// The end of the write-ahead log: what an unfinished transaction left behind it is cut off, and commits are synced.
//
// A transaction that fails, or whose process dies, may leave frames behind the last commit. The next transaction
// overwrites them, frame by frame, and they have the salts of the log. If power is cut then, the head of a new frame
// may stand on the disk in front of the old ones: its mark of a commit is the new one, its checksum the old one, which
// the old frames follow. Nothing tells such a log from one that lost a commit. So nothing is written over such frames:
// first the log is cut at its end, and that is synced.
//
// A process that dies between a write and its sync leaves a commit that power can still take away. A writer who finds
// it says "this is stored already", so it is synced when a store is opened.

/// Cuts the log of `file` behind its last commit, and syncs it. The transaction holds the lock of writers and has
/// written nothing.
pub(super) fn cut_tail(transaction: &Transaction<'_>, file: &Path) -> Result<()> {
    // A transaction that writes cannot be asked for the end of the log.
    let frames = connection::frames(&connection::readable(file)?)?;
    let page = transaction.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0))?;
    let end = end(frames, u64::from(page));
    let end = i64::try_from(end).unwrap_or(i64::MAX);
    Ok(settle_tail(transaction, Some(end))?)
}

/// Syncs the log. The transaction has read from it.
pub(super) fn sync_tail(transaction: &Transaction<'_>) -> Result<()> {
    Ok(settle_tail(transaction, None)?)
}

/// Whether a transaction of this connection wrote frames before its commit. Starts anew with each call.
#[expect(
    unsafe_code,
    reason = "only SQLite's own file can be cut and synced as SQLite does it"
)]
pub(super) fn has_spilled(connection: &Connection) -> bool {
    let (mut pages, mut most): (c_int, c_int) = (0, 0);
    // SAFETY: the connection is open, and this thread has it. The call writes two numbers.
    let code = unsafe {
        ffi::sqlite3_db_status(
            connection.handle(),
            ffi::SQLITE_DBSTATUS_CACHE_SPILL,
            &raw mut pages,
            &raw mut most,
            1,
        )
    };
    code != ffi::SQLITE_OK || pages > 0
}

/// Cuts the log to `bytes`, if they are given, and syncs it.
#[expect(
    unsafe_code,
    reason = "only SQLite's own file can be cut and synced as SQLite does it"
)]
fn settle_tail(transaction: &Transaction<'_>, bytes: Option<i64>) -> rusqlite::Result<()> {
    let mut log: *mut ffi::sqlite3_file = null_mut();
    // SAFETY: the connection is open, and this thread has it. SQLite writes the address of its open log, which stays
    // open while the transaction lasts, and has the methods of a file.
    let code = unsafe {
        let found = ffi::sqlite3_file_control(
            transaction.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_JOURNAL_POINTER,
            (&raw mut log).cast(),
        );
        match (found, log.as_ref().and_then(|log| log.pMethods.as_ref())) {
            (ffi::SQLITE_OK, Some(methods)) => match (methods.xTruncate, methods.xSync) {
                (Some(truncate), Some(sync)) => {
                    match bytes.map_or(ffi::SQLITE_OK, |bytes| truncate(log, bytes)) {
                        ffi::SQLITE_OK => sync(log, ffi::SQLITE_SYNC_FULL),
                        failed => failed,
                    }
                }
                _ => ffi::SQLITE_MISUSE,
            },
            (ffi::SQLITE_OK, None) => ffi::SQLITE_MISUSE,
            (failed, _) => failed,
        }
    };
    if code == ffi::SQLITE_OK {
        return Ok(());
    }
    let message = "the log could not be cut at its end, or synced".to_owned();
    Err(rusqlite::Error::SqliteFailure(
        ffi::Error::new(code),
        Some(message),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

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

    /// A log of pages of 4,096 bytes, and its writer.
    fn log(directory: &Path) -> (Connection, std::path::PathBuf) {
        let writer = Connection::open(directory.join("a")).unwrap();
        writer
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x); CREATE TABLE u (x)",
            )
            .unwrap();
        (writer, directory.join("a-wal"))
    }

    fn place(frame: u64) -> usize {
        usize::try_from(HEADER as u64 + frame * (FRAME_HEADER as u64 + 4_096)).unwrap()
    }

    #[test]
    fn a_mark_that_a_power_cut_left_of_an_earlier_log_is_no_commit() {
        // In these frames a sector ends behind the mark of a commit, or behind the salts.
        for (parted, end) in [(41, MARK), (62, 16)] {
            let directory = tempfile::tempdir().unwrap();
            let (writer, log) = log(directory.path());
            while frames(&writer) < 80 {
                writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
            }
            let earlier = std::fs::read(&log).unwrap();
            writer
                .execute_batch("PRAGMA wal_checkpoint(RESTART); INSERT INTO t VALUES (2)")
                .unwrap();
            while frames(&writer) < parted {
                writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
            }
            assert_eq!(state(&log).unwrap(), State::Whole);
            writer
                .execute_batch("BEGIN; INSERT INTO t VALUES (3); INSERT INTO u VALUES (3); COMMIT")
                .unwrap();
            assert_eq!(frames(&writer), parted + 2);
            let mut bytes = std::fs::read(&log).unwrap();
            let cut = place(parted) + end;
            assert_eq!(cut % 512, 0);
            bytes[cut - 512..cut].copy_from_slice(&earlier[cut - 512..cut]);
            bytes[cut - 512..place(parted)]
                .copy_from_slice(&std::fs::read(&log).unwrap()[cut - 512..place(parted)]);
            std::fs::write(&log, &bytes).unwrap();
            assert_eq!(state(&log).unwrap(), State::Unfinished, "frame {parted}");
        }
    }

    #[test]
    fn a_commit_with_one_changed_bit_before_another_commit_is_damage() {
        let directory = tempfile::tempdir().unwrap();
        let (writer, log) = log(directory.path());
        for _ in 0..2 {
            writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        }
        let bytes = std::fs::read(&log).unwrap();
        let last = frames(&writer) - 1;
        assert_eq!(bytes.len(), place(last + 1));
        for bit in (0..64 * 8).step_by(3) {
            let (frame, mut changed) = (place(last - 1), bytes.clone());
            changed[frame + bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&log, &changed).unwrap();
            let found = state(&log).unwrap();
            let is_sum = (16..24).contains(&(bit / 8)); // the last commit does not follow it then
            assert_eq!(
                matches!(found, State::Damaged(Damage::Frame(at, _)) if at == last - 1),
                !is_sum,
                "bit {bit}"
            );
        }
    }

    #[test]
    fn frames_behind_the_last_commit_are_of_an_unfinished_transaction() {
        let directory = tempfile::tempdir().unwrap();
        let (writer, log) = log(directory.path());
        writer
            .execute_batch("BEGIN; INSERT INTO t VALUES (3); INSERT INTO u VALUES (3); COMMIT")
            .unwrap();
        let bytes = std::fs::read(&log).unwrap();
        let frames = frames(&writer);
        assert_eq!(bytes.len() as u64, end(frames, 4_096));
        assert_eq!(state(&log).unwrap(), State::Whole);
        std::fs::write(&log, &bytes[..place(frames - 1)]).unwrap();
        assert_eq!(state(&log).unwrap(), State::Unfinished);
        std::fs::write(&log, &bytes[..place(frames - 2)]).unwrap();
        assert_eq!(state(&log).unwrap(), State::Whole);
        assert_eq!(end(0, 4_096), 0);
    }
}
