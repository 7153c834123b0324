//! Forgetting: what was said leaves the log, the entries, the summaries and the file.

use crate::error::{Error, ErrorKind, Result};
use crate::id::SessionId;
use crate::memory::required_indexes::RequiredIndexes;
use crate::memory::store::Store;
use crate::sqlite::{cached, compactions, leaving, log, meta, quarantine, session, staged};

/// What is to be forgotten of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The session.
    pub session: SessionId,
    /// Sequence numbers of messages, and the JSON text that takes the place of each.
    pub messages: Vec<(i64, String)>,
    /// Entries. Those that came from one of the messages go as well.
    pub entries: Vec<i64>,
    /// Compactions whose summary goes. Those that stand for one of the messages go as well.
    pub summaries: Vec<i64>,
    /// Entries that wait. Those that came from one of the messages go as well.
    pub staged: Vec<i64>,
}

/// What was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Sessions that something was forgotten of.
    pub sessions: i64,
    /// Messages that are tombstones now.
    pub messages: i64,
    /// Entries that were deleted, those that waited included.
    pub entries: i64,
    /// Summaries that were replaced.
    pub summaries: i64,
    /// Whether the bytes are gone from the files too; else another process was in the way.
    pub erased: bool,
}

impl Store {
    /// Forgets `targets` in one transaction, and then erases their bytes from the files.
    ///
    /// `replacement` takes the place of every summary that goes.
    ///
    /// # Errors
    ///
    /// Those of a write.
    pub fn forget(&self, targets: &[Target], replacement: &str) -> Result<Forgotten> {
        let mut writer = self.database.writer()?;
        let mut changed = Vec::new();
        let mut forgotten = writer.transaction(|transaction| {
            let mut total = Forgotten::default();
            changed.clear();
            for target in targets {
                let Some(mut row) = session::find(transaction, &target.session)? else {
                    continue;
                };
                let mut seqs: Vec<i64> = target.messages.iter().map(|message| message.0).collect();
                seqs.sort_unstable();
                let mut messages = 0;
                for (seq, raw) in &target.messages {
                    messages += i64::from(log::redact(transaction, &row, *seq, raw)?);
                }
                let entries = leaving::forget(transaction, &mut row, &target.entries, &seqs)?
                    + staged::forget(transaction, row.id, &target.staged, &seqs)?
                    + quarantine::forget(transaction, row.id, &target.entries)?;
                let summaries =
                    compactions::redact(transaction, &row, &target.summaries, &seqs, replacement)?;
                if messages + entries + summaries == 0 {
                    continue;
                }
                row.redactions += i64::from(messages + summaries > 0);
                session::save(transaction, &row)?;
                cached::forget(transaction, row.id)?;
                changed.push((row.id, &target.session));
                total.sessions += 1;
                total.messages += messages;
                total.entries += entries;
                total.summaries += summaries;
            }
            if total.sessions > 0 {
                meta::set(transaction, meta::ERASURE, meta::DUE)?;
            }
            Ok(total)
        })?;
        drop(writer);
        let mut are_gone = true;
        for (key, session) in changed {
            self.let_go(session);
            are_gone &= self.caches.remove(key, None);
        }
        forgotten.erased = self.erase()? && are_gone;
        Ok(forgotten)
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

    /// Gives a compaction whose summary was forgotten a new one, made of what is left of what it covers.
    ///
    /// False where that compaction has a summary. `redactions` is how often messages had been forgotten when
    /// it was made.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where something was forgotten since; otherwise those of a write.
    pub fn renew_summary(
        &self,
        session: &SessionId,
        compaction: i64,
        summary: &str,
        redactions: i64,
    ) -> Result<bool> {
        self.database.writer()?.transaction(|transaction| {
            let Some(mut row) = session::find(transaction, session)? else {
                return Ok(false);
            };
            if row.redactions != redactions {
                let message = format!(
                    "something of session {:?} was forgotten meanwhile: its summaries are to be made again",
                    session.as_str()
                );
                return Err(Error::new(ErrorKind::StoreConflict, message));
            }
            let renewed = compactions::renew(transaction, &row, compaction, summary)?;
            if renewed {
                row.redactions += 1; // views that hold the old one are stale
                session::save(transaction, &row)?;
            }
            Ok(renewed)
        })
    }

    /// Overwrites what was freed, if something was forgotten since it was last done.
    ///
    /// False where it could not be done now: another process is in the way, or the disk is full.
    pub(super) fn erase(&self) -> Result<bool> {
        match self.database.meta(meta::ERASURE) {
            Ok(mark) if mark == meta::DONE => return Ok(true),
            // A mark that cannot be believed is taken for one that says so: to erase once more does no harm.
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

    /// The names of all sessions, in the order of their first writes.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn sessions(&self) -> Result<Vec<String>> {
        self.database
            .read(|transaction| session::names(transaction))
    }
}
