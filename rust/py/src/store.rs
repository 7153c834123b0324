//! `Store`: the durable store.

#![expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]

use std::ffi::OsStr;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use siltstone_core::Result as CoreResult;
use siltstone_core::id::{EntryId, SessionId};
use siltstone_core::memory::{self, Handle, NewFact};

use crate::entries::{
    EntryIn, Finding, Forgotten, Ids, Page, Stage, StoredEntry, TargetIn, entries_in, ids_out,
    targets_in,
};
use crate::error::guard;
use crate::log::{self, CommittedOut, RewriteIn, write_in};
use crate::rows::{
    DerivedIn, DerivedOut, FactIn, FactOut, MessageIn, MessageOut, MissingOut, SessionOut,
    StateOut, VersionIn, VersionRow, compaction_out, compactions_out, derived_out, fact_in,
    fact_out, figures_out, message_out, namespace_in, session_id, session_out, state_out,
    version_out,
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
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&memory::Store) -> CoreResult<T> + Send,
    ) -> PyResult<T> {
        guard(py, || work(&*self.handle.store()?))
    }

    /// The same, of a session of it.
    pub(crate) fn run_of<T: Send>(
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
    #[pyo3(signature = (path, read_only, hash_rule, mode=None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        read_only: bool,
        hash_rule: Option<Text>,
        mode: Option<u32>,
    ) -> PyResult<Self> {
        let handle = guard(py, || {
            let hash_rule = hash_rule.map(|name| name.parse()).transpose()?;
            Handle::open_with(&path, read_only, hash_rule, mode)
        })?;
        Ok(Self { handle })
    }

    #[staticmethod]
    #[pyo3(signature = (hash_rule=None))]
    fn open_memory(py: Python<'_>, hash_rule: Option<Text>) -> PyResult<Self> {
        let rule = || hash_rule.map(|name| name.parse()).transpose();
        let handle = guard(py, || Handle::open_memory(rule()?))?;
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

    #[expect(
        clippy::too_many_arguments,
        reason = "they are the keywords of the Python face"
    )]
    fn append_messages(
        &self,
        py: Python<'_>,
        session: Text,
        expected: VersionIn,
        write_id: i64,
        rows: Vec<MessageIn>,
        clock: Text,
        title: Text,
    ) -> PyResult<Option<VersionRow>> {
        let write = (expected, write_id);
        log::append(py, &self.handle, &session, write, rows, &clock, &title)
    }

    fn log_state(&self, py: Python<'_>, session: Text) -> PyResult<StateOut> {
        self.run_of(py, &session, memory::Store::log_state)
            .map(state_out)
    }

    fn open_session(
        &self,
        py: Python<'_>,
        session: Text,
        namespace: Option<Text>,
    ) -> PyResult<StateOut> {
        let state = self.run_of(py, &session, |store, session| {
            let namespace = namespace.as_ref().map(namespace_in).transpose()?;
            store.open_session(session, namespace)
        })?;
        Ok(state_out(state))
    }

    fn version(&self, py: Python<'_>, session: Text) -> PyResult<Option<VersionRow>> {
        let version = self.run_of(py, &session, memory::Store::version)?;
        Ok(version.map(version_out))
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

    #[expect(
        clippy::too_many_arguments,
        reason = "they are the keywords of the Python face"
    )]
    fn commit_compaction(
        &self,
        py: Python<'_>,
        session: Text,
        expected: VersionIn,
        write_id: i64,
        row: &Bound<'_, PyTuple>,
        derived: Vec<DerivedIn>,
        entries: Vec<EntryIn>,
        clock: Text,
    ) -> PyResult<CommittedOut> {
        let (handle, write) = (&self.handle, (expected, write_id));
        log::commit_compaction(py, handle, &session, write, (row, derived), entries, &clock)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "they are the keywords of the Python face"
    )]
    fn rewrite(
        &self,
        py: Python<'_>,
        session: Text,
        expected: VersionIn,
        write_id: i64,
        row: &Bound<'_, PyTuple>,
        derived: Vec<DerivedIn>,
        changes: RewriteIn,
        clock: Text,
    ) -> PyResult<CommittedOut> {
        let (handle, write) = (&self.handle, (expected, write_id));
        log::rewrite(py, handle, &session, write, (row, derived), changes, &clock)
    }

    fn undo_compaction(
        &self,
        py: Python<'_>,
        session: Text,
        expected: VersionIn,
        write_id: i64,
        clock: Text,
    ) -> PyResult<(Option<i64>, i64, Option<VersionRow>)> {
        log::undo_compaction(py, &self.handle, &session, (expected, write_id), &clock)
    }

    fn save_clock(
        &self,
        py: Python<'_>,
        session: Text,
        expected: VersionIn,
        write_id: i64,
        clock: Text,
    ) -> PyResult<Option<VersionRow>> {
        let version = self.run_of(py, &session, |store, session| {
            store.save_clock(session, write_in((expected, write_id)), &clock)
        })?;
        Ok(version.map(version_out))
    }

    fn save_settings(
        &self,
        py: Python<'_>,
        session: Text,
        expected: VersionIn,
        write_id: i64,
        settings: Text,
    ) -> PyResult<Option<VersionRow>> {
        let version = self.run_of(py, &session, |store, session| {
            store.save_settings(session, write_in((expected, write_id)), &settings)
        })?;
        Ok(version.map(version_out))
    }

    fn renew(
        &self,
        py: Python<'_>,
        session: Text,
        expected: VersionIn,
        write_id: i64,
        derived_id: i64,
        raw: Text,
    ) -> PyResult<Option<VersionRow>> {
        let version = self.run_of(py, &session, |store, session| {
            store.renew(session, write_in((expected, write_id)), derived_id, &raw)
        })?;
        Ok(version.map(version_out))
    }

    fn compactions<'py>(
        &self,
        py: Python<'py>,
        session: Text,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let rows = self.run_of(py, &session, memory::Store::compactions)?;
        compactions_out(py, rows)
    }

    fn compactions_after<'py>(
        &self,
        py: Python<'py>,
        session: Text,
        after: i64,
        limit: usize,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let rows = self.run_of(py, &session, |store, session| {
            store.compactions_after(session, after, limit)
        })?;
        compactions_out(py, rows)
    }

    fn chain<'py>(
        &self,
        py: Python<'py>,
        session: Text,
        head: i64,
        until: Option<i64>,
        limit: usize,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let rows = self.run_of(py, &session, |store, session| {
            store.chain(session, head, until, limit)
        })?;
        compactions_out(py, rows)
    }

    fn compaction<'py>(
        &self,
        py: Python<'py>,
        session: Text,
        compaction_id: i64,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let row = self.run_of(py, &session, |store, session| {
            store.compaction(session, compaction_id)
        })?;
        row.map(|row| compaction_out(py, row)).transpose()
    }

    fn derived(&self, py: Python<'_>, session: Text, ids: Vec<i64>) -> PyResult<Vec<DerivedOut>> {
        let rows = self.run_of(py, &session, |store, session| store.derived(session, &ids))?;
        Ok(rows.into_iter().map(derived_out).collect())
    }

    fn derived_after(
        &self,
        py: Python<'_>,
        session: Text,
        after: i64,
    ) -> PyResult<Vec<DerivedOut>> {
        let rows = self.run_of(py, &session, |store, session| {
            store.derived_after(session, after)
        })?;
        Ok(rows.into_iter().map(derived_out).collect())
    }

    fn derived_like(
        &self,
        py: Python<'_>,
        session: Text,
        texts: Vec<Text>,
    ) -> PyResult<Vec<Vec<DerivedOut>>> {
        let found = self.run_of(py, &session, |store, session| {
            let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
            store.derived_like(session, &texts)
        })?;
        let rows = found.into_iter();
        let rows = rows.map(|rows| rows.into_iter().map(derived_out).collect());
        Ok(rows.collect())
    }

    // Facts, and messages that were forgotten and are sent again.

    fn put_facts(
        &self,
        py: Python<'_>,
        session: Text,
        facts: Vec<FactIn>,
        now: i64,
    ) -> PyResult<Vec<i64>> {
        self.run_of(py, &session, |store, session| {
            let facts: Vec<NewFact> = facts.into_iter().map(fact_in).collect();
            store.put_facts(session, &facts, now)
        })
    }

    fn facts(&self, py: Python<'_>, session: Text, state: Option<Text>) -> PyResult<Vec<FactOut>> {
        let facts = self.run_of(py, &session, |store, session| {
            store.facts(session, state.as_deref())
        })?;
        Ok(facts.into_iter().map(fact_out).collect())
    }

    fn namespace_facts(
        &self,
        py: Python<'_>,
        namespace: Text,
        state: Option<Text>,
    ) -> PyResult<Vec<FactOut>> {
        let facts = self.run(py, |store| {
            store.namespace_facts(&namespace, state.as_deref())
        })?;
        Ok(facts.into_iter().map(fact_out).collect())
    }

    fn salt(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let salt = self.run(py, memory::Store::salt)?;
        Ok(PyBytes::new(py, salt.as_bytes()).unbind())
    }

    fn forgotten(&self, py: Python<'_>, session: Text) -> PyResult<Vec<(i64, Py<PyBytes>)>> {
        let rows = self.run_of(py, &session, memory::Store::forgotten)?;
        let rows = rows.into_iter();
        let rows = rows.map(|(seq, digest)| (seq, PyBytes::new(py, &digest).unbind()));
        Ok(rows.collect())
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
        let options = options.inner.clone();
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

    fn sessions(
        &self,
        py: Python<'_>,
        namespace: Option<Text>,
        offset: i64,
        limit: i64,
    ) -> PyResult<(Vec<SessionOut>, Option<i64>)> {
        let (rows, next) = self.run(py, |store| {
            let namespace = namespace.as_ref().map(namespace_in).transpose()?;
            store.sessions(namespace, offset, limit)
        })?;
        Ok((rows.into_iter().map(session_out).collect(), next))
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
