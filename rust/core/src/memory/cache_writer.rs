//! Writes the indexes of a session into a cache file, so that they can be read instead of built the next time.
//!
//! The file is written without a lock. Then a transaction stores its checksum in the database, if no entry has left the
//! session in the meantime. Nothing depends on a cache, so a failure here changes nothing.

use hashbrown::HashMap;
use rusqlite::Connection;

use crate::error::Result;
use crate::id::SessionId;
use crate::memory::cached::Snapshot;
use crate::memory::required_indexes::RequiredIndexes;
use crate::memory::store::Store;
use crate::sqlite::{Finding, SessionRow, cached, session};

impl Store {
    /// Writes a cache of the session, if enough entries were analysed since the last one.
    pub(super) fn write_cache(&self, session: &SessionId) {
        // A failure is harmless: a search that reads the rows gives the same answers.
        let _ = self.try_to_write(session);
    }

    fn try_to_write(&self, session: &SessionId) -> Result<()> {
        let Some(scope) = self.scopes.get(session).filter(|_| !self.is_read_only()) else {
            return Ok(());
        };
        if !scope.read().is_worth_keeping() {
            return Ok(());
        }
        // Indexes that only the old file has are read first, so that the new file has them too.
        let kept_alone = scope.read().kept_alone();
        if !kept_alone.is_nothing() {
            self.catch_up(session, None, kept_alone, true)?;
        }
        let snapshot = {
            let scope = scope.read();
            if !scope.is_worth_keeping() {
                return Ok(());
            }
            scope.snapshot()
        };
        if !self
            .database
            .read(|transaction| is_current(transaction, &snapshot))?
        {
            return Ok(());
        }
        let Ok(checksum) = self.caches.write(&snapshot) else {
            return Ok(());
        };
        let is_believed = self.database.writer().and_then(|mut writer| {
            writer.transaction(|transaction| {
                // If something was forgotten in the meantime, the file is already deleted, or its epoch is old.
                let is_of_use = is_current(transaction, &snapshot)?
                    && self.caches.has(snapshot.session, checksum);
                if is_of_use {
                    cached::put(transaction, snapshot.session, checksum)?;
                }
                Ok(is_of_use)
            })
        });
        match is_believed {
            Ok(true) => {
                self.caches.remove(snapshot.session, Some(checksum));
                scope.read().keeps(&snapshot);
                Ok(())
            }
            outcome => {
                self.caches.discard(snapshot.session, checksum);
                outcome.map(|_| ())
            }
        }
    }

    /// Reads the needed indexes from the session's cache, if it fits the session's row. Without `is_wanted`, the
    /// cache is dropped, because it led to a damaged row.
    pub(super) fn kept(
        &self,
        connection: &Connection,
        row: &SessionRow,
        needs: RequiredIndexes,
        is_wanted: bool,
    ) -> Option<Snapshot> {
        let checksum = cached::find(connection, row.id)?;
        let known = is_wanted
            .then(|| self.caches.read(row, checksum, self.reading(), needs))
            .flatten();
        if known.is_none() && !self.is_read_only() {
            self.caches.discard(row.id, checksum);
        }
        known
    }

    /// Deletes every cache that the database does not name.
    pub(super) fn sweep(&self) {
        if !self.caches.are_none() {
            self.caches.sweep(&self.believed());
        }
    }

    /// The checksums of valid caches, by session; none if the database cannot be read, which another call will report.
    fn believed(&self) -> HashMap<i64, u64> {
        let believed = self.database.read(|transaction| cached::all(transaction));
        believed.unwrap_or_default()
    }

    /// A finding for each damaged cache.
    pub(super) fn damaged_caches(&self) -> Vec<Finding> {
        let damaged = self.believed().into_iter().filter(|&(session, checksum)| {
            self.caches.has(session, checksum) && !self.caches.is_whole(session, checksum)
        });
        let mut damaged: Vec<i64> = damaged.map(|(session, _)| session).collect();
        damaged.sort_unstable();
        let finding = |session| Finding {
            code: "cache",
            table: "",
            id: Some(session),
            message: format!(
                "the cache of session {session} does not match its checksum, and is of no use"
            ),
        };
        damaged.into_iter().map(finding).collect()
    }
}

impl Drop for Store {
    /// Writes caches of the indexes, for the next process that opens the file.
    fn drop(&mut self) {
        for session in self.scopes.sessions() {
            self.write_cache(&session);
        }
    }
}

/// Whether the session still has all entries of the snapshot.
fn is_current(connection: &Connection, snapshot: &Snapshot) -> Result<bool> {
    let row = session::by_key(connection, snapshot.session)?;
    Ok(row.is_some_and(|row| {
        !row.dropped && row.epoch == snapshot.epoch && row.revision >= snapshot.revision
    }))
}
