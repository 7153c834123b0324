//! Writes, reads, lists, counts and deletes the entries of a store, and lists its sessions.

use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::options::{check_page, invalid};
use crate::memory::session_index::{IndexSizes, RequiredIndexes, Scope};
use crate::memory::store::Store;
use crate::sqlite::entry::{self, Listed};
use crate::sqlite::{
    Counts, NewEntry, SessionRow, StoredEntry, Transaction, deletion, meta, repair, session,
};

/// A page of a session's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The entries of the page that match the arguments, in order of id.
    pub entries: Vec<StoredEntry>,
    /// Ids of the page's rows with a wrong checksum, whether they match or not.
    pub damaged: Vec<EntryId>,
    /// The offset of the next page; None at the end.
    pub next_offset: Option<i64>,
}

/// Which entries have expired. Each case has the time that the clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// Those that have expired by the clock.
    By(i64),
    /// Those that had expired at the settled time: a clock that is wrong once deletes nothing for good.
    Settled(i64),
    /// The same, and the clock is noted. A later time settles only by this.
    Noted(i64),
}

/// The sizes of a store, or of one session of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The counts of rows.
    pub counts: Counts,
    /// Bytes of the store's files.
    pub disk_bytes: u64,
    /// The sizes of its indexes; None for a whole store.
    pub index: Option<IndexSizes>,
    /// The number of damaged entries that were found so far, and of set-aside entries.
    pub quarantined: i64,
}

impl Store {
    /// Stores and indexes `entries`: all of them, or none. Gives the id of each entry, None for a blank one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidEntry`] where one of them is out of bounds; otherwise the errors of a write.
    pub fn insert(
        &self,
        session: &SessionId,
        entries: &[NewEntry],
    ) -> Result<Vec<Option<EntryId>>> {
        if entries.iter().all(is_blank) {
            check_entries(entries)?;
            self.database.writer()?; // a read-only store refuses even this
            return Ok(vec![None; entries.len()]);
        }
        self.write_entries(session, entries, 0, |_, _| Ok(None))
    }

    /// The entry of that id, even if it has expired, and the name of its session.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::EntryNotFound`]; otherwise the errors of a read.
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
            // Rows of a deleted session may still exist for a while.
            Ok((!owner.dropped).then_some((stored, owner.name)))
        })?;
        found.ok_or_else(|| {
            let message = format!("the store has no entry {id}");
            Error::new(ErrorKind::EntryNotFound, message).with("entry_id", id.0)
        })
    }

    /// A page of the session's entries in order of id.
    ///
    /// `offset` and `limit` count rows. Only rows are returned whose range shares a message with
    /// `overlaps` and which are newer than `since`, so a page may be short. Expired entries are returned.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidEntry`] where an argument is out of bounds; otherwise the errors of a read.
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

    /// Deletes the session: its entries, its log, its compactions and its facts. Gives the number of its entries.
    ///
    /// One transaction deletes the session. In a file, its rows are then deleted in short transactions, so that other
    /// writers wait only briefly.
    ///
    /// A tombstone stays. It accepts later writes, and keeps nothing of them. A session that never wrote
    /// leaves no tombstone.
    ///
    /// # Errors
    ///
    /// The errors of a write.
    pub fn delete_session(&self, session: &SessionId) -> Result<i64> {
        let mut writer = self.database.writer()?;
        let dropped = writer.transaction(|transaction| {
            let Some(row) = session::find(transaction, session)? else {
                return Ok(None);
            };
            let (id, entries, namespace) = (row.id, row.entries, row.namespace.clone());
            deletion::drop_session(transaction, row)?;
            meta::forget_cache(transaction, id)?;
            if self.database.is_in_memory() {
                // No other process waits, and the keeper of a mirror gets the whole deletion in one step.
                deletion::take(transaction, &|| true)?;
            }
            Ok(Some((id, entries, namespace)))
        })?;
        drop(writer); // writers of other sessions do not wait for the following steps
        self.scopes.remove(session);
        let Some((id, entries, namespace)) = dropped else {
            return Ok(0);
        };
        self.scopes.leave_namespace(&namespace, id);
        self.caches.remove(id, None);
        // The session is deleted, even if this fails. The remaining rows are deleted when the store is next opened, or
        // when a call next deletes or forgets something.
        let _ = self.take_departing();
        Ok(entries)
    }

    /// Begins a deleted session again, empty. False for a session that was not deleted.
    ///
    /// # Errors
    ///
    /// The errors of a write.
    pub fn revive(&self, session: &SessionId) -> Result<bool> {
        self.take_departing()?;
        let mut writer = self.database.writer()?;
        let was_dropped = writer.transaction(|transaction| {
            let Some(mut row) = session::find_any(transaction, session)?.filter(|row| row.dropped)
            else {
                return Ok(false);
            };
            begin_again(transaction, &mut row)?;
            Ok(true)
        })?;
        self.scopes.remove(session);
        Ok(was_dropped)
    }

    /// Deletes what one writer has written to the session, which is empty then. The writer gives the ids of its writes,
    /// and the most entries that it may have indexed. If the last write of the session has another id, or there are more
    /// entries, others have written too: then nothing is deleted, and the answer is false.
    ///
    /// All of it is one transaction.
    ///
    /// # Errors
    ///
    /// The errors of a write.
    pub fn take_back(&self, session: &SessionId, write_ids: &[i64], entries: i64) -> Result<bool> {
        let mut writer = self.database.writer()?;
        let taken = writer.transaction(|transaction| {
            let Some(row) = session::find(transaction, session)? else {
                return Ok(None);
            };
            if !write_ids.contains(&row.write_id) || row.entries > entries {
                return Ok(None);
            }
            let (id, namespace) = (row.id, row.namespace.clone());
            deletion::drop_session(transaction, row)?;
            meta::forget_cache(transaction, id)?;
            if let Some(mut row) = session::find_any(transaction, session)? {
                begin_again(transaction, &mut row)?;
            }
            Ok(Some((id, namespace)))
        })?;
        drop(writer);
        let Some((id, namespace)) = taken else {
            return Ok(false);
        };
        self.scopes.remove(session);
        self.scopes.leave_namespace(&namespace, id);
        self.caches.remove(id, None);
        Ok(true)
    }

    /// Deletes the session's entries that have expired at `now`, then entries from before `before`, then the oldest
    /// until `keep` are left; None sets no limit. Gives the numbers by reason: age, number, expiry. The log stays as it
    /// is. Without limits and without expired entries, the store is only read. Unless it `is_asked`, entries expire by
    /// the settled time.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidEntry`] where `keep` is below 0; otherwise the errors of a read, and of a write.
    pub fn expire(
        &self,
        session: &SessionId,
        keep: Option<i64>,
        before: Option<i64>,
        now: i64,
        is_asked: bool,
    ) -> Result<(i64, i64, i64)> {
        if let Some(keep) = keep.filter(|&keep| keep < 0) {
            return Err(invalid(format!("keep must be at least 0, got {keep}")));
        }
        let by = if is_asked {
            Expired::By(now)
        } else {
            Expired::Settled(now)
        };
        let expired = self.delete_expired(session, by)?;
        if (keep, before) == (None, None) {
            return Ok((0, 0, expired));
        }
        let mut writer = self.database.writer()?;
        let (aged, over) = writer.transaction(|transaction| {
            let Some(mut row) = session::find(transaction, session)? else {
                return Ok((0, 0));
            };
            let gone = deletion::expire(transaction, &mut row, keep, before, now)?;
            if gone != (0, 0) {
                session::save(transaction, &row)?;
            }
            Ok(gone)
        })?;
        Ok((aged, over, expired))
    }

    /// Deletes the session's expired entries, and returns their number. Without such entries, the store is only read.
    ///
    /// # Errors
    ///
    /// The errors of a read, and of a write.
    pub fn delete_expired(&self, session: &SessionId, by: Expired) -> Result<i64> {
        let (Expired::By(now) | Expired::Settled(now) | Expired::Noted(now)) = by;
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
            let time = match by {
                Expired::By(now) => now,
                Expired::Settled(now) => now.min(meta::settled_time(transaction)?),
                Expired::Noted(now) => now.min(meta::look_at_clock(transaction, now)?),
            };
            let expired = deletion::delete_expired(transaction, &mut row, time)?;
            if expired > 0 {
                session::save(transaction, &row)?;
            }
            Ok(expired)
        })
    }

    /// The sizes of the store, or of one session of it.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn figures(&self, session: Option<&SessionId>) -> Result<Figures> {
        let (counts, index, damaged) = match session {
            None => {
                let counts = self
                    .database
                    .read(|transaction| session::counts_of_store(transaction))?;
                (counts, None, self.scopes.damaged())
            }
            Some(session) => {
                let found = self.with_scope(
                    session,
                    None,
                    RequiredIndexes::BOTH,
                    Scope::sizes,
                    |transaction, scope, row, sizes| {
                        let counts = session::counts_of(transaction, row)?;
                        Ok((counts, Some(sizes), scope.damaged().len()))
                    },
                )?;
                found.unwrap_or_default()
            }
        };
        let set_aside = self
            .database
            .read(|transaction| repair::set_aside(transaction, session))?;
        Ok(Figures {
            counts,
            disk_bytes: self.database.disk_bytes() + self.caches.bytes(),
            index,
            quarantined: i64::try_from(damaged + set_aside.len()).unwrap_or(i64::MAX),
        })
    }

    /// The session's damaged and set-aside entries. No search finds them.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn quarantined(&self, session: &SessionId) -> Result<Vec<EntryId>> {
        let ids = self.with_scope(
            session,
            None,
            RequiredIndexes::NOTHING,
            |_| (),
            |transaction, scope, row, ()| {
                let mut ids = repair::set_aside_of_key(transaction, Some(row.id))?;
                ids.extend(scope.damaged());
                Ok(ids)
            },
        )?;
        let mut ids = ids.unwrap_or_default();
        ids.sort_unstable();
        Ok(ids)
    }
}

/// Makes a tombstone an empty session.
fn begin_again(transaction: &Transaction<'_>, row: &mut SessionRow) -> Result<()> {
    deletion::take(transaction, &|| true)?; // otherwise old rows would belong to the new session
    row.dropped = false;
    row.revision += 1;
    row.epoch += 1;
    row.redactions += 1;
    row.counter += 1;
    session::save(transaction, row)
}

/// Whether an entry matches. Half-open ranges share a message if each begins before the other ends; an empty range
/// contains no message.
fn passes(entry: &NewEntry, overlaps: Option<(i64, i64)>, since: Option<i64>) -> bool {
    let shares = overlaps.is_none_or(|(start, end)| entry.start.max(start) < entry.end.min(end));
    shares && since.is_none_or(|since| entry.created_at > since)
}

// Lists sessions, page by page.

impl Store {
    /// A page of the sessions that were not deleted, in the order of their first writes, and the offset of the next
    /// page, None at the end. With `namespace`, only sessions of that namespace.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::InvalidEntry`] for a limit below 1 or an offset below 0; otherwise the errors of a read.
    pub fn sessions(
        &self,
        namespace: Option<&str>,
        offset: i64,
        limit: i64,
    ) -> Result<(Vec<SessionRow>, Option<i64>)> {
        check_page(offset, limit)?;
        let more = limit.saturating_add(1);
        let mut rows = self
            .database
            .read(|transaction| session::page(transaction, namespace, offset, more))?;
        let fits = usize::try_from(limit).unwrap_or(usize::MAX);
        let next = (rows.len() > fits).then(|| offset.saturating_add(limit));
        rows.truncate(fits);
        Ok((rows, next))
    }

    /// The name and the settings of the first session whose settings contain the text `has` and do not contain the text
    /// `lacks`; an empty `lacks` excludes nothing.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn session_with_settings(
        &self,
        has: &str,
        lacks: &str,
    ) -> Result<Option<(String, String)>> {
        let found = self
            .database
            .read(|transaction| session::with_settings(transaction, has, lacks))?;
        Ok(found.map(|row| (row.name, row.settings)))
    }
}

// Checks the bounds of entries. Blank entries are accepted, but not stored.

/// Bytes of the longest text of an entry that rows and indexes can hold. Callers set lower limits.
const MAX_TEXT_BYTES: usize = 256 * 1024 * 1024;

/// Refuses the whole batch if one entry is out of bounds, because a batch is stored whole or not at all.
pub(super) fn check_entries(entries: &[NewEntry]) -> Result<()> {
    for (place, entry) in entries.iter().enumerate() {
        let name = entry.name.as_deref().unwrap_or_default();
        let texts = [
            ("text", entry.text.as_str()),
            ("role", &entry.role),
            ("name", name),
            ("kind", &entry.kind),
        ];
        for (field, text) in texts {
            if text.len() > MAX_TEXT_BYTES {
                let message = format!(
                    "entries[{place}].{field} must be at most {MAX_TEXT_BYTES} bytes, got {} bytes",
                    text.len()
                );
                return Err(invalid(message)
                    .with("limit", as_integer(MAX_TEXT_BYTES))
                    .with("size", as_integer(text.len())));
            }
        }
        if entry.start < 0 || entry.start > entry.end {
            return Err(invalid(format!(
                "entries[{place}].source_range must be 0 <= start <= end, got ({}, {})",
                entry.start, entry.end
            )));
        }
    }
    Ok(())
}

/// Whether the text is blank. Such an entry cannot be found, and is not stored.
pub(super) fn is_blank(entry: &NewEntry) -> bool {
    entry.text.trim().is_empty()
}

fn as_integer(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
