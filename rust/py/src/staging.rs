//! What `Store` has for hosts that keep their own history: batches that wait, unseen.

use pyo3::prelude::*;
use siltstone_core::memory::{Handle, NewEntry};

use crate::error::guard;
use crate::rows::{EntryIn, EntryOut, StageOut, entry_in, session_id, stage_out, staged_out};
use crate::text::Text;

pub(crate) fn stage(
    py: Python<'_>,
    handle: &Handle,
    session: &Text,
    entries: Vec<EntryIn>,
    fingerprint: &Text,
    now: i64,
) -> PyResult<String> {
    guard(py, || {
        let entries: Vec<NewEntry> = entries.into_iter().map(entry_in).collect();
        let (store, session) = (handle.store()?, session_id(session)?);
        store.stage(&session, &entries, fingerprint, now)
    })
}

pub(crate) fn reconcile(
    py: Python<'_>,
    handle: &Handle,
    committed: &[Text],
    session: Option<&Text>,
    before: Option<i64>,
) -> PyResult<(Vec<String>, Vec<String>, Vec<String>)> {
    let done = guard(py, || {
        let session = session.map(session_id).transpose()?;
        let committed: Vec<String> = committed.iter().map(|token| token.to_string()).collect();
        handle
            .store()?
            .reconcile(&committed, session.as_ref(), before)
    })?;
    Ok((done.finalized, done.aborted, done.lost))
}

pub(crate) fn stages(
    py: Python<'_>,
    handle: &Handle,
    session: Option<&Text>,
) -> PyResult<Vec<StageOut>> {
    let stages = guard(py, || {
        let session = session.map(session_id).transpose()?;
        handle.store()?.stages(session.as_ref())
    })?;
    Ok(stages.into_iter().map(stage_out).collect())
}

pub(crate) fn entries(py: Python<'_>, handle: &Handle, session: &Text) -> PyResult<Vec<EntryOut>> {
    guard(py, || {
        let id = session_id(session)?;
        let waiting = handle.store()?.staged_entries(&id)?.into_iter();
        let rows = waiting.map(|staged| staged_out(staged, id.as_str().to_owned()));
        Ok(rows.collect())
    })
}
