//! Entries in and out: what is written, read by id, listed, counted and dropped.

use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::check::{check, is_blank};
use crate::memory::options::invalid;
use crate::memory::scope::{IndexSizes, Scope};
use crate::memory::store::Store;
use crate::sqlite::{Counts, NewEntry, StoredEntry, entry, figures, session};

/// A page of a session's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Those of the page that pass the filters, in order of id.
    pub entries: Vec<StoredEntry>,
    /// Where the next page begins, None at the end.
    pub next_offset: Option<i64>,
}

/// What a store, or one session of it, holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What the rows say.
    pub counts: Counts,
    /// Bytes of the store's files.
    pub disk_bytes: u64,
    /// Of one session: what its indexes hold.
    pub index: Option<IndexSizes>,
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
        Ok(self.write_entries(session, entries, |_, _| Ok(None))?.0)
    }

    /// The entry of that id, and the name of its session.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::EntryNotFound`]; otherwise those of a read.
    pub fn get(&self, id: EntryId) -> Result<(StoredEntry, String)> {
        let found = self.database.read(|transaction| {
            let Some(stored) = entry::get(transaction, id)? else {
                return Ok(None);
            };
            let name = session::name(transaction, stored.session)?.ok_or_else(|| {
                let message = format!("entry {id} belongs to no session");
                Error::new(ErrorKind::StoreCorrupt, message)
                    .with("table", "entry")
                    .with("id", id.0)
            })?;
            Ok(Some((stored, name)))
        })?;
        found.ok_or_else(|| {
            let message = format!("the store has no entry {id}");
            Error::new(ErrorKind::EntryNotFound, message).with("entry_id", id.0)
        })
    }

    /// A page of the session's entries in order of id.
    ///
    /// `offset` and `limit` count rows. Of the page, only entries whose range shares a message with
    /// `overlaps` and which are newer than `since` are given, so it may be short.
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
        if limit < 1 {
            return Err(invalid(format!("limit must be at least 1, got {limit}")));
        }
        if offset < 0 {
            return Err(invalid(format!("offset must be at least 0, got {offset}")));
        }
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
        Ok(Page {
            entries: rows
                .into_iter()
                .filter(|stored| passes(&stored.entry, overlaps, since))
                .collect(),
            next_offset: (next < total).then_some(next),
        })
    }

    /// Deletes the session: its entries, its log, its compactions. How many entries it had.
    ///
    /// A tombstone stays: what is written to it from now on is accepted as nothing. A session that never
    /// wrote leaves none.
    ///
    /// # Errors
    ///
    /// Those of a write.
    pub fn drop_session(&self, session: &SessionId) -> Result<i64> {
        let mut writer = self.database.writer()?;
        let entries = writer.transaction(|transaction| {
            let Some(row) = session::find(transaction, session)? else {
                return Ok(0);
            };
            let entries = row.entries;
            session::drop(transaction, row)?;
            Ok(entries)
        })?;
        self.scopes.remove(session);
        Ok(entries)
    }

    /// What the store, or one session of it, holds.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn figures(&self, session: Option<&SessionId>) -> Result<Figures> {
        let (counts, index) = match session {
            None => (
                self.database
                    .read(|transaction| figures::of_store(transaction))?,
                None,
            ),
            Some(session) => {
                let found =
                    self.with_scope(session, Scope::sizes, |transaction, _, row, sizes| {
                        Ok((figures::of_session(transaction, row)?, Some(sizes)))
                    })?;
                found.unwrap_or_default()
            }
        };
        Ok(Figures {
            counts,
            disk_bytes: self.database.disk_bytes(),
            index,
        })
    }
}

/// Half-open ranges share a message where each begins before the other ends; an empty one has none.
fn passes(entry: &NewEntry, overlaps: Option<(i64, i64)>, since: Option<i64>) -> bool {
    let shares = overlaps.is_none_or(|(start, end)| entry.start.max(start) < entry.end.min(end));
    shares && since.is_none_or(|since| entry.created_at > since)
}
