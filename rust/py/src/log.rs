//! What `Store` has for the log of a session: compactions, and pasts that are rewritten.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use siltstone_core::memory::{Expected, Handle, NewMessage, Rewrite};

use crate::entries::{EntryIn, Ids, entries_in, ids_out};
use crate::error::guard;
use crate::rows::{MessageIn, compaction_in, message_in, session_id};
use crate::text::Text;

/// The head that a writer stands on, and how often messages were forgotten when it read them.
pub(crate) type ExpectedIn = (Option<i64>, Option<i64>);
/// Where the log ends, the compactions whose entries leave, the parent, messages, entries.
pub(crate) type RewriteIn = (i64, Vec<i64>, Option<i64>, Vec<MessageIn>, Vec<EntryIn>);

pub(crate) fn commit_compaction(
    py: Python<'_>,
    handle: &Handle,
    session: &Text,
    expected: ExpectedIn,
    row: &Bound<'_, PyTuple>,
    entries: Vec<EntryIn>,
    cadence: &Text,
) -> PyResult<(i64, Ids)> {
    let compaction = compaction_in(row)?;
    guard(py, || {
        let entries = entries_in(entries);
        let (store, session) = (handle.store()?, session_id(session)?);
        let (expected, cadence) = (expected_in(expected), cadence.to_string());
        let committed =
            store.commit_compaction(&session, expected, &compaction, &entries, cadence)?;
        Ok((committed.compaction, ids_out(&committed.entries)))
    })
}

pub(crate) fn rewrite(
    py: Python<'_>,
    handle: &Handle,
    session: &Text,
    expected: ExpectedIn,
    row: &Bound<'_, PyTuple>,
    changes: RewriteIn,
    cadence: &Text,
) -> PyResult<(i64, Ids)> {
    let row = compaction_in(row)?;
    guard(py, || {
        let (expected_next, withdrawn, parent, messages, entries) = changes;
        let messages: Vec<NewMessage> = messages.into_iter().map(message_in).collect();
        let entries = entries_in(entries);
        let (store, session) = (handle.store()?, session_id(session)?);
        let rewrite = Rewrite {
            expected_next,
            withdrawn: &withdrawn,
            parent,
            messages: &messages,
            row: &row,
            entries: &entries,
        };
        let (expected, cadence) = (expected_in(expected), cadence.to_string());
        let committed = store.rewrite(&session, expected, rewrite, cadence)?;
        Ok((committed.compaction, ids_out(&committed.entries)))
    })
}

pub(crate) fn undo_compaction(
    py: Python<'_>,
    handle: &Handle,
    session: &Text,
    expected_head: i64,
    cadence: &Text,
) -> PyResult<(Option<i64>, i64)> {
    let undone = guard(py, || {
        let (store, session) = (handle.store()?, session_id(session)?);
        store.undo_compaction(&session, expected_head, cadence.to_string())
    })?;
    Ok((undone.head, undone.entries))
}

fn expected_in((head, redactions): ExpectedIn) -> Expected {
    Expected { head, redactions }
}
