//! Copies the log into the file beside the writers, while many pages are written.

use rusqlite::Connection;

use crate::error::Result;
use crate::sqlite::database::Database;
use crate::sqlite::{connection, file_sync};

/// The pages in the log from which on it is copied into the file: SQLite's own number.
const LOG_PAGES: u32 = 1_000;

/// While this lives, no commit of this process copies the log into the file: a commit that did would take as long as
/// many commits. Whoever has this copies the log itself, beside the writers.
pub(super) struct Uncopied<'a>(&'a Database);

impl<'a> Uncopied<'a> {
    pub(super) fn begin(database: &'a Database) -> Result<Self> {
        copy_at(database, 0)?;
        Ok(Self(database))
    }

    /// Copies a long log into the file. Then the next transaction begins the log anew, if no reader holds an earlier
    /// state.
    ///
    /// Nobody waits for this copy. Only the few pages that others wrote meanwhile are copied while they wait. If the
    /// copy fails, the log stays long, and a later commit copies it.
    pub(super) fn copy_if_long(&self) {
        let database = self.0;
        let pages = database.committed_frames().unwrap_or(0);
        if pages < u64::from(LOG_PAGES) || database.copy_log().is_err() {
            return;
        }
        let left = database.with_reader(|reader| Ok(connection::copied(reader)?));
        if left.is_ok_and(|(pages, copied)| copied < pages)
            && let Ok(mut writer) = database.writer()
        {
            let _ = writer.run(|connection| Ok(connection::copy_log(connection)?));
            writer.pass_on();
        }
    }
}

impl Drop for Uncopied<'_> {
    fn drop(&mut self) {
        // If this fails, the connection is broken, and the next one has SQLite's own setting.
        let _ = copy_at(self.0, LOG_PAGES);
    }
}

impl Database {
    /// The number of committed frames in the log.
    pub(super) fn committed_frames(&self) -> Result<u64> {
        self.with_reader(|connection| Ok(connection::frames(connection)?))
    }

    /// Copies as much of the log as possible into the file, and syncs the file. It uses a connection of its own, so
    /// nobody waits for it.
    ///
    /// If others commit meanwhile, SQLite leaves the sync to the next copy, for which they might have to wait. So the
    /// file is synced here, and what they wrote is copied as well. Few pages are left then, or none.
    pub(super) fn copy_log(&self) -> Result<()> {
        let Some(place) = self.place() else {
            return Ok(());
        };
        // A fork waits until nobody reads, and so until this connection is closed too.
        self.with_reader(|_| {
            place.check()?;
            let beside = connection::existing(self.file())?;
            // If the file was replaced meanwhile, the log must not get into the new file.
            let copied = place.check().and_then(|()| copy_and_sync(&beside));
            connection::leave(Some(beside));
            copied
        })
    }
}

/// Copies as much of the log as possible into the file, and syncs the file.
fn copy_and_sync(beside: &Connection) -> Result<()> {
    let (_, before) = connection::copied(beside)?;
    connection::copy_log(beside)?;
    let (pages, copied) = connection::copied(beside)?;
    if copied < pages && copied != before {
        file_sync::sync(beside)?;
        connection::copy_log(beside)?;
    }
    Ok(())
}

/// Sets the number of pages in the log from which on a commit copies them into the file; 0 for never.
fn copy_at(database: &Database, pages: u32) -> Result<()> {
    database.writer()?.run(|connection| {
        connection.pragma_update_and_check(None, "wal_autocheckpoint", pages, |_| Ok(()))?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::meta;

    /// Bytes that take about half of the pages of a long log.
    const MUCH: u32 = LOG_PAGES / 2 * 4_096;

    fn write(database: &Database) {
        database
            .writer()
            .unwrap()
            .transaction(|transaction| {
                transaction.execute_batch("CREATE TABLE IF NOT EXISTS much (data BLOB)")?;
                transaction.execute("INSERT INTO much VALUES (zeroblob(?1))", [MUCH])?;
                Ok(())
            })
            .unwrap();
    }

    /// The pages of the log that are in the file as well.
    fn copied(database: &Database) -> u64 {
        let found = database.with_reader(|reader| Ok(connection::copied(reader)?));
        found.unwrap().1
    }

    #[test]
    fn commits_copy_the_log_again_when_it_ends_and_not_before() {
        let directory = tempfile::tempdir().unwrap();
        let birth = [(meta::ERASURE, meta::DONE)];
        let file = directory.path().join("a.sqlite3");
        let database = Database::open(&file, false, None, &birth).unwrap();
        let uncopied = Uncopied::begin(&database).unwrap();
        database.copy_log().unwrap();
        write(&database); // begins the log anew
        uncopied.copy_if_long();
        assert!(database.committed_frames().unwrap() < u64::from(LOG_PAGES));
        assert_eq!(copied(&database), 0);

        write(&database);
        write(&database);
        assert_eq!(copied(&database), 0);
        uncopied.copy_if_long();
        assert_eq!(copied(&database), database.committed_frames().unwrap());
        write(&database);
        assert!(database.committed_frames().unwrap() < u64::from(LOG_PAGES)); // the log began anew
        assert_eq!(copied(&database), 0);

        drop(uncopied);
        let is_copied = || {
            write(&database);
            copied(&database) > 0
        };
        assert!((0..2).any(|_| is_copied())); // the write after a copy begins the log anew
    }
}
