//! The log of a session: appended to, read back, compacted. Conflicts are found, never overwritten.

use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::store::Store;
use crate::sqlite::{
    Compaction, Message, NewCompaction, NewEntry, NewMessage, SessionRow, compactions, leaving,
    log, session,
};

/// Where a log stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// The sequence number that the next message gets.
    pub next_seq: i64,
    /// The compaction whose view is current.
    pub head: Option<i64>,
    /// What the caller stored with its last write; empty at first.
    pub cadence: String,
    /// Raised when messages are forgotten or a past is rewritten: a view that was read before is not so now.
    pub redactions: i64,
    /// Whether the session was dropped: what is written to it is accepted as nothing.
    pub dropped: bool,
}

/// What a writer stands on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The head that it read.
    pub head: Option<i64>,
    /// How often messages were forgotten or rewritten when it read them; None for one that read none.
    pub redactions: Option<i64>,
}

/// What a commit wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The compaction's id; 0 where the session was dropped, and nothing was written.
    pub compaction: i64,
    /// The id of each entry, None for a blank one.
    pub entries: Vec<Option<EntryId>>,
}

/// What an undo left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The compaction whose view is current now.
    pub head: Option<i64>,
    /// How many entries are in the view again, and therefore not found any more.
    pub entries: i64,
}

impl Store {
    /// Where the session's log stands; at its beginning for a session that never wrote.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn log_state(&self, session: &SessionId) -> Result<LogState> {
        let row = self
            .database
            .read(|transaction| session::find_any(transaction, session))?;
        Ok(row.map_or_else(LogState::default, |row| LogState {
            redactions: row.redactions,
            dropped: row.dropped,
            next_seq: row.next_seq,
            head: row.head,
            cadence: row.cadence,
        }))
    }

    /// Writes `messages` as `expected_next` and onward, and the caller's `cadence`: all, or nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the log ends elsewhere; otherwise those of a write.
    pub fn append(
        &self,
        session: &SessionId,
        expected_next: i64,
        messages: &[NewMessage],
        cadence: String,
    ) -> Result<()> {
        self.change(session, |transaction, row| {
            ends_at(row, expected_next)?;
            log::append(transaction, row, messages)?;
            row.cadence = cadence;
            Ok(())
        })
    }

    /// The messages `start..end`, as far as the log goes, in order.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn messages(&self, session: &SessionId, start: i64, end: i64) -> Result<Vec<Message>> {
        self.database
            .read(|transaction| match session::find(transaction, session)? {
                Some(row) => log::read(transaction, &row, start, end),
                None => Ok(Vec::new()),
            })
    }

    /// Writes `entries`, the compaction, the new head and the cadence in one transaction.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the session stands elsewhere, [`ErrorKind::InvalidEntry`] where
    /// an entry is out of bounds; otherwise those of a write.
    pub fn commit_compaction(
        &self,
        session: &SessionId,
        expected: Expected,
        compaction: &NewCompaction,
        entries: &[NewEntry],
        cadence: String,
    ) -> Result<Committed> {
        let (entries, compaction) = self.write_entries(session, entries, |transaction, row| {
            stands_on(row, expected)?;
            row.cadence = cadence;
            compactions::append(transaction, row, compaction).map(Some)
        })?;
        Ok(Committed {
            compaction: compaction.unwrap_or_default(),
            entries,
        })
    }

    /// Makes the view before `expected_head` current again, and takes back the entries it brought.
    ///
    /// The compaction itself stays in the log. How many entries left, and the new head.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where `expected_head` is not the head; otherwise those of a write.
    pub fn undo_compaction(
        &self,
        session: &SessionId,
        expected_head: i64,
        cadence: String,
    ) -> Result<Undone> {
        let mut writer = self.database.writer()?;
        writer.transaction(|transaction| {
            let mut row = session::find_or_create(transaction, session)?;
            let expected = Expected {
                head: Some(expected_head),
                redactions: None,
            };
            stands_on(&row, expected)?;
            row.head = compactions::of(transaction, &row, expected_head)?.parent;
            let entries = leaving::withdraw(transaction, &mut row, expected_head)?;
            row.cadence = cadence;
            session::save(transaction, &row)?;
            Ok(Undone {
                head: row.head,
                entries,
            })
        })
    }

    /// Writes the caller's state alone.
    ///
    /// # Errors
    ///
    /// Those of a write.
    pub fn save_cadence(&self, session: &SessionId, cadence: String) -> Result<()> {
        self.change(session, |_, row| {
            row.cadence = cadence;
            Ok(())
        })
    }

    /// Every compaction of the session, in the order of their commits.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn compactions(&self, session: &SessionId) -> Result<Vec<Compaction>> {
        self.database
            .read(|transaction| match session::find(transaction, session)? {
                Some(row) => compactions::of_session(transaction, &row),
                None => Ok(Vec::new()),
            })
    }

    /// The compaction of that id, if there is one.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn compaction(&self, id: i64) -> Result<Option<Compaction>> {
        self.database
            .read(|transaction| compactions::get(transaction, id))
    }

    fn change(
        &self,
        session: &SessionId,
        work: impl FnOnce(&rusqlite::Transaction<'_>, &mut SessionRow) -> Result<()>,
    ) -> Result<()> {
        self.database.writer()?.transaction(|transaction| {
            let mut row = session::find_or_create(transaction, session)?;
            if row.dropped {
                return Ok(());
            }
            work(transaction, &mut row)?;
            session::save(transaction, &row)
        })
    }
}

/// Nothing, if no other writer moved the session's head, and what was read of it is still so.
pub(super) fn stands_on(row: &SessionRow, expected: Expected) -> Result<()> {
    if row.head != expected.head {
        let message = format!(
            "the head of session {:?} is {}, not {}: another writer compacted it, or undid what it had",
            row.name,
            head(row.head),
            head(expected.head)
        );
        return Err(Error::new(ErrorKind::StoreConflict, message));
    }
    if expected
        .redactions
        .is_none_or(|redactions| redactions == row.redactions)
    {
        return Ok(());
    }
    let message = format!(
        "something of session {:?} was forgotten or rewritten meanwhile: open it again",
        row.name
    );
    Err(Error::new(ErrorKind::StoreConflict, message))
}

/// Nothing, if no other writer appended to the session's log.
pub(super) fn ends_at(row: &SessionRow, expected: i64) -> Result<()> {
    if row.next_seq == expected {
        return Ok(());
    }
    let message = format!(
        "the log of session {:?} ends at {}, not at {expected}: another writer appended to it",
        row.name, row.next_seq
    );
    Err(Error::new(ErrorKind::StoreConflict, message))
}

fn head(head: Option<i64>) -> String {
    head.map_or_else(|| "none".to_owned(), |id| id.to_string())
}
