//! `Store`: the durable store. Tuples cross the wall; Python makes dataclasses of them.

#![expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyTuple};
use siltstone_core::id::EntryId;
use siltstone_core::memory::{Handle, NewEntry, NewMessage};

use crate::entries;
use crate::error::guard;
use crate::log::{self, ExpectedIn, RewriteIn};
use crate::rows::{
    EntryIn, EntryOut, FindingOut, FoundOut, Ids, MessageIn, MessageOut, MissingOut, StageOut,
    TargetIn, compaction_out, entry_in, entry_out, figures_out, ids_out, message_in, message_out,
    session_id,
};
use crate::staging;
use crate::text::Text;
use crate::upkeep;
use crate::vectors::{self, OptionsIn};

/// A store that is open; safe to use from many threads.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Store {
    handle: Handle,
}

#[pymethods]
impl Store {
    #[staticmethod]
    #[pyo3(signature = (path, read_only, hash_rule))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        read_only: bool,
        hash_rule: Option<Text>,
    ) -> PyResult<Self> {
        let handle = guard(py, || {
            let hash_rule = hash_rule.map(|name| name.parse()).transpose()?;
            Handle::open(&path, read_only, hash_rule)
        })?;
        Ok(Self { handle })
    }

    fn append_messages(
        &self,
        py: Python<'_>,
        session: Text,
        expected_next: i64,
        rows: Vec<MessageIn>,
        cadence: Text,
    ) -> PyResult<()> {
        guard(py, || {
            let messages: Vec<NewMessage> = rows.into_iter().map(message_in).collect();
            let session = session_id(&session)?;
            self.handle
                .store()?
                .append(&session, expected_next, &messages, cadence.to_string())
        })
    }

    fn log_state(
        &self,
        py: Python<'_>,
        session: Text,
    ) -> PyResult<(i64, Option<i64>, String, i64, bool)> {
        let state = guard(py, || {
            self.handle.store()?.log_state(&session_id(&session)?)
        })?;
        let (next, dropped) = (state.next_seq, state.dropped);
        Ok((next, state.head, state.cadence, state.redactions, dropped))
    }

    fn read_messages(
        &self,
        py: Python<'_>,
        session: Text,
        start: i64,
        end: i64,
    ) -> PyResult<Vec<MessageOut>> {
        guard(py, || {
            let messages = self
                .handle
                .store()?
                .messages(&session_id(&session)?, start, end)?;
            Ok(messages.into_iter().map(message_out).collect())
        })
    }

    fn commit_compaction(
        &self,
        py: Python<'_>,
        session: Text,
        expected: ExpectedIn,
        row: &Bound<'_, PyTuple>,
        entries: Vec<EntryIn>,
        cadence: Text,
    ) -> PyResult<(i64, Ids)> {
        let handle = &self.handle;
        log::commit_compaction(py, handle, &session, expected, row, entries, &cadence)
    }

    fn rewrite(
        &self,
        py: Python<'_>,
        session: Text,
        expected: ExpectedIn,
        row: &Bound<'_, PyTuple>,
        changes: RewriteIn,
        cadence: Text,
    ) -> PyResult<(i64, Ids)> {
        log::rewrite(py, &self.handle, &session, expected, row, changes, &cadence)
    }

    fn undo_compaction(
        &self,
        py: Python<'_>,
        session: Text,
        expected_head: i64,
        cadence: Text,
    ) -> PyResult<(Option<i64>, i64)> {
        log::undo_compaction(py, &self.handle, &session, expected_head, &cadence)
    }

    fn save_cadence(&self, py: Python<'_>, session: Text, cadence: Text) -> PyResult<()> {
        guard(py, || {
            self.handle
                .store()?
                .save_cadence(&session_id(&session)?, cadence.to_string())
        })
    }

    fn compactions<'py>(
        &self,
        py: Python<'py>,
        session: Text,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let rows = guard(py, || {
            self.handle.store()?.compactions(&session_id(&session)?)
        })?;
        rows.into_iter()
            .map(|row| compaction_out(py, row))
            .collect()
    }

    fn compaction<'py>(
        &self,
        py: Python<'py>,
        compaction_id: i64,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let row = guard(py, || self.handle.store()?.compaction(compaction_id))?;
        row.map(|row| compaction_out(py, row)).transpose()
    }

    fn insert_entries(
        &self,
        py: Python<'_>,
        session: Text,
        entries: Vec<EntryIn>,
    ) -> PyResult<Ids> {
        guard(py, || {
            let entries: Vec<NewEntry> = entries.into_iter().map(entry_in).collect();
            let ids = self
                .handle
                .store()?
                .insert(&session_id(&session)?, &entries)?;
            Ok(ids_out(&ids))
        })
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "they are the keywords of the Python face"
    )]
    fn search<'py>(
        &self,
        py: Python<'py>,
        session: Text,
        query: Text,
        limit: i64,
        ranker: Text,
        index: Text,
        min_score: f64,
        explain: bool,
        decay: Option<(f64, f64)>,
        now: i64,
        fusion: Text,
        vector: Option<(i64, PyBackedBytes)>,
    ) -> PyResult<FoundOut<'py>> {
        let options = OptionsIn {
            limit,
            ranker,
            index,
            min_score,
            explain,
            decay,
            now,
            fusion,
        };
        vectors::search(py, &self.handle, &session, &query, &options, vector)
    }

    fn use_embedder(
        &self,
        py: Python<'_>,
        name: Text,
        dimension: usize,
        replace: bool,
    ) -> PyResult<i64> {
        guard(py, || {
            self.handle.store()?.use_embedder(&name, dimension, replace)
        })
    }

    fn embedded(&self, py: Python<'_>) -> PyResult<(i64, i64)> {
        let embedded = guard(py, || self.handle.store()?.embedded())?;
        Ok((embedded.with, embedded.without))
    }

    fn missing_vectors(
        &self,
        py: Python<'_>,
        after: i64,
        limit: usize,
    ) -> PyResult<(Vec<MissingOut>, i64)> {
        vectors::missing(py, &self.handle, after, limit)
    }

    fn store_vectors(
        &self,
        py: Python<'_>,
        embedder: i64,
        rows: Vec<(i64, PyBackedBytes)>,
    ) -> PyResult<usize> {
        vectors::store(py, &self.handle, embedder, &rows)
    }

    fn get(&self, py: Python<'_>, entry_id: i64) -> PyResult<EntryOut> {
        guard(py, || {
            let (stored, session) = self.handle.store()?.get(EntryId(entry_id))?;
            Ok(entry_out(stored, session))
        })
    }

    fn entries(
        &self,
        py: Python<'_>,
        session: Text,
        overlaps: Option<(i64, i64)>,
        since: Option<i64>,
        offset: i64,
        limit: i64,
    ) -> PyResult<(Vec<EntryOut>, Option<i64>, Vec<i64>)> {
        entries::page(py, &self.handle, &session, (overlaps, since), offset, limit)
    }

    fn stage(
        &self,
        py: Python<'_>,
        session: Text,
        entries: Vec<EntryIn>,
        fingerprint: Text,
        now: i64,
    ) -> PyResult<String> {
        staging::stage(py, &self.handle, &session, entries, &fingerprint, now)
    }

    fn finalize(&self, py: Python<'_>, token: Text) -> PyResult<Ids> {
        guard(py, || Ok(ids_out(&self.handle.store()?.finalize(&token)?)))
    }

    fn abort(&self, py: Python<'_>, token: Text) -> PyResult<bool> {
        guard(py, || self.handle.store()?.abort(&token))
    }

    fn reconcile(
        &self,
        py: Python<'_>,
        committed: Vec<Text>,
        session: Option<Text>,
        before: Option<i64>,
    ) -> PyResult<(Vec<String>, Vec<String>, Vec<String>)> {
        staging::reconcile(py, &self.handle, &committed, session.as_ref(), before)
    }

    fn stages(&self, py: Python<'_>, session: Option<Text>) -> PyResult<Vec<StageOut>> {
        staging::stages(py, &self.handle, session.as_ref())
    }

    fn staged_entries(&self, py: Python<'_>, session: Text) -> PyResult<Vec<EntryOut>> {
        staging::entries(py, &self.handle, &session)
    }

    fn sessions(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        guard(py, || self.handle.store()?.sessions())
    }

    fn forget(
        &self,
        py: Python<'_>,
        targets: Vec<TargetIn>,
        replacement: Text,
    ) -> PyResult<(i64, i64, i64, i64, bool)> {
        entries::forget(py, &self.handle, targets, &replacement)
    }

    fn check(&self, py: Python<'_>) -> PyResult<Vec<FindingOut>> {
        upkeep::check(py, &self.handle)
    }

    fn repair(&self, py: Python<'_>, now: i64) -> PyResult<Vec<(FindingOut, bool)>> {
        upkeep::repair(py, &self.handle, now)
    }

    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        upkeep::backup(py, &self.handle, &path)
    }

    fn quarantined(&self, py: Python<'_>, session: Text) -> PyResult<Vec<i64>> {
        upkeep::quarantined(py, &self.handle, &session)
    }

    fn renew_summary(
        &self,
        py: Python<'_>,
        session: Text,
        compaction_id: i64,
        summary: Text,
        redactions: i64,
    ) -> PyResult<bool> {
        guard(py, || {
            let (store, session) = (self.handle.store()?, session_id(&session)?);
            store.renew_summary(&session, compaction_id, &summary, redactions)
        })
    }

    fn revive(&self, py: Python<'_>, session: Text) -> PyResult<bool> {
        guard(py, || self.handle.store()?.revive(&session_id(&session)?))
    }

    fn expire(
        &self,
        py: Python<'_>,
        session: Text,
        keep: Option<i64>,
        before: Option<i64>,
    ) -> PyResult<(i64, i64)> {
        guard(py, || {
            let session = session_id(&session)?;
            self.handle.store()?.expire(&session, keep, before)
        })
    }

    fn delete_session(&self, py: Python<'_>, session: Text) -> PyResult<i64> {
        guard(py, || {
            self.handle.store()?.delete_session(&session_id(&session)?)
        })
    }

    fn stats<'py>(&self, py: Python<'py>, session: Option<Text>) -> PyResult<Bound<'py, PyDict>> {
        let figures = guard(py, || {
            let session = session.as_ref().map(session_id).transpose()?;
            self.handle.store()?.figures(session.as_ref())
        })?;
        figures_out(py, &figures)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        guard(py, || {
            self.handle.close();
            Ok(())
        })
    }

    #[getter]
    fn path(&self) -> &std::ffi::OsStr {
        self.handle.path().as_os_str()
    }

    #[getter]
    fn hash_rule(&self) -> &'static str {
        self.handle.hash_rule().name()
    }

    #[getter]
    fn read_only(&self) -> bool {
        self.handle.is_read_only()
    }
}
