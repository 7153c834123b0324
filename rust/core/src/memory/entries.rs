//! Entries of a store: they are written, read by id, listed, counted and deleted here.

use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::check::{check, is_blank};
use crate::memory::options::{check_page, invalid};
use crate::memory::required_indexes::RequiredIndexes;
use crate::memory::scope::{IndexSizes, Scope};
use crate::memory::store::Store;
use crate::sqlite::entry::Listed;
use crate::sqlite::{
    Counts, NewEntry, StoredEntry, cached, entry, figures, leaving, quarantine, session,
};

/// A page of a session's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The entries of the page that pass the filters, in order of id.
    pub entries: Vec<StoredEntry>,
    /// Rows of the page with a wrong checksum, whatever the filters.
    pub damaged: Vec<EntryId>,
    /// Where the next page begins, None at the end.
    pub next_offset: Option<i64>,
}

/// The sizes of a store, or of one session of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The counts of rows.
    pub counts: Counts,
    /// Bytes of the store's files.
    pub disk_bytes: u64,
    /// The sizes of its indexes, for one session.
    pub index: Option<IndexSizes>,
    /// Entries that are damaged, as far as they were met, and those that a repair set aside.
    pub quarantined: i64,
}

impl Store {
    /// Stores and indexes `entries`: all of them, or none. The id of each, None for a blank one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidEntry`] where one of them is out of bounds; otherwise those of a write.
    pub fn insert(
        &self,
        session: &SessionId,
        entries: &[NewEntry],
    ) -> Result<Vec<Option<EntryId>>> {
        if entries.iter().all(is_blank) {
            check(entries)?;
            self.database.writer()?; // a store that is only to be read says so
            return Ok(vec![None; entries.len()]);
        }
        self.write_entries(session, entries, |_, _| Ok(None))
    }

    /// The entry of that id, and the name of its session. One that has expired is given.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::EntryNotFound`]; otherwise those of a read.
    pub fn get(&self, id: EntryId) -> Result<(StoredEntry, String)> {
        let found = self.database.read(|transaction| {
            let Some(stored) = entry::get(transaction, id)? else {
                return Ok(None);
            };
            let owner = session::by_key(transaction, stored.session)?.ok_or_else(|| {
                let message = format!("entry {id} belongs to no session");
                Error::new(ErrorKind::StoreCorrupt, message)
                    .with("table", "entry")
                    .with("id", id.0)
            })?;
            // Rows of a session that was deleted may be there for a while.
            Ok((!owner.dropped).then_some((stored, owner.name)))
        })?;
        found.ok_or_else(|| {
            let message = format!("the store has no entry {id}");
            Error::new(ErrorKind::EntryNotFound, message).with("entry_id", id.0)
        })
    }

    /// A page of the session's entries in order of id.
    ///
    /// `offset` and `limit` count rows. Of the page, only entries whose range shares a message with
    /// `overlaps` and which are newer than `since` are given, so it may be short. What has expired is given.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidEntry`] where an argument is out of bounds; otherwise those of a read.
    pub fn page(
        &self,
        session: &SessionId,
        overlaps: Option<(i64, i64)>,
        since: Option<i64>,
        offset: i64,
        limit: i64,
    ) -> Result<Page> {
        check_page(offset, limit)?;
        if let Some((start, end)) = overlaps
            && start > end
        {
            return Err(invalid(format!(
                "overlaps must be start <= end, got ({start}, {end})"
            )));
        }
        let (rows, total) = self.database.read(|transaction| {
            let Some(row) = session::find(transaction, session)? else {
                return Ok((Vec::new(), 0));
            };
            let rows = entry::page(transaction, &row, offset, limit)?;
            Ok((rows, row.entries))
        })?;
        let next = offset.saturating_add(limit);
        let (mut entries, mut damaged) = (Vec::new(), Vec::new());
        for row in rows {
            match row {
                Listed::Whole(stored) if passes(&stored.entry, overlaps, since) => {
                    entries.push(stored);
                }
                Listed::Whole(_) => {}
                Listed::Damaged(id) => damaged.push(id),
            }
        }
        Ok(Page {
            entries,
            damaged,
            next_offset: (next < total).then_some(next),
        })
    }

    /// Deletes the session: its entries, its log, its compactions. Returns the number of its entries.
    ///
    /// One transaction deletes it; its rows in a file are then taken some at a time, so that nobody waits for all of
    /// them.
    ///
    /// A tombstone stays: later writes to it are accepted, and nothing of them is kept. A session that never wrote
    /// leaves no tombstone.
    ///
    /// # Errors
    ///
    /// Those of a write.
    pub fn delete_session(&self, session: &SessionId) -> Result<i64> {
        let mut writer = self.database.writer()?;
        let dropped = writer.transaction(|transaction| {
            let Some(row) = session::find(transaction, session)? else {
                return Ok(None);
            };
            let (id, entries, namespace) = (row.id, row.entries, row.namespace.clone());
            leaving::drop_session(transaction, row)?;
            cached::forget(transaction, id)?;
            if self.database.is_in_memory() {
                // No other process waits, and the keeper of a mirror is handed all of it in one step.
                leaving::take(transaction, &|| true)?;
            }
            Ok(Some((id, entries, namespace)))
        })?;
        drop(writer); // who writes to others does not wait for what follows
        self.scopes.remove(session);
        let Some((id, entries, namespace)) = dropped else {
            return Ok(0);
        };
        self.scopes.leave_namespace(&namespace, id);
        self.caches.remove(id, None);
        // The session is deleted, whatever becomes of this: what is left is taken by who opens the store next, or
        // deletes or forgets something.
        let _ = self.take_departing();
        Ok(entries)
    }

    /// Begins a deleted session again, empty. False for a session that was not deleted.
    ///
    /// # Errors
    ///
    /// Those of a write.
    pub fn revive(&self, session: &SessionId) -> Result<bool> {
        self.take_departing()?;
        let mut writer = self.database.writer()?;
        let was_dropped = writer.transaction(|transaction| {
            let Some(mut row) = session::find_any(transaction, session)?.filter(|row| row.dropped)
            else {
                return Ok(false);
            };
            leaving::take(transaction, &|| true)?; // else they would be its own again
            row.dropped = false;
            row.revision += 1;
            row.epoch += 1;
            row.redactions += 1;
            row.counter += 1;
            session::save(transaction, &row)?;
            Ok(true)
        })?;
        self.scopes.remove(session);
        Ok(was_dropped)
    }

    /// Deletes the session's entries that have expired at `now`, those from before `before`, and then the oldest
    /// until `keep` are left; None keeps all. How many for each reason: age, number, expiry. The log stays as it
    /// is. Where nothing is asked for, and nothing has expired, it only reads.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidEntry`] where `keep` is below 0; otherwise those of a read, and of a write.
    pub fn expire(
        &self,
        session: &SessionId,
        keep: Option<i64>,
        before: Option<i64>,
        now: i64,
    ) -> Result<(i64, i64, i64)> {
        if let Some(keep) = keep.filter(|&keep| keep < 0) {
            return Err(invalid(format!("keep must be at least 0, got {keep}")));
        }
        let lapsed = self.lapse(session, now)?;
        if (keep, before) == (None, None) {
            return Ok((0, 0, lapsed));
        }
        let mut writer = self.database.writer()?;
        let (aged, over) = writer.transaction(|transaction| {
            let Some(mut row) = session::find(transaction, session)? else {
                return Ok((0, 0));
            };
            let gone = leaving::expire(transaction, &mut row, keep, before)?;
            if gone != (0, 0) {
                session::save(transaction, &row)?;
            }
            Ok(gone)
        })?;
        Ok((aged, over, lapsed))
    }

    /// Deletes the session's entries that have expired at `now`, and returns their number. Without such entries it
    /// only reads.
    ///
    /// # Errors
    ///
    /// Those of a read, and of a write.
    pub fn lapse(&self, session: &SessionId, now: i64) -> Result<i64> {
        let is_any =
            self.database
                .read(|transaction| match session::find(transaction, session)? {
                    Some(row) => entry::is_any_expired(transaction, row.id, now),
                    None => Ok(false),
                })?;
        if !is_any {
            return Ok(0);
        }
        let mut writer = self.database.writer()?;
        writer.transaction(|transaction| {
            let Some(mut row) = session::find(transaction, session)? else {
                return Ok(0);
            };
            let lapsed = leaving::lapse(transaction, &mut row, now)?;
            session::save(transaction, &row)?;
            Ok(lapsed)
        })
    }

    /// The sizes of the store, or of one session of it.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn figures(&self, session: Option<&SessionId>) -> Result<Figures> {
        let (counts, index, damaged) = match session {
            None => {
                let counts = self
                    .database
                    .read(|transaction| figures::of_store(transaction))?;
                (counts, None, self.scopes.damaged())
            }
            Some(session) => {
                let found = self.with_scope(
                    session,
                    None,
                    RequiredIndexes::BOTH,
                    Scope::sizes,
                    |transaction, scope, row, sizes| {
                        let counts = figures::of_session(transaction, row)?;
                        Ok((counts, Some(sizes), scope.damaged().len()))
                    },
                )?;
                found.unwrap_or_default()
            }
        };
        let set_aside = self
            .database
            .read(|transaction| quarantine::of(transaction, session))?;
        Ok(Figures {
            counts,
            disk_bytes: self.database.disk_bytes() + self.caches.bytes(),
            index,
            quarantined: i64::try_from(damaged + set_aside.len()).unwrap_or(i64::MAX),
        })
    }

    /// The entries of the session that are damaged, or were and are set aside: no search finds them.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn quarantined(&self, session: &SessionId) -> Result<Vec<EntryId>> {
        let damaged = self.with_scope(
            session,
            None,
            RequiredIndexes::NOTHING,
            |_| (),
            |_, scope, _, ()| Ok(scope.damaged().to_vec()),
        )?;
        let mut ids = self
            .database
            .read(|transaction| quarantine::of(transaction, Some(session)))?;
        ids.extend(damaged.unwrap_or_default());
        ids.sort_unstable();
        Ok(ids)
    }
}

/// Half-open ranges share a message where each begins before the other ends; an empty one has none.
fn passes(entry: &NewEntry, overlaps: Option<(i64, i64)>, since: Option<i64>) -> bool {
    let shares = overlaps.is_none_or(|(start, end)| entry.start.max(start) < entry.end.min(end));
    shares && since.is_none_or(|since| entry.created_at > since)
}
