//! Forgetting: what was said leaves the log, the entries, the summaries and the file.

use crate::error::{ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::log::{Write, cut_title, stands_on};
use crate::memory::required_indexes::RequiredIndexes;
use crate::memory::store::Store;
use crate::sqlite::{
    SessionVersion, cached, departing, derived, fact, forgotten, leaving, log, meta, quarantine,
    session, stage,
};

/// The messages, entries and texts of one session that are to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The session.
    pub session: SessionId,
    /// Sequence numbers of messages, and the JSON text that takes the place of each.
    pub messages: Vec<(i64, String)>,
    /// Entries. Those that came from one of the messages go as well.
    pub entries: Vec<i64>,
    /// Derived texts, and what takes the place of each. Those that stand for one of the messages go as well: a
    /// substitute becomes what its message becomes.
    pub derived: Vec<(i64, String)>,
    /// Entries that wait. Those that came from one of the messages go as well.
    pub staged: Vec<i64>,
    /// Facts.
    pub facts: Vec<i64>,
    /// Digests of the messages, by which they are known when they are sent again.
    pub digests: Vec<(i64, Vec<u8>)>,
    /// Where messages are forgotten: the text of the first request that is left, empty for none. It is cut.
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
            staged: Vec::new(),
            facts: Vec::new(),
            digests: Vec::new(),
            title: String::new(),
        }
    }
}

/// The numbers of what was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Sessions that something was forgotten of.
    pub sessions: i64,
    /// Messages that are tombstones now.
    pub messages: i64,
    /// Entries that were deleted, those that waited included.
    pub entries: i64,
    /// Derived texts that were replaced.
    pub derived: i64,
    /// Facts that were deleted.
    pub facts: i64,
    /// Whether the bytes are gone from the files too; else another process was in the way.
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
    /// `replacement` takes the place of every summary that goes because it covers a message.
    ///
    /// # Errors
    ///
    /// Those of a write.
    pub fn forget(&self, targets: &[Target], replacement: &str) -> Result<Forgotten> {
        self.take_departing()?; // what is said there is to be forgotten as well
        // Read before the right to write is asked for: others wait for that.
        let sources = self.database.read(|transaction| {
            let sources = targets.iter().map(|target| {
                let seqs = seqs(target);
                match session::find(transaction, &target.session)? {
                    Some(row) => {
                        leaving::that_came_from(transaction, row.id, &seqs, EntryId(0)).map(Some)
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
                let mut messages = 0;
                for (seq, raw) in &said {
                    messages += i64::from(log::redact(transaction, &row, *seq, raw)?);
                }
                let (mut came, last) = sources.clone().unwrap_or((Vec::new(), EntryId(0)));
                let (late, _) = leaving::that_came_from(transaction, row.id, &seqs, last)?;
                came.extend(late);
                let ids = came
                    .iter()
                    .map(|id| id.0)
                    .chain(target.entries.iter().copied());
                let entries = leaving::forget(transaction, &mut row, ids)?
                    + stage::forget(transaction, row.id, &target.staged, &seqs)?
                    + quarantine::forget(transaction, row.id, &target.entries)?;
                let derived =
                    derived::redact(transaction, &row, &target.derived, &said, replacement)?;
                let facts = fact::forget(transaction, &row, &target.facts)?;
                forgotten::add(transaction, row.id, &target.digests)?;
                if messages + entries + derived + facts == 0 {
                    continue;
                }
                row.redactions += i64::from(messages + derived > 0);
                row.counter += 1;
                session::save(transaction, &row)?;
                cached::forget(transaction, row.id)?;
                changed.push((row.id, row.namespace, &target.session));
                total.sessions += 1;
                total.messages += messages;
                total.entries += entries;
                total.derived += derived;
                total.facts += facts;
            }
            if total.sessions > 0 {
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

    /// Deletes what is left of sessions that were deleted, some rows at a time, so that nobody waits for all of them.
    pub(super) fn take_departing(&self) -> Result<()> {
        if self
            .database
            .read(|transaction| departing::all(transaction))?
            .is_empty()
        {
            return Ok(());
        }
        self.database.in_turns(leaving::take)
    }

    /// Takes what left the session out of its indexes in memory, which hold words of it.
    fn let_go(&self, session: &SessionId) {
        let made = self.scopes.get(session).map(|scope| scope.read().made());
        // A graph only marks what is removed from it.
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

    /// Gives a derived text that was forgotten a new one, made of what is left of what it covers. The session's
    /// version then; None where there is no such text, and for a session that was deleted.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where the session has another version; otherwise those of a write.
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
            row.redactions += 1; // views that hold the old one are stale
            row.count(write.id);
            session::save(transaction, &row)?;
            Ok(Some(row.version()))
        })
    }

    /// Overwrites what was freed, if something was forgotten since it was last done.
    ///
    /// False where it could not be done now: another process is in the way, or the disk is full.
    pub(super) fn erase(&self) -> Result<bool> {
        match self.database.meta(meta::ERASURE) {
            Ok(mark) if mark == meta::DONE => return Ok(true),
            // A damaged mark counts as due: to erase once more does no harm.
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
