//! Views that no compaction made: views of a history that the host rewrote, and of a session that was restored.

use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::log::{Committed, Write};
use crate::memory::store::Store;
use crate::sqlite::{NewCompaction, NewEntry, NewMessage, compactions, leaving, log};

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
        self.commit(
            session,
            write,
            rewrite.entries,
            usize::MAX,
            |transaction, row| {
                if rewrite.row.body.next_seq > row.next_seq {
                    let message = format!(
                        "a view must end at {} at most, where the log of session {:?} does, got {}",
                        row.next_seq, row.name, rewrite.row.body.next_seq
                    );
                    return Err(Error::new(ErrorKind::InvalidArgument, message)
                        .with("field", "next_seq")
                        .with("value", rewrite.row.body.next_seq));
                }
                for &compaction in rewrite.withdrawn {
                    leaving::withdraw(transaction, row, compaction)?;
                }
                if !rewrite.gone.is_empty() {
                    let (came, _) =
                        leaving::that_came_from(transaction, row.id, rewrite.gone, EntryId(0))?;
                    leaving::forget(transaction, row, came.iter().map(|id| id.0))?;
                }
                if let Some(parent) = rewrite.parent {
                    compactions::of(transaction, row, parent)?;
                }
                row.head = rewrite.parent;
                row.redactions += 1;
                clock.clone_into(&mut row.clock);
                log::append(transaction, row, rewrite.messages, write.id)?;
                compactions::append(transaction, row, rewrite.row)
            },
        )
    }
}
