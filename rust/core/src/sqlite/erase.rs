//! Erases forgotten bytes from the file and from the write-ahead log, while others read and write.
//!
//! SQLite overwrites deleted bytes when it deletes them (`secure_delete`). But when rows move to another page, their
//! bytes stay behind in the old one. These leftovers are overwritten here, page by page:
//!
//! 1. A read transaction begins. While it lasts, the log keeps every page that is written from now on.
//! 2. The pages of that state are searched for leftovers. Nobody waits, however long this takes.
//! 3. The pages with leftovers are overwritten, some in each transaction. Other writers may have moved rows since, so
//!    each transaction first overwrites the leftovers of all pages that were written since the last one.
//! 4. The log is copied into the file and emptied.

use std::ops::Range;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};
use rustc_hash::FxHashSet;

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::chunked_writes::Uncopied;
use crate::sqlite::database::{BESIDE, Database};
use crate::sqlite::transaction::Transaction;
use crate::sqlite::wal::{self, Moment};
use crate::sqlite::{connection, meta};
use crate::whole_file::beside;

/// The highest number of pages in one transaction. Other writers wait while these are synced.
const PAGES: usize = 128;

impl Database {
    /// Overwrites the bytes of the file that are in no row, and empties the log. Readers go on meanwhile, and writers
    /// wait for moments only.
    ///
    /// False where another process writes, or a reader holds an earlier state for too long. The erasure is still due
    /// then.
    pub(crate) fn erase(&self) -> Result<bool> {
        let _exclusive = self.exclusive("erase forgotten texts from")?;
        let _uncopied = Uncopied::begin(self)?;
        match self.overwrite().and_then(|()| self.empty_log()) {
            Ok(true) if !self.remove_aside() => return Ok(false),
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if error.kind() == ErrorKind::StoreBusy => return Ok(false),
            Err(error) => return Err(error),
        }
        let mut writer = self.writer()?;
        let version = |transaction: &Transaction<'_>| {
            transaction.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0))
        };
        let (is_alone, before) = writer.transaction(|transaction| {
            meta::set(transaction, meta::ERASURE, meta::DONE)?;
            let is_alone = self.is_in_memory() || self.committed_frames()? == 0;
            Ok((is_alone, version(transaction)?))
        })?;
        if is_alone && !self.is_in_memory() {
            *self.erased.lock() = writer.transaction(|transaction| {
                let is_alone = version(transaction)? == before;
                Ok(is_alone.then_some(self.moment()?))
            })?;
        }
        Ok(true)
    }

    /// Whether nobody has written since the last erasure, so that there is nothing to erase.
    pub(crate) fn is_erased(&self) -> Result<bool> {
        let mut writer = self.writer()?;
        let Some(erased) = *self.erased.lock() else {
            return Ok(false);
        };
        writer.transaction(|transaction| {
            let page =
                transaction.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0))?;
            let frames = self.committed_frames()?;
            let bytes = self.of_log(self.log().metadata())?.len();
            Ok(self.moment()? == erased && bytes == wal::end(frames, page.into())) // none is behind its end
        })
    }

    /// Overwrites the bytes in pages that belong to no row.
    fn overwrite(&self) -> Result<()> {
        if self.is_in_memory() {
            return self.writer()?.transaction(|transaction| {
                for page in of_trees(transaction)? {
                    overwrite(transaction, page)?;
                }
                Ok(())
            });
        }
        self.read(|earlier| {
            // The first query of `earlier` fixes its state. From now on the log cannot begin anew, so it keeps all its
            // frames.
            let mut since = self.writer()?.transaction(|_| {
                earlier.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))?;
                self.moment()
            })?;
            let mut due = with_leftovers(earlier)?.into_iter();
            let overwrite = |transaction: &Transaction<'_>, is_time: &dyn Fn() -> bool| {
                let now = self.moment()?;
                let of_trees = of_trees(transaction)?;
                let written = self.of_log(wal::written(&self.log(), since, now))?;
                since = now;
                for page in FxHashSet::from_iter(written).intersection(&of_trees) {
                    overwrite(transaction, *page)?;
                }
                for page in due.by_ref().take(PAGES) {
                    if of_trees.contains(&page) {
                        overwrite(transaction, page)?;
                    }
                    if !is_time() {
                        break;
                    }
                }
                Ok(due.as_slice().is_empty())
            };
            self.in_turns(overwrite, || {})
        })
    }

    fn log(&self) -> PathBuf {
        beside(self.file(), BESIDE[0])
    }

    /// Turns an error of reading the log into an error of the store.
    fn of_log<T>(&self, read: std::io::Result<T>) -> Result<T> {
        read.map_err(|error| {
            let message = format!("could not read '{}': {error}", self.log().display());
            Error::new(ErrorKind::StoreIo, message).caused_by(error)
        })
    }

    /// The present position in the log. The caller must keep others from writing.
    fn moment(&self) -> Result<Moment> {
        let frames = self.committed_frames()?;
        self.of_log(Moment::now(&self.log(), frames))
    }

    /// Writes the file anew, without free pages. Writers wait for it, readers do not.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreBusy`] where another process writes for long, or reads an earlier state for long; otherwise
    /// the errors of a write.
    pub(crate) fn shrink(&self) -> Result<()> {
        let _exclusive = self.exclusive("shrink")?;
        self.writer()?
            .run(|connection| Ok(connection.execute_batch("VACUUM")?))?;
        if self.empty_log()? {
            return Ok(());
        }
        let message = format!(
            "a process still reads an earlier state of '{}', so the file keeps its size: end that read, and try again",
            self.file().display()
        );
        Err(Error::new(ErrorKind::StoreBusy, message))
    }

    /// Copies the log into the file and empties it, once no reader holds an earlier state. False if one does for too
    /// long.
    ///
    /// Writers wait for moments only: most of the log is copied without the right to write, and that right is free
    /// between two attempts.
    fn empty_log(&self) -> Result<bool> {
        const PAUSE: Duration = Duration::from_millis(10);
        if self.is_in_memory() {
            return Ok(true);
        }
        let begun = Instant::now();
        loop {
            self.copy_log()?;
            let mut writer = self.writer()?;
            let emptied = writer.run(truncate_log);
            writer.pass_on(); // the next transaction of the erasure comes after those that wait
            match emptied {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::StoreBusy => {} // another process writes
                Err(error) => return Err(error),
            }
            if begun.elapsed() >= connection::BUSY_TIMEOUT {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
    }

    /// Deletes the logs of files that were replaced, because they may hold forgotten bytes. True if none are left.
    fn remove_aside(&self) -> bool {
        let left = BESIDE.iter().filter(|suffix| {
            let aside = beside(self.file(), &format!("{suffix}-replaced"));
            !self.is_in_memory() && aside.exists() && std::fs::remove_file(aside).is_err()
        });
        left.count() == 0 // every file is tried, also after one that stays
    }
}

/// The numbers of the pages with bytes that are in no row, ascending.
fn with_leftovers(connection: &Connection) -> Result<Vec<u32>> {
    let mut numbers: Vec<u32> = of_trees(connection)?.into_iter().collect();
    numbers.sort_unstable();
    let mut found = Vec::new();
    for number in numbers {
        if has_leftovers(connection, number)? {
            found.push(number);
        }
    }
    Ok(found)
}

/// Tries to empty the log. False where a reader holds an earlier state.
fn truncate_log(connection: &mut Connection) -> Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, i64>(0)
    });
    connection::be_patient(connection)?;
    Ok(busy? == 0)
}

// The pages of the file, and the bytes in them that belong to no row.
//
// When SQLite moves rows to another page, their bytes stay behind in the free space of the old page.
// `secure_delete` overwrites deleted rows, but not these leftovers.
//
// Source of the format: <https://www.sqlite.org/fileformat2.html#b_tree_pages>.

/// Bytes of the file's own header, on the first page.
const FILE_HEADER: usize = 100;
/// Bytes at the start of a free block: two for the offset of the next block, two for the length of this one.
const FREE_HEADER: usize = 4;

/// The numbers of all B-tree pages, interior pages and leaves.
///
/// Other pages need no erasure: free pages were overwritten when they became free, and overflow pages hold the
/// ends of long rows and nothing else.
///
/// Leaf pages are not read, except roots and the first leaf below each interior page, which tells the depth.
fn of_trees(connection: &Connection) -> Result<FxHashSet<u32>> {
    let mut statement =
        connection.prepare_cached("SELECT rootpage FROM sqlite_schema WHERE rootpage > 0")?;
    let roots = statement.query_map([], |row| row.get::<_, u32>(0))?;
    let mut due = vec![1];
    for root in roots {
        due.push(root?);
    }
    let mut found = FxHashSet::default();
    while let Some(number) = due.pop() {
        if !found.insert(number) {
            return Err(damaged(number));
        }
        let below = read(connection, number, |page| children(page, number))?;
        let Some(&first) = below.first() else {
            continue;
        };
        // All leaves of a tree have the same depth.
        if read(connection, first, |page| children(page, first))?.is_empty() {
            found.extend(below);
        } else {
            due.extend(below);
        }
    }
    Ok(found)
}

/// Whether the page has non-zero bytes that belong to no row.
fn has_leftovers(connection: &Connection, number: u32) -> Result<bool> {
    read(connection, number, |page| {
        let free = free(page, number)?;
        Ok(free.into_iter().any(|room| is_used(&page[room])))
    })
}

/// Overwrites the bytes of the page that belong to no row with zeros. True if there were any.
fn overwrite(connection: &Connection, number: u32) -> Result<bool> {
    let page = read(connection, number, |page| {
        let free = free(page, number)?;
        if !free.iter().any(|room| is_used(&page[room.clone()])) {
            return Ok(None);
        }
        let mut page = page.to_vec();
        for room in free {
            page[room].fill(0);
        }
        Ok(Some(page))
    })?;
    let Some(page) = page else {
        return Ok(false);
    };
    // SQLite's defensive mode forbids writing raw pages. It is switched off for this one statement.
    let defensive = DbConfig::SQLITE_DBCONFIG_DEFENSIVE;
    let was_on = connection.db_config(defensive)?;
    connection.set_db_config(defensive, false)?;
    let written = connection
        .prepare_cached("UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1")
        .and_then(|mut statement| statement.execute(params![number, page]));
    connection.set_db_config(defensive, was_on)?;
    written?;
    Ok(true)
}

fn read<T>(
    connection: &Connection,
    number: u32,
    look: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<T> {
    let mut statement =
        connection.prepare_cached("SELECT data FROM sqlite_dbpage WHERE pgno = ?1")?;
    let mut rows = statement.query([number])?;
    match rows.next()?.map(|row| row.get_ref(0)).transpose()? {
        Some(rusqlite::types::ValueRef::Blob(page)) => look(page),
        _ => Err(damaged(number)),
    }
}

fn is_used(room: &[u8]) -> bool {
    room.iter().any(|&byte| byte != 0)
}

/// The header of a B-tree page.
struct Head {
    at: usize,
    /// The offset of the cell pointers.
    places: usize,
    rows: usize,
    leads: bool,
}

impl Head {
    fn of(page: &[u8], number: u32) -> Result<Self> {
        let at = if number == 1 { FILE_HEADER } else { 0 };
        let leads = match page.get(at) {
            Some(2 | 5) => true,
            Some(10 | 13) => false,
            _ => return Err(damaged(number)),
        };
        let head = Self {
            at,
            places: at + if leads { 12 } else { 8 },
            rows: number_at(page, at + 3, number)?,
            leads,
        };
        if head.end() > page.len() {
            return Err(damaged(number));
        }
        Ok(head)
    }

    /// The end of the cell pointers.
    fn end(&self) -> usize {
        self.places + 2 * self.rows
    }
}

/// The children of an interior page; none for a leaf.
fn children(page: &[u8], number: u32) -> Result<Vec<u32>> {
    let head = Head::of(page, number)?;
    if !head.leads {
        return Ok(Vec::new());
    }
    let mut found = Vec::with_capacity(head.rows + 1);
    for row in 0..head.rows {
        found.push(page_at(
            page,
            number_at(page, head.places + 2 * row, number)?,
            number,
        )?);
    }
    found.push(page_at(page, head.at + 8, number)?);
    Ok(found)
}

/// The free space of a B-tree page: the gap between the cell pointers and the first cell, and the free blocks, without
/// the headers that link these blocks.
fn free(page: &[u8], number: u32) -> Result<Vec<Range<usize>>> {
    let head = Head::of(page, number)?;
    // The offset has 16 bits, and 0 stands for 65,536.
    let first = match number_at(page, head.at + 5, number)? {
        0 => 1 << 16,
        first => first,
    };
    if first < head.end() || first > page.len() {
        return Err(damaged(number));
    }
    let mut found = Vec::new();
    found.push(head.end()..first);
    let (mut before, mut piece) = (first, number_at(page, head.at + 1, number)?);
    while piece != 0 {
        let length = number_at(page, piece + 2, number)?;
        if piece < before || length < FREE_HEADER || piece + length > page.len() {
            return Err(damaged(number));
        }
        found.push(piece + FREE_HEADER..piece + length);
        before = piece + length;
        piece = number_at(page, piece, number)?;
    }
    Ok(found)
}

fn number_at(page: &[u8], at: usize, number: u32) -> Result<usize> {
    match page.get(at..at + 2) {
        Some(&[high, low]) => Ok(usize::from(u16::from_be_bytes([high, low]))),
        _ => Err(damaged(number)),
    }
}

fn page_at(page: &[u8], at: usize, number: u32) -> Result<u32> {
    match page.get(at..at + 4) {
        Some(&[a, b, c, d]) => Ok(u32::from_be_bytes([a, b, c, d])),
        _ => Err(damaged(number)),
    }
}

fn damaged(number: u32) -> Error {
    let message = format!("page {number} of the file is damaged");
    Error::new(ErrorKind::StoreCorrupt, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database whose rows were written in random order, so that SQLite moved them from page to page.
    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)
            .unwrap();
        let options = "PRAGMA secure_delete = ON; PRAGMA page_size = 1024;
             CREATE TABLE a (id INTEGER PRIMARY KEY, text TEXT);
             CREATE TABLE b (text TEXT PRIMARY KEY, id INTEGER) WITHOUT ROWID;
             CREATE INDEX c ON a (text);";
        connection.execute_batch(options).unwrap();
        for number in 0..500_i64 {
            let id = number.wrapping_mul(0x9E37_79B9) % 10_007;
            let text = text(id, usize::try_from(id % 400).unwrap());
            for sql in [
                "INSERT INTO a (id, text) VALUES (?1, ?2)",
                "INSERT INTO b (id, text) VALUES (?1, ?2)",
            ] {
                connection.execute(sql, params![id, text]).unwrap();
            }
        }
        connection
    }

    fn text(id: i64, length: usize) -> String {
        format!(
            "<{}>{}",
            id.wrapping_mul(0x1234_5678_9ABC_DEF1),
            "x".repeat(length)
        )
    }

    fn bytes(connection: &Connection) -> Vec<u8> {
        let mut statement = connection
            .prepare("SELECT data FROM sqlite_dbpage")
            .unwrap();
        let pages = statement
            .query_map([], |row| row.get::<_, Vec<u8>>(0))
            .unwrap();
        pages.flat_map(rusqlite::Result::unwrap).collect()
    }

    fn holds(bytes: &[u8], id: i64) -> bool {
        let mark = text(id, 0);
        bytes
            .windows(mark.len())
            .any(|piece| piece == mark.as_bytes())
    }

    #[test]
    fn rows_that_moved_leave_their_bytes_behind_until_they_are_overwritten() {
        let connection = database();
        let mut statement = connection.prepare("SELECT id FROM a ORDER BY id").unwrap();
        let ids: Vec<i64> = statement
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(rusqlite::Result::unwrap)
            .collect();
        let (gone, kept): (Vec<i64>, Vec<i64>) = ids.into_iter().partition(|id| id % 3 == 0);
        for id in &gone {
            connection
                .execute("DELETE FROM a WHERE id = ?1", [id])
                .unwrap();
            connection
                .execute("DELETE FROM b WHERE id = ?1", [id])
                .unwrap();
        }
        let before = bytes(&connection);
        assert!(
            gone.iter().any(|&id| holds(&before, id)),
            "nothing was left behind: this proves nothing"
        );

        let pages = of_trees(&connection).unwrap();
        assert!(
            pages
                .iter()
                .any(|&page| has_leftovers(&connection, page).unwrap())
        );
        for &page in &pages {
            overwrite(&connection, page).unwrap();
            assert!(!has_leftovers(&connection, page).unwrap());
            assert!(!overwrite(&connection, page).unwrap());
        }
        let after = bytes(&connection);
        assert_eq!(gone.iter().filter(|&&id| holds(&after, id)).count(), 0);
        assert!(kept.iter().all(|&id| holds(&after, id)));
        let checked: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(checked, "ok");
        // Free space is still free, and takes new rows.
        for id in &gone {
            let text = text(*id, 300);
            connection
                .execute("INSERT INTO a VALUES (?1, ?2)", params![id, text])
                .unwrap();
        }
        let checked: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(checked, "ok");
    }

    #[test]
    fn every_page_of_a_tree_is_found_and_no_other() {
        let connection = database();
        let pages = of_trees(&connection).unwrap();
        let mut statement = connection
            .prepare("SELECT pageno FROM dbstat WHERE pagetype IN ('leaf', 'internal')")
            .unwrap();
        let known = statement.query_map([], |row| row.get::<_, u32>(0)).unwrap();
        let known: FxHashSet<u32> = known.map(rusqlite::Result::unwrap).collect();
        assert!(known.len() > 100);
        assert_eq!(pages, known);
    }

    #[test]
    fn a_page_that_is_none_is_refused() {
        let mut page = vec![0; 512];
        let refused = |page: &[u8]| free(page, 2).is_err();
        assert!(refused(&page));
        assert!(refused(&[]));
        page[0] = 13;
        page[5] = 2; // its rows begin at 512: there are none
        let room = free(&page, 2).unwrap();
        assert_eq!((room.len(), &room[0]), (1, &(8..512)));
        page[4] = 255; // 255 rows, whose places alone are longer than the page
        assert!(refused(&page));
        page[4] = 1;
        (page[1], page[2]) = (1, 0); // a free piece at 256, before the first row
        assert!(refused(&page));
        (page[5], page[6]) = (1, 0);
        assert!(refused(&page)); // of no length
        page[259] = 16;
        assert_eq!(free(&page, 2).unwrap(), [10..256, 260..272]);
        page[257] = 1; // which leads to itself, one byte on
        assert!(refused(&page));
    }
}
