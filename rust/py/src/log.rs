//! What `Store` has for the log of a session: its versions, compactions and the texts that they brought, and pasts
//! that are rewritten.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use siltstone_core::Result as CoreResult;
use siltstone_core::memory::{
    Append, Committed, CompactionBody, Handle, NewCompaction, NewDerived, NewMessage, Rewrite,
    Write,
};

use crate::entries::{EntryIn, Ids, entries_in, ids_out};
use crate::error::guard;
use crate::rows::{
    DerivedIn, MessageIn, VersionIn, VersionRow, compaction_in, derived_in, message_in, session_id,
    version_in, version_out,
};
use crate::text::Text;

/// The version that a writer read, and its own id of the write.
pub(crate) type WriteIn = (VersionIn, i64);
/// The compactions whose entries leave, the parent, messages, entries.
pub(crate) type RewriteIn = (Vec<i64>, Option<i64>, Vec<MessageIn>, Vec<EntryIn>);
/// The compaction, its derived texts, the entries, the version.
pub(crate) type CommittedOut = (i64, Vec<i64>, Ids, Option<VersionRow>);

pub(crate) fn append(
    py: Python<'_>,
    handle: &Handle,
    session: &Text,
    write: WriteIn,
    rows: Vec<MessageIn>,
    clock: &Text,
    title: &Text,
) -> PyResult<Option<VersionRow>> {
    let version = guard(py, || {
        let messages: Vec<NewMessage> = rows.into_iter().map(message_in).collect();
        let (store, session) = (handle.store()?, session_id(session)?);
        let append = Append {
            messages: &messages,
            clock,
            title,
        };
        store.append(&session, write_in(write), append)
    })?;
    Ok(version.map(version_out))
}

pub(crate) fn commit_compaction(
    py: Python<'_>,
    handle: &Handle,
    session: &Text,
    write: WriteIn,
    (row, derived): (&Bound<'_, PyTuple>, Vec<DerivedIn>),
    entries: Vec<EntryIn>,
    clock: &Text,
) -> PyResult<CommittedOut> {
    let body = compaction_in(row)?;
    let done = guard(py, || {
        let entries = entries_in(entries);
        let (store, session) = (handle.store()?, session_id(session)?);
        let compaction = new_compaction(body, derived)?;
        store.commit_compaction(&session, write_in(write), &compaction, &entries, clock)
    })?;
    Ok(committed_out(done))
}

pub(crate) fn rewrite(
    py: Python<'_>,
    handle: &Handle,
    session: &Text,
    write: WriteIn,
    (row, derived): (&Bound<'_, PyTuple>, Vec<DerivedIn>),
    changes: RewriteIn,
    clock: &Text,
) -> PyResult<CommittedOut> {
    let body = compaction_in(row)?;
    let done = guard(py, || {
        let (withdrawn, parent, messages, entries) = changes;
        let messages: Vec<NewMessage> = messages.into_iter().map(message_in).collect();
        let entries = entries_in(entries);
        let (store, session) = (handle.store()?, session_id(session)?);
        let row = new_compaction(body, derived)?;
        let rewrite = Rewrite {
            withdrawn: &withdrawn,
            parent,
            messages: &messages,
            row: &row,
            entries: &entries,
        };
        store.rewrite(&session, write_in(write), rewrite, clock)
    })?;
    Ok(committed_out(done))
}

pub(crate) fn undo_compaction(
    py: Python<'_>,
    handle: &Handle,
    session: &Text,
    write: WriteIn,
    clock: &Text,
) -> PyResult<(Option<i64>, i64, Option<VersionRow>)> {
    let undone = guard(py, || {
        let (store, session) = (handle.store()?, session_id(session)?);
        store.undo_compaction(&session, write_in(write), clock)
    })?;
    Ok((undone.head, undone.entries, undone.version.map(version_out)))
}

pub(crate) fn write_in((expected, id): WriteIn) -> Write {
    Write {
        expected: version_in(&expected),
        id,
    }
}

fn new_compaction(body: CompactionBody, derived: Vec<DerivedIn>) -> CoreResult<NewCompaction> {
    let derived = derived.into_iter().map(derived_in);
    Ok(NewCompaction {
        body,
        derived: derived.collect::<CoreResult<Vec<NewDerived>>>()?,
    })
}

fn committed_out(done: Committed) -> CommittedOut {
    (
        done.compaction,
        done.derived,
        ids_out(&done.entries),
        done.version.map(version_out),
    )
}
