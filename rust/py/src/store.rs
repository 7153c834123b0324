//! `Store`: the durable store.

#![expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]

use std::ffi::OsStr;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyTuple};
use siltstone_core::Result as CoreResult;
use siltstone_core::id::{EntryId, SessionId};
use siltstone_core::memory::{self, Handle, NewMessage};

use crate::entries::{
    EntryIn, Finding, Forgotten, Ids, Page, Stage, StoredEntry, TargetIn, entries_in, ids_out,
    targets_in,
};
use crate::error::guard;
use crate::log::{self, ExpectedIn, RewriteIn};
use crate::rows::{
    MessageIn, MessageOut, compaction_out, figures_out, message_in, message_out, session_id,
};
use crate::search::{Found, SearchOptions, VectorIn, numbers_in, vector_in};
use crate::text::Text;

/// A store that is open; safe to use from many threads.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Store {
    handle: Handle,
}

impl Store {
    /// What `work` makes of the store, with the interpreter released.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&memory::Store) -> CoreResult<T> + Send,
    ) -> PyResult<T> {
        guard(py, || work(&*self.handle.store()?))
    }

    /// The same, of a session of it.
    fn run_of<T: Send>(
        &self,
        py: Python<'_>,
        session: &Text,
        work: impl FnOnce(&memory::Store, &SessionId) -> CoreResult<T> + Send,
    ) -> PyResult<T> {
        self.run(py, |store| work(store, &session_id(session)?))
    }
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

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        guard(py, || {
            self.handle.close();
            Ok(())
        })
    }

    #[getter]
    fn path(&self) -> &OsStr {
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

    // The log of a session.

    fn append_messages(
        &self,
        py: Python<'_>,
        session: Text,
        expected_next: i64,
        rows: Vec<MessageIn>,
        cadence: Text,
    ) -> PyResult<()> {
        self.run_of(py, &session, |store, session| {
            let messages: Vec<NewMessage> = rows.into_iter().map(message_in).collect();
            store.append(session, expected_next, &messages, cadence.to_string())
        })
    }

    fn log_state(
        &self,
        py: Python<'_>,
        session: Text,
    ) -> PyResult<(i64, Option<i64>, String, i64, bool)> {
        let state = self.run_of(py, &session, memory::Store::log_state)?;
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
        let messages = self.run_of(py, &session, |store, session| {
            store.messages(session, start, end)
        })?;
        Ok(messages.into_iter().map(message_out).collect())
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
        self.run_of(py, &session, |store, session| {
            store.save_cadence(session, cadence.to_string())
        })
    }

    fn compactions<'py>(
        &self,
        py: Python<'py>,
        session: Text,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let rows = self.run_of(py, &session, memory::Store::compactions)?;
        rows.into_iter()
            .map(|row| compaction_out(py, row))
            .collect()
    }

    fn compaction<'py>(
        &self,
        py: Python<'py>,
        compaction_id: i64,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let row = self.run(py, |store| store.compaction(compaction_id))?;
        row.map(|row| compaction_out(py, row)).transpose()
    }

    fn renew_summary(
        &self,
        py: Python<'_>,
        session: Text,
        compaction_id: i64,
        summary: Text,
        redactions: i64,
    ) -> PyResult<bool> {
        self.run_of(py, &session, |store, session| {
            store.renew_summary(session, compaction_id, &summary, redactions)
        })
    }

    // Entries, and searches of them.

    fn insert_entries(
        &self,
        py: Python<'_>,
        session: Text,
        entries: Vec<EntryIn>,
    ) -> PyResult<Ids> {
        self.run_of(py, &session, |store, session| {
            Ok(ids_out(&store.insert(session, &entries_in(entries))?))
        })
    }

    fn search(
        &self,
        py: Python<'_>,
        session: Text,
        query: Text,
        options: PyRef<'_, SearchOptions>,
        vector: Option<VectorIn>,
    ) -> PyResult<Found> {
        let options = options.inner;
        let found = self.run_of(py, &session, |store, session| {
            store.find(session, &query, vector_in(vector).as_ref(), &options)
        })?;
        Found::new(py, found)
    }

    fn get(&self, py: Python<'_>, entry_id: i64) -> PyResult<StoredEntry> {
        let (stored, session) = self.run(py, |store| store.get(EntryId(entry_id)))?;
        Ok(StoredEntry::stored(stored, session))
    }

    fn entries(
        &self,
        py: Python<'_>,
        session: Text,
        overlaps: Option<(i64, i64)>,
        since: Option<i64>,
        offset: i64,
        limit: i64,
    ) -> PyResult<Page> {
        let page = self.run_of(py, &session, |store, session| {
            store.page(session, overlaps, since, offset, limit)
        })?;
        Page::new(py, page, &session)
    }

    fn expire(
        &self,
        py: Python<'_>,
        session: Text,
        keep: Option<i64>,
        before: Option<i64>,
    ) -> PyResult<(i64, i64)> {
        self.run_of(py, &session, |store, session| {
            store.expire(session, keep, before)
        })
    }

    fn quarantined(&self, py: Python<'_>, session: Text) -> PyResult<Vec<i64>> {
        let ids = self.run_of(py, &session, memory::Store::quarantined)?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }

    // Vectors of an embedder.

    fn use_embedder(
        &self,
        py: Python<'_>,
        name: Text,
        dimension: usize,
        replace: bool,
    ) -> PyResult<i64> {
        self.run(py, |store| store.use_embedder(&name, dimension, replace))
    }

    fn embedded(&self, py: Python<'_>) -> PyResult<(i64, i64)> {
        let embedded = self.run(py, memory::Store::embedded)?;
        Ok((embedded.with, embedded.without))
    }

    fn missing_vectors(
        &self,
        py: Python<'_>,
        after: i64,
        limit: usize,
    ) -> PyResult<(Vec<MissingOut>, i64)> {
        let (entries, looked) =
            self.run(py, |store| store.missing_vectors(EntryId(after), limit))?;
        let rows = entries.into_iter();
        let rows = rows.map(|each| (each.id.0, each.entry.text, each.entry.role, each.entry.name));
        Ok((rows.collect(), looked.0))
    }

    fn store_vectors(
        &self,
        py: Python<'_>,
        embedder: i64,
        rows: Vec<(i64, PyBackedBytes)>,
    ) -> PyResult<usize> {
        self.run(py, |store| {
            let rows = rows.iter();
            let rows = rows.map(|(id, numbers)| (EntryId(*id), numbers_in(numbers)));
            store.store_vectors(embedder, &rows.collect::<Vec<_>>())
        })
    }

    // Batches that wait, unseen, for hosts that keep their own history.

    fn stage(
        &self,
        py: Python<'_>,
        session: Text,
        entries: Vec<EntryIn>,
        fingerprint: Text,
        now: i64,
    ) -> PyResult<String> {
        self.run_of(py, &session, |store, session| {
            store.stage(session, &entries_in(entries), &fingerprint, now)
        })
    }

    fn finalize(&self, py: Python<'_>, token: Text) -> PyResult<Ids> {
        self.run(py, |store| Ok(ids_out(&store.finalize(&token)?)))
    }

    fn abort(&self, py: Python<'_>, token: Text) -> PyResult<bool> {
        self.run(py, |store| store.abort(&token))
    }

    fn reconcile(
        &self,
        py: Python<'_>,
        committed: Vec<Text>,
        session: Option<Text>,
        before: Option<i64>,
    ) -> PyResult<(Vec<String>, Vec<String>, Vec<String>)> {
        let done = self.run(py, |store| {
            let session = session.as_ref().map(session_id).transpose()?;
            let committed: Vec<String> = committed.iter().map(|token| token.to_string()).collect();
            store.reconcile(&committed, session.as_ref(), before)
        })?;
        Ok((done.finalized, done.aborted, done.lost))
    }

    fn stages(&self, py: Python<'_>, session: Option<Text>) -> PyResult<Vec<Stage>> {
        let stages = self.run(py, |store| {
            store.stages(session.as_ref().map(session_id).transpose()?.as_ref())
        })?;
        Ok(stages.into_iter().map(Stage::from).collect())
    }

    fn staged_entries(&self, py: Python<'_>, session: Text) -> PyResult<Vec<StoredEntry>> {
        let waiting = self
            .run_of(py, &session, memory::Store::staged_entries)?
            .into_iter();
        let entries = waiting.map(|staged| StoredEntry::staged(staged, session.to_string()));
        Ok(entries.collect())
    }

    // Sessions, and the store as a whole.

    fn sessions(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.run(py, memory::Store::sessions)
    }

    fn forget(
        &self,
        py: Python<'_>,
        targets: Vec<TargetIn>,
        replacement: Text,
    ) -> PyResult<Forgotten> {
        let forgotten = self.run(py, |store| {
            store.forget(&targets_in(targets)?, &replacement)
        })?;
        Ok(forgotten.into())
    }

    fn delete_session(&self, py: Python<'_>, session: Text) -> PyResult<i64> {
        self.run_of(py, &session, memory::Store::delete_session)
    }

    fn revive(&self, py: Python<'_>, session: Text) -> PyResult<bool> {
        self.run_of(py, &session, memory::Store::revive)
    }

    fn stats<'py>(&self, py: Python<'py>, session: Option<Text>) -> PyResult<Bound<'py, PyDict>> {
        let figures = self.run(py, |store| {
            store.figures(session.as_ref().map(session_id).transpose()?.as_ref())
        })?;
        figures_out(py, &figures)
    }

    fn check(&self, py: Python<'_>) -> PyResult<Vec<Finding>> {
        let findings = self.run(py, memory::Store::check)?.into_iter();
        Ok(findings.map(|finding| (finding, false).into()).collect())
    }

    fn repair(&self, py: Python<'_>, now: i64) -> PyResult<Vec<Finding>> {
        let findings = self.run(py, |store| store.repair(now))?;
        Ok(findings.into_iter().map(Finding::from).collect())
    }

    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.run(py, |store| store.backup(&path))
    }
}

/// An entry without vectors: id, content, role, name.
type MissingOut = (i64, String, String, Option<String>);
