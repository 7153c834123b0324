//! Forgetting: removes messages from the log, the entries, the summaries and the file.

use rusqlite::Connection;

use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::log::{Write, cut_title, stands_on};
use crate::memory::session_index::RequiredIndexes;
use crate::memory::store::Store;
use crate::sqlite::{
    SessionRow, SessionVersion, deletion, derived, fact, forgotten, log, meta, repair, session,
};

/// The messages, entries and texts of one session that are to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The session.
    pub session: SessionId,
    /// Sequence numbers of messages, each with the JSON text that replaces the message.
    pub messages: Vec<(i64, String)>,
    /// Ids of entries. Entries that came from one of the messages are deleted as well.
    pub entries: Vec<i64>,
    /// Ids of derived texts, each with its replacement. Derived texts that cover one of the messages are replaced as
    /// well: a substitute of a message gets the replacement of the message.
    pub derived: Vec<(i64, String)>,
    /// Ids of facts.
    pub facts: Vec<i64>,
    /// Digests of the messages. They recognise a forgotten message that is sent again.
    pub digests: Vec<(i64, Vec<u8>)>,
    /// If messages are forgotten: the text of the first request that is left, empty for none. It is cut to the length
    /// of a title.
    pub title: String,
}

impl Target {
    /// An empty target for that session.
    #[must_use]
    pub fn of(session: SessionId) -> Self {
        Self {
            session,
            messages: Vec::new(),
            entries: Vec::new(),
            derived: Vec::new(),
            facts: Vec::new(),
            digests: Vec::new(),
            title: String::new(),
        }
    }
}

/// The numbers of forgotten things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Sessions that something was removed from.
    pub sessions: i64,
    /// Messages that became tombstones.
    pub messages: i64,
    /// Entries that were deleted, set-aside entries included.
    pub entries: i64,
    /// Derived texts that were replaced.
    pub derived: i64,
    /// Facts that were deleted.
    pub facts: i64,
    /// Whether the bytes are gone from the files too. If not, the erasure is tried again later.
    pub erased: bool,
}

/// The messages that are forgotten, in ascending order.
fn seqs(target: &Target) -> Vec<i64> {
    let mut seqs: Vec<i64> = target.messages.iter().map(|(seq, _)| *seq).collect();
    seqs.sort_unstable();
    seqs
}

impl Store {
    /// Forgets `targets` in one transaction, and then erases their bytes from the files.
    ///
    /// `replacement` replaces every summary that covers a forgotten message.
    ///
    /// # Errors
    ///
    /// The errors of a write.
    pub fn forget(&self, targets: &[Target], replacement: &str) -> Result<Forgotten> {
        self.take_departing()?; // rows of deleted sessions must be erased as well
        if targets.is_empty() && self.database.is_erased()? {
            return Ok(Forgotten {
                erased: true,
                ..Forgotten::default()
            });
        }
        // This read may be long, so it runs before the right to write is taken, which others wait for.
        let sources = self.database.read(|transaction| {
            let sources = targets.iter().map(|target| {
                let seqs = seqs(target);
                match session::find(transaction, &target.session)? {
                    Some(row) => {
                        deletion::that_came_from(transaction, row.id, &seqs, EntryId(0)).map(Some)
                    }
                    None => Ok(None),
                }
            });
            sources.collect::<Result<Vec<_>>>()
        })?;
        let mut writer = self.database.writer()?;
        let mut changed = Vec::new();
        let mut forgotten = writer.transaction(|transaction| {
            let mut total = Forgotten::default();
            changed.clear();
            for (target, sources) in targets.iter().zip(&sources) {
                let Some(mut row) = session::find(transaction, &target.session)? else {
                    continue;
                };
                let mut said: Vec<(i64, &str)> = target
                    .messages
                    .iter()
                    .map(|(seq, raw)| (*seq, raw.as_str()))
                    .collect();
                said.sort_unstable();
                let seqs = seqs(target);
                if !seqs.is_empty() {
                    row.title = cut_title(&target.title);
                }
                let (mut came, last) = sources.clone().unwrap_or((Vec::new(), EntryId(0)));
                let (late, _) = deletion::that_came_from(transaction, row.id, &seqs, last)?;
                came.extend(late); // before their messages lose the texts
                let mut messages = 0;
                for (seq, raw) in &said {
                    messages += i64::from(log::redact(transaction, &row, *seq, raw)?);
                }
                let ids = came
                    .iter()
                    .map(|id| id.0)
                    .chain(target.entries.iter().copied());
                let entries = deletion::forget(transaction, &mut row, ids)?
                    + repair::forget_set_aside(transaction, row.id, &target.entries)?;
                let derived =
                    derived::redact(transaction, &row, &target.derived, &said, replacement)?;
                let facts = fact::forget(transaction, &row, &target.facts)?;
                let digests = forgotten::add(transaction, row.id, &target.digests)?;
                let erased = messages + entries + derived + facts;
                if erased == 0 && digests == 0 {
                    continue;
                }
                row.redactions += i64::from(messages + derived > 0);
                row.counter += 1; // others read the digests again
                session::save(transaction, &row)?;
                if erased == 0 {
                    continue;
                }
                meta::forget_cache(transaction, row.id)?;
                changed.push((row.id, row.namespace, &target.session));
                total.sessions += 1;
                total.messages += messages;
                total.entries += entries;
                total.derived += derived;
                total.facts += facts;
            }
            // Also if nothing is forgotten now: what left earlier may have left its bytes behind.
            if total.sessions > 0 || !self.database.is_in_memory() {
                meta::set(transaction, meta::ERASURE, meta::DUE)?;
            }
            Ok(total)
        })?;
        drop(writer);
        let mut are_gone = true;
        for (key, namespace, session) in changed {
            self.let_go(session);
            self.scopes.leave_namespace(&namespace, key);
            are_gone &= self.caches.remove(key, None);
        }
        forgotten.erased = self.erase()? && are_gone;
        Ok(forgotten)
    }

    /// Deletes the remaining rows of deleted sessions in short transactions, so that other writers wait only briefly.
    pub(super) fn take_departing(&self) -> Result<()> {
        if self
            .database
            .read(|transaction| deletion::unfinished(transaction))?
            .is_empty()
        {
            return Ok(());
        }
        self.database.delete_in_turns(deletion::take)
    }

    /// Removes deleted entries from the session's indexes in memory, which hold their terms.
    fn let_go(&self, session: &SessionId) {
        let made = self.scopes.get(session).map(|scope| scope.read().made());
        // A graph only marks rows as removed, and keeps their counts. So the whole scope is dropped.
        let is_gone = made.is_some_and(|made| {
            made.graph.is_none()
                && self
                    .catch_up(session, None, RequiredIndexes::NOTHING, true)
                    .is_ok()
        });
        if !is_gone {
            self.scopes.remove(session);
        }
    }

    /// Gives a redacted text a new text, made from the messages that are left of its range. Returns the session's new
    /// version; None where there is no such text, and for a deleted session.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the session has another version; otherwise the errors of a write.
    pub fn renew(
        &self,
        session: &SessionId,
        write: Write,
        derived: i64,
        raw: &str,
    ) -> Result<Option<SessionVersion>> {
        self.database.writer()?.transaction(|transaction| {
            let Some(mut row) = session::find(transaction, session)? else {
                return Ok(None);
            };
            stands_on(&row, write.expected)?;
            if !derived::renew(transaction, &row, derived, raw)? {
                return Ok(None);
            }
            row.redactions += 1; // views with the old text are stale
            row.count(write.id);
            session::save(transaction, &row)?;
            Ok(Some(row.version()))
        })
    }

    /// Erases freed bytes from the files, if something was forgotten since the last erasure.
    ///
    /// False where this is not possible now: another process is in the way, or the disk is full.
    pub(super) fn erase(&self) -> Result<bool> {
        match self.database.meta(meta::ERASURE) {
            Ok(mark) if mark == meta::DONE => return Ok(true),
            // A damaged mark counts as due, because another erasure does no harm.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StoreCorrupt => {}
            Err(error) => return Err(error),
        }
        match self.database.erase() {
            Err(error) if matches!(error.kind(), ErrorKind::StoreBusy | ErrorKind::StoreIo) => {
                Ok(false)
            }
            outcome => outcome,
        }
    }
}

// Restores the marks of forgetting in a copy of a session from another store.

/// The marks that forgetting left in a session of another store.
#[derive(Clone, Copy, Debug)]
pub struct Marks<'a> {
    /// The salt of the digests.
    pub salt: &'a str,
    /// Digests of messages with their sequence numbers, and of derived texts with their ids in this store as negative
    /// numbers.
    pub digests: &'a [(i64, Vec<u8>)],
    /// Ids of derived texts of this store that replaced forgotten texts.
    pub redacted: &'a [i64],
}

impl Store {
    /// Gives a session the marks that it had in the store it was copied from, and their salt. A session that does not
    /// exist stays so.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] where the session has digests of another salt; otherwise the errors of a write.
    pub fn restore_marks(&self, session: &SessionId, marks: Marks<'_>) -> Result<()> {
        self.database.writer()?.transaction(|transaction| {
            let Some(mut row) = session::find(transaction, session)? else {
                return Ok(());
            };
            if !marks.digests.is_empty() && salt_of(transaction, Some(&row))? != marks.salt {
                if !forgotten::of_session(transaction, row.id)?.is_empty() {
                    let message = format!(
                        "the forgotten messages of session {:?} have another salt here, got digests of {:?}",
                        session.as_str(),
                        marks.salt
                    );
                    return Err(
                        Error::new(ErrorKind::InvalidArgument, message).with("field", "salt")
                    );
                }
                forgotten::set_salt(transaction, row.id, marks.salt)?;
            }
            forgotten::add(transaction, row.id, marks.digests)?;
            derived::mark(transaction, &row, marks.redacted)?;
            row.redactions += 1;
            row.counter += 1;
            session::save(transaction, &row)
        })
    }
}

/// The salt of the session's digests: its own, or the store's.
pub(super) fn salt_of(connection: &Connection, session: Option<&SessionRow>) -> Result<String> {
    let own = session.map(|row| forgotten::own_salt(connection, row.id));
    match own.transpose()?.flatten() {
        Some(own) => Ok(own),
        None => meta::get(connection, meta::SALT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::handle::Handle;
    use crate::sqlite::NewEntry;

    #[test]
    fn digests_keep_the_salt_they_were_made_with_and_never_stand_beside_those_of_another() {
        let session = SessionId::new("chat").unwrap();
        let handle = Handle::open_memory(None).unwrap();
        let store = handle.store().unwrap();
        let entry = NewEntry {
            text: "silt".to_owned(),
            ..NewEntry::default()
        };
        store.insert(&session, &[entry]).unwrap();
        let digests = [(0, vec![1, 2, 3])];
        let marks = Marks {
            salt: "5a17",
            digests: &digests,
            redacted: &[],
        };
        store.restore_marks(&session, marks).unwrap();
        assert_eq!(store.salt(&session).unwrap(), "5a17");
        assert_eq!(store.forgotten(&session).unwrap(), digests);
        let stranger = SessionId::new("other").unwrap();
        assert_ne!(store.salt(&stranger).unwrap(), "5a17");
        assert!(store.check().unwrap().is_empty());
        store.restore_marks(&session, marks).unwrap();
        let other = Marks {
            salt: "5a18",
            ..marks
        };
        let error = store.restore_marks(&session, other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(store.salt(&session).unwrap(), "5a17");
    }
}
