//! Entries of a `Store`, as they are listed and forgotten.

use pyo3::prelude::*;
use siltstone_core::Result as CoreResult;
use siltstone_core::memory::Handle;

use crate::error::guard;
use crate::rows::{EntryOut, TargetIn, entry_out, session_id, target_in};
use crate::text::Text;

/// What a page leaves out: what shares no message with a range, and what is not newer than a time.
type Filters = (Option<(i64, i64)>, Option<i64>);

pub(crate) fn page(
    py: Python<'_>,
    handle: &Handle,
    session: &Text,
    (overlaps, since): Filters,
    offset: i64,
    limit: i64,
) -> PyResult<(Vec<EntryOut>, Option<i64>, Vec<i64>)> {
    guard(py, || {
        let id = session_id(session)?;
        let page = handle.store()?.page(&id, overlaps, since, offset, limit)?;
        let rows = page.entries.into_iter();
        let rows = rows.map(|stored| entry_out(stored, id.as_str().to_owned()));
        let damaged = page.damaged.into_iter().map(|id| id.0).collect();
        Ok((rows.collect(), page.next_offset, damaged))
    })
}

pub(crate) fn forget(
    py: Python<'_>,
    handle: &Handle,
    targets: Vec<TargetIn>,
    replacement: &Text,
) -> PyResult<(i64, i64, i64, i64, bool)> {
    let forgotten = guard(py, || {
        let targets = targets.into_iter().map(target_in);
        let targets = targets.collect::<CoreResult<Vec<_>>>()?;
        handle.store()?.forget(&targets, replacement)
    })?;
    Ok((
        forgotten.sessions,
        forgotten.messages,
        forgotten.entries,
        forgotten.summaries,
        forgotten.erased,
    ))
}
