//! Staging, for hosts that keep their own history: staged entries cannot be found until the host has committed.
//!
//! The host stages a batch, writes its token into its own history, and then finalizes the batch. If the host is
//! stopped in between, `reconcile` with the tokens of its history makes the store agree with that history again.

use hashbrown::HashSet;

use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::check::check;
use crate::memory::options::invalid;
use crate::memory::store::Store;
use crate::sqlite::Transaction;
use crate::sqlite::together::size;
use crate::sqlite::{NewEntry, Stage, StageState, StagedEntry, session, stage};

/// Bytes of the longest fingerprint.
const MAX_FINGERPRINT_BYTES: usize = 1024;

/// The result of a reconciliation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Tokens of waiting batches that were committed. They are finalized now.
    pub finalized: Vec<String>,
    /// Tokens of waiting batches that were not committed. They are deleted.
    pub aborted: Vec<String>,
    /// Tokens of committed batches that the store does not have, or that are damaged. The host hands them over again.
    pub lost: Vec<String>,
}

impl Store {
    /// Keeps `entries` for the session durably, without making them findable. Gives the token of the batch.
    ///
    /// The same content under the same fingerprint is the same batch, even if it was finalized or its session was
    /// deleted. Times are not part of the content.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidEntry`] where an entry or the fingerprint is out of bounds,
    /// [`ErrorKind::StoreConflict`] where the fingerprint stands for other content; otherwise the errors of a write.
    pub fn stage(
        &self,
        session: &SessionId,
        entries: &[NewEntry],
        fingerprint: &str,
        now: i64,
    ) -> Result<String> {
        check(entries)?;
        if fingerprint.is_empty() || fingerprint.len() > MAX_FINGERPRINT_BYTES {
            return Err(invalid(format!(
                "a fingerprint must be 1 to {MAX_FINGERPRINT_BYTES} bytes, got {} bytes",
                fingerprint.len()
            )));
        }
        let size = size(entries.iter().map(|entry| entry.text.as_str()));
        let written = self.database.write_short(size, |transaction| {
            let row = session::find_or_create(transaction, session)?;
            Ok(stage::put(transaction, &row, fingerprint, entries, now)?.token)
        });
        written.map(|(token, _)| token)
    }

    /// Makes the entries of a batch findable. Gives the id of each entry: None for a blank entry, and for every entry
    /// of a deleted session. A finalized batch gives the same ids again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StageNotFound`]; otherwise the errors of a write.
    pub fn finalize(&self, token: &str) -> Result<Vec<Option<EntryId>>> {
        self.database.writer()?.transaction(|transaction| {
            let found = stage::find(transaction, token)?.ok_or_else(|| unknown(token))?;
            publish(transaction, found)
        })
    }

    /// Deletes a waiting batch. False where no batch of that token waits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreConflict`] where it was finalized; otherwise the errors of a write.
    pub fn abort(&self, token: &str) -> Result<bool> {
        self.database.writer()?.transaction(|transaction| {
            let Some(found) = stage::find(transaction, token)? else {
                return Ok(false);
            };
            match found.state {
                StageState::Staged => stage::abort(transaction, &found).map(|()| true),
                StageState::Dropped => Ok(false),
                StageState::Finalized => {
                    let message = format!(
                        "batch {token} was finalized: forget its entries, if they are to go"
                    );
                    Err(Error::new(ErrorKind::StoreConflict, message).with("token", token))
                }
            }
        })
    }

    /// Makes waiting batches agree with the host's history: committed batches are finalized, and the others are
    /// aborted.
    ///
    /// Only batches of `session` that were staged before `before` are aborted; None sets no such limit.
    ///
    /// # Errors
    ///
    /// The errors of a write.
    pub fn reconcile(
        &self,
        committed: &[String],
        session: Option<&SessionId>,
        before: Option<i64>,
    ) -> Result<Reconciled> {
        self.database.writer()?.transaction(|transaction| {
            let mut done = Reconciled::default();
            let mut seen = HashSet::new();
            for token in committed.iter().filter(|token| seen.insert(*token)) {
                match stage::find(transaction, token)? {
                    None => done.lost.push(token.clone()),
                    Some(found) if found.state != StageState::Staged => {}
                    Some(found) => match stage::entries(transaction, &found) {
                        Ok(_) => {
                            publish(transaction, found)?;
                            done.finalized.push(token.clone());
                        }
                        Err(error) if error.kind() == ErrorKind::StoreCorrupt => {
                            stage::abort(transaction, &found)?;
                            done.lost.push(token.clone());
                        }
                        Err(error) => return Err(error),
                    },
                }
            }
            let row = match session {
                None => None,
                Some(session) => match session::find_any(transaction, session)? {
                    None => return Ok(done),
                    found => found,
                },
            };
            for orphan in stage::waiting(transaction, row.map(|row| row.id))? {
                if before.is_none_or(|before| orphan.created_at < before) {
                    stage::abort(transaction, &orphan)?;
                    done.aborted.push(orphan.token);
                }
            }
            Ok(done)
        })
    }

    /// The waiting batches, each with the name of its session, in the order in which they were handed over.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn stages(&self, session: Option<&SessionId>) -> Result<Vec<(Stage, String)>> {
        self.database.read(|transaction| {
            let row = match session {
                None => None,
                Some(session) => match session::find(transaction, session)? {
                    None => return Ok(Vec::new()),
                    found => found,
                },
            };
            let mut named = Vec::new();
            for found in stage::waiting(transaction, row.map(|row| row.id))? {
                let name = session::name(transaction, found.session)?.unwrap_or_default();
                named.push((found, name));
            }
            Ok(named)
        })
    }

    /// The waiting entries of the session. A call that forgets looks through them, too.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn staged_entries(&self, session: &SessionId) -> Result<Vec<StagedEntry>> {
        self.database
            .read(|transaction| match session::find(transaction, session)? {
                Some(row) => stage::of_session(transaction, row.id),
                None => Ok(Vec::new()),
            })
    }
}

/// Finalizes a batch. Scopes read its rows at their next search.
fn publish(transaction: &Transaction<'_>, found: Stage) -> Result<Vec<Option<EntryId>>> {
    let mut row = session::by_key(transaction, found.session)?.ok_or_else(|| {
        let message = format!("batch {} belongs to no session", found.token);
        Error::new(ErrorKind::StoreCorrupt, message).with("table", "stage")
    })?;
    let receipt = stage::finalize(transaction, &mut row, found)?;
    session::save(transaction, &row)?;
    Ok(receipt)
}

fn unknown(token: &str) -> Error {
    let message = format!("the store has no batch {token:?}: it was aborted, or never handed over");
    Error::new(ErrorKind::StageNotFound, message).with("token", token)
}
