//! The log of a session: appends to it, reads it, and compacts it. Conflicting writes are refused.
//!
//! Every write names the version of the session that its writer read, and the transaction compares it. Every write also
//! carries an id that the writer chose. After an interruption, the writer can see by this id whether the write was
//! done.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Field, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::store::Store;
use crate::sqlite::group_commit::{LONG, size};
use crate::sqlite::{
    Compaction, Derived, Message, NewCompaction, NewEntry, NewMessage, Recall, SessionRow,
    SessionVersion, Transaction, compactions, deletion, derived, log, recall_log, session,
};

/// The length of the longest title, in characters.
const TITLE: usize = 200;

/// The version that a write is based on, and the id of the write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// The version that its writer read.
    pub expected: SessionVersion,
    /// The id that the writer chose for it.
    pub id: i64,
}

/// Messages to be appended, with the other changes of the same transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Append<'a> {
    /// The messages, whose sequence numbers begin at `expected.next_seq`.
    pub messages: &'a [NewMessage],
    /// The caller's own state.
    pub clock: &'a str,
    /// The text of the first request among them, for a session without a title. It is cut to the length of a title.
    pub title: &'a str,
    /// The recalls of the session since its last write.
    pub recalls: &'a [Recall],
}

impl Append<'_> {
    /// The size of its rows.
    fn size(&self) -> usize {
        let messages = self.messages.iter().map(|message| message.raw.as_str());
        let recalls = self.recalls.iter().map(|recall| recall.body.as_str());
        size(messages.chain(recalls).chain([self.clock]))
    }
}

/// The ids that a commit gave, and the session's version after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The compaction's id; 0 where the session was deleted and nothing was written.
    pub compaction: i64,
    /// The ids of the derived texts that it brought.
    pub derived: Vec<i64>,
    /// The id of each entry, None for a blank one.
    pub entries: Vec<Option<EntryId>>,
    /// The session's new version; None where it was deleted.
    pub version: Option<SessionVersion>,
}

/// The state after an undo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// The compaction whose view is current now.
    pub head: Option<i64>,
    /// The number of deleted entries: their messages are in the view again.
    pub entries: i64,
    /// The session's new version; None where it was deleted.
    pub version: Option<SessionVersion>,
}

impl Store {
    /// The state of the session's log; the default for a session that never wrote.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn log_state(&self, session: &SessionId) -> Result<SessionRow> {
        let row = self
            .database
            .read(|transaction| session::find_any(transaction, session))?;
        Ok(row.unwrap_or_default())
    }

    /// The session's version, from a read of one row. None for a deleted session.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn version(&self, session: &SessionId) -> Result<Option<SessionVersion>> {
        let row = self
            .database
            .read(|transaction| session::seen_any(transaction, session))?;
        Ok(version_of(row))
    }

    /// The state of the session's log. With a namespace, checks that the session belongs to it, and makes a new session
    /// in it if there is none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] where the session is of another namespace; otherwise the errors of a write.
    pub fn open_session(&self, session: &SessionId, namespace: Option<&str>) -> Result<SessionRow> {
        let accepted = |row: SessionRow| match namespace {
            Some(asked) if asked != row.namespace => {
                let message = format!(
                    "session {:?} is of namespace {:?}, which was fixed when it was begun, not of {asked:?}",
                    session.as_str(),
                    row.namespace
                );
                Err(Error::refused("namespace", asked, message))
            }
            _ => Ok(row),
        };
        let known = self
            .database
            .read(|transaction| session::find_any(transaction, session))?;
        match (known, namespace) {
            (Some(row), _) => accepted(row),
            (None, None | Some("")) => Ok(SessionRow::default()),
            (None, Some(asked)) => {
                let (row, _) =
                    self.database
                        .write_short(size([]), |transaction| {
                            match session::find_any(transaction, session)? {
                                Some(row) => Ok(row),
                                None => session::create(transaction, session, asked),
                            }
                        })?;
                accepted(row)
            }
        }
    }

    /// Appends messages to the log, and stores the caller's clock: all, or nothing. Gives the session's new version;
    /// None for a deleted session, which keeps nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the session has another version; otherwise the errors of a write.
    pub fn append(
        &self,
        session: &SessionId,
        write: Write,
        append: Append<'_>,
    ) -> Result<Option<SessionVersion>> {
        self.change(session, write, append.size(), |transaction, row| {
            append_to(transaction, row, write, append)
        })
    }

    /// The messages `start..end`, cut at the end of the log, in order.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn messages(&self, session: &SessionId, start: i64, end: i64) -> Result<Vec<Message>> {
        self.database
            .read(|transaction| match session::seen(transaction, session)? {
                Some(row) => log::read(transaction, &row, start, end),
                None => Ok(Vec::new()),
            })
    }

    /// Appends messages to the log, and a compaction of the log with them, with `entries`, in one
    /// transaction. So no reader sees the messages without the new view.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the session has another version, [`ErrorKind::InvalidEntry`] where an entry
    /// is out of bounds, [`ErrorKind::InvalidArgument`] where the view or its texts are malformed; otherwise the errors
    /// of a write.
    pub fn append_compacted(
        &self,
        session: &SessionId,
        write: Write,
        append: Append<'_>,
        compaction: &NewCompaction,
        entries: &[NewEntry],
    ) -> Result<Committed> {
        let texts = compaction.derived.iter().map(|text| text.raw.as_str());
        let body = [&compaction.body.view, &compaction.body.covers].map(String::as_str);
        let beside = append.size() + size(texts.chain(body));
        self.commit(session, write, entries, beside, |transaction, row| {
            append_to(transaction, row, write, append)?;
            compactions::append(transaction, row, compaction)
        })
    }

    /// Writes `entries` and the compaction of `work`, which writes rows of the size `beside`. A deleted session keeps
    /// neither.
    pub(super) fn commit(
        &self,
        session: &SessionId,
        write: Write,
        entries: &[NewEntry],
        beside: usize,
        work: impl FnOnce(&Transaction<'_>, &mut SessionRow) -> Result<Compaction>,
    ) -> Result<Committed> {
        let mut done = Committed::default();
        done.entries = self.write_entries(session, entries, beside, |transaction, row| {
            stands_on(row, write.expected)?;
            let compaction = work(transaction, row)?;
            row.count(write.id);
            done.version = Some(row.version());
            done.compaction = compaction.id;
            done.derived = compaction.derived;
            Ok(Some(compaction.id))
        })?;
        Ok(done)
    }

    /// Makes the view of the head's parent current again, and deletes the entries that the head brought.
    ///
    /// The compaction itself and its texts stay in the log. A session without a head keeps its state.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the session has another version; otherwise the errors of a write.
    pub fn undo_compaction(
        &self,
        session: &SessionId,
        write: Write,
        clock: &str,
    ) -> Result<Undone> {
        self.database.writer()?.transaction(|transaction| {
            let found = session::find_any(transaction, session)?;
            let mut row = found.unwrap_or_else(|| SessionRow {
                name: session.as_str().to_owned(),
                ..SessionRow::default() // it has no head, so nothing of it is written
            });
            if row.dropped {
                return Ok(Undone::default());
            }
            stands_on(&row, write.expected)?;
            let mut entries = 0;
            if let Some(head) = row.head {
                row.head = compactions::of(transaction, &row, head)?.parent;
                entries = deletion::withdraw(transaction, &mut row, head)?;
                clock.clone_into(&mut row.clock);
                row.count(write.id);
                session::save(transaction, &row)?;
            }
            Ok(Undone {
                head: row.head,
                entries,
                version: Some(row.version()),
            })
        })
    }

    /// Stores the caller's clock. Gives the session's new version, like [`append`](Self::append).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the session has another version; otherwise the errors of a write.
    pub fn save_clock(
        &self,
        session: &SessionId,
        write: Write,
        clock: &str,
    ) -> Result<Option<SessionVersion>> {
        self.change(session, write, size([clock]), |_, row| {
            clock.clone_into(&mut row.clock);
            Ok(())
        })
    }

    /// Stores the caller's settings for the session. Gives the session's new version, like [`append`](Self::append).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the session has another version; otherwise the errors of a write.
    pub fn save_settings(
        &self,
        session: &SessionId,
        write: Write,
        settings: &str,
    ) -> Result<Option<SessionVersion>> {
        self.change(session, write, size([settings]), |_, row| {
            settings.clone_into(&mut row.settings);
            Ok(())
        })
    }

    /// All compactions of the session, in the order of their commits.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn compactions(&self, session: &SessionId) -> Result<Vec<Compaction>> {
        self.of_session(session, |transaction, row| {
            compactions::of_session(transaction, row)
        })
    }

    /// The newest recalls of the session, newest first: at most `limit` and 1,000.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn recalls(&self, session: &SessionId, limit: i64) -> Result<Vec<Recall>> {
        self.of_session(session, |transaction, row| {
            recall_log::of_session(transaction, row, limit)
        })
    }

    /// The compaction of that id, if the session has it.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn compaction(&self, session: &SessionId, id: i64) -> Result<Option<Compaction>> {
        self.of_session(session, |transaction, row| {
            let found = compactions::get(transaction, id)?;
            Ok(found.filter(|found| found.session == row.id))
        })
    }

    /// The derived texts of the session with an id above `after`, in the order of their writes.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn derived_after(&self, session: &SessionId, after: i64) -> Result<Vec<Derived>> {
        self.of_session(session, |transaction, row| {
            derived::of_session(transaction, row.id, after)
        })
    }

    /// The derived texts with those ids, in the order of `ids`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreCorrupt`] where a text is missing or of another session; otherwise the errors of a read.
    pub fn derived(&self, session: &SessionId, ids: &[i64]) -> Result<Vec<Derived>> {
        self.of_session(session, |transaction, row| {
            let texts = ids.iter().map(|&id| derived::of(transaction, row, id));
            texts.collect()
        })
    }

    /// The derived texts of the session that equal each of `texts`, newest first.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn derived_like(&self, session: &SessionId, texts: &[String]) -> Result<Vec<Vec<Derived>>> {
        let none = || vec![Vec::new(); texts.len()];
        let found = self.of_session(session, |transaction, row| {
            let found = texts.iter().map(|raw| derived::like(transaction, row, raw));
            found.collect::<Result<Vec<_>>>()
        })?;
        Ok(if found.is_empty() { none() } else { found })
    }

    /// Calls `read` with the session's row. Gives the default for a session that never wrote, or was deleted.
    fn of_session<T: Default>(
        &self,
        session: &SessionId,
        read: impl FnOnce(&Transaction<'_>, &SessionRow) -> Result<T>,
    ) -> Result<T> {
        self.database
            .read(|transaction| match session::seen(transaction, session)? {
                Some(row) => read(transaction, &row),
                None => Ok(T::default()),
            })
    }

    fn change(
        &self,
        session: &SessionId,
        write: Write,
        size: usize,
        work: impl FnOnce(&Transaction<'_>, &mut SessionRow) -> Result<()>,
    ) -> Result<Option<SessionVersion>> {
        let (written, _) = self.database.write_short(size, |transaction| {
            let mut row = session::find_or_create(transaction, session)?;
            if row.dropped {
                return Ok(None);
            }
            stands_on(&row, write.expected)?;
            work(transaction, &mut row)?;
            row.count(write.id);
            session::save(transaction, &row)?;
            Ok(Some(row))
        })?;
        Ok(written.as_ref().map(SessionRow::version))
    }
}

/// The version of a session with that row; None for a deleted session.
fn version_of(row: Option<Arc<SessionRow>>) -> Option<SessionVersion> {
    match row {
        None => Some(SessionVersion::default()),
        Some(row) => (!row.dropped).then(|| row.version()),
    }
}

/// Checks that the session still has the version that the writer read.
pub(super) fn stands_on(row: &SessionRow, expected: SessionVersion) -> Result<()> {
    let found = row.version();
    if found == expected {
        return Ok(());
    }
    let why = if found.redactions != expected.redactions {
        "something of it was forgotten or rewritten".to_owned()
    } else if found.head != expected.head {
        let (found, expected) = (head(found.head), head(expected.head));
        format!(
            "its head is {found}, not {expected}: another writer compacted it, or undid a compaction"
        )
    } else if found.next_seq != expected.next_seq {
        let (found, expected) = (found.next_seq, expected.next_seq);
        format!("its log ends at {found}, not at {expected}: another writer appended to it")
    } else {
        let (found, expected) = (found.counter, expected.counter);
        format!("it was written to {found} times, not {expected}: another writer changed its state")
    };
    let message = format!(
        "session {:?} is not as its writer read it: {why}; nothing was written",
        row.name
    );
    Err(Error::new(ErrorKind::StoreConflict, message)
        .with("expected", numbers(expected))
        .with("found", numbers(found)))
}

/// A version as a field of an error.
fn numbers(version: SessionVersion) -> Field {
    Field::Integers(vec![
        Some(version.next_seq),
        version.head,
        Some(version.redactions),
        Some(version.counter),
    ])
}

fn head(head: Option<i64>) -> String {
    head.map_or_else(|| "none".to_owned(), |id| id.to_string())
}

/// Appends messages to the log of `row`, and updates the row's clock and title.
fn append_to(
    transaction: &Transaction<'_>,
    row: &mut SessionRow,
    write: Write,
    append: Append<'_>,
) -> Result<()> {
    log::append(transaction, row, append.messages, write.id)?;
    append.clock.clone_into(&mut row.clock);
    if row.title.is_empty() {
        row.title = cut_title(append.title);
    }
    recall_log::put(transaction, row, append.recalls)
}

/// The first [`TITLE`] characters of `text`.
pub(super) fn cut_title(text: &str) -> String {
    text.chars().take(TITLE).collect()
}

// Views that no compaction made: views of a history that the host rewrote, and of a session that was restored.

/// The changes of a rewrite, all in one transaction.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite<'a> {
    /// The compactions that the new view no longer depends on. Their entries are deleted.
    pub withdrawn: &'a [i64],
    /// The messages that the new view no longer depends on, ascending. Every entry that came from one of them is
    /// deleted.
    pub gone: &'a [i64],
    /// The parent of the new compaction row; None for a view of the bare log.
    pub parent: Option<i64>,
    /// New messages, which follow the new view.
    pub messages: &'a [NewMessage],
    /// The new view, as a compaction row.
    pub row: &'a NewCompaction,
    /// New entries. An entry that the session already has keeps its id.
    pub entries: &'a [NewEntry],
}

impl Store {
    /// Makes the view of `rewrite` the current one. A worker that read the session before must read it again,
    /// as after a redaction.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the session has another version, [`ErrorKind::InvalidEntry`] where an
    /// entry is out of bounds, [`ErrorKind::InvalidArgument`] where the view ends after the log,
    /// [`ErrorKind::StoreCorrupt`] where the parent is not of the session; otherwise the errors of a write.
    pub fn rewrite(
        &self,
        session: &SessionId,
        write: Write,
        rewrite: Rewrite<'_>,
        clock: &str,
    ) -> Result<Committed> {
        // How many rows it deletes is not known, so it is not short.
        self.commit(session, write, rewrite.entries, LONG, |transaction, row| {
            if rewrite.row.body.next_seq > row.next_seq {
                let message = format!(
                    "a view must end at {} at most, where the log of session {:?} does, got {}",
                    row.next_seq, row.name, rewrite.row.body.next_seq
                );
                let value = rewrite.row.body.next_seq;
                return Err(Error::refused("next_seq", value, message));
            }
            for &compaction in rewrite.withdrawn {
                deletion::withdraw(transaction, row, compaction)?;
            }
            if !rewrite.gone.is_empty() {
                let (came, _) =
                    deletion::that_came_from(transaction, row.id, rewrite.gone, EntryId(0))?;
                deletion::forget(transaction, row, came.iter().map(|id| id.0))?;
            }
            if let Some(parent) = rewrite.parent {
                compactions::of(transaction, row, parent)?;
            }
            row.head = rewrite.parent;
            row.redactions += 1;
            clock.clone_into(&mut row.clock);
            log::append(transaction, row, rewrite.messages, write.id)?;
            compactions::append(transaction, row, rewrite.row)
        })
    }
}
