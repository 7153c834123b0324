//! Is a store whole, how is it put right, and where is a copy of it?

use std::path::Path;

use pyo3::prelude::*;
use siltstone_core::memory::Handle;

use crate::error::guard;
use crate::rows::{FindingOut, finding_out, session_id};
use crate::text::Text;

pub(crate) fn check(py: Python<'_>, handle: &Handle) -> PyResult<Vec<FindingOut>> {
    let findings = guard(py, || handle.store()?.check())?;
    Ok(findings.into_iter().map(finding_out).collect())
}

pub(crate) fn repair(
    py: Python<'_>,
    handle: &Handle,
    now: i64,
) -> PyResult<Vec<(FindingOut, bool)>> {
    let found = guard(py, || handle.store()?.repair(now))?.into_iter();
    let told = found.map(|(finding, repaired)| (finding_out(finding), repaired));
    Ok(told.collect())
}

pub(crate) fn quarantined(py: Python<'_>, handle: &Handle, session: &Text) -> PyResult<Vec<i64>> {
    guard(py, || {
        let ids = handle.store()?.quarantined(&session_id(session)?)?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    })
}

pub(crate) fn backup(py: Python<'_>, handle: &Handle, path: &Path) -> PyResult<()> {
    guard(py, || handle.store()?.backup(path))
}
