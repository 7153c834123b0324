//! The class `Store`: a durable store.

use std::ffi::OsStr;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use siltstone_core::Result as CoreResult;
use siltstone_core::id::{EntryId, SessionId};
use siltstone_core::memory::{
    self, Handle, NewCompaction, NewEntry, NewFact, NewMessage, Recall, Rewrite, SessionVersion,
};

use crate::entries::{Finding, Forgotten, Ids, Page, StoredEntry, TargetIn, ids_out};
use crate::error::{run_attached, run_detached};
use crate::interpreter;
use crate::record::{In, Many};
use crate::rows::Shown;
use crate::rows::{
    CommittedOut, Compaction, Derived, FactIn, FactOut, LogRow, LogState, MissingOut, RewriteIn,
    SessionRow, VersionRow, WriteIn, append_of, committed_out, fact_in, fact_out, figures_out,
    rows_out, version_out, write_in,
};
use crate::search::{Found, SearchOptions, VectorIn, numbers_in, vector_in};
use crate::text::{Text, namespace_in, session_id};

/// An open store. It is safe to use from many threads.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Store {
    handle: Handle,
}

impl Store {
    /// The store of `handle`.
    pub(crate) fn of(handle: Handle) -> Self {
        Self { handle }
    }

    /// Runs `work` on the store without the interpreter.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&memory::Store) -> CoreResult<T> + Send,
    ) -> PyResult<T> {
        run_detached(py, || work(&*self.handle.store()?))
    }

    /// Runs `work` on the store and a session, without the interpreter.
    pub(crate) fn run_of<T: Send>(
        &self,
        py: Python<'_>,
        session: &Text,
        work: impl FnOnce(&memory::Store, &SessionId) -> CoreResult<T> + Send,
    ) -> PyResult<T> {
        self.run(py, |store| work(store, &session_id(session)?))
    }

    /// Runs a write on a session. Gives the session's new version.
    fn write(
        &self,
        py: Python<'_>,
        session: &Text,
        work: impl FnOnce(&memory::Store, &SessionId) -> CoreResult<Option<SessionVersion>> + Send,
    ) -> PyResult<Option<VersionRow>> {
        let version = self.run_of(py, session, work)?;
        Ok(version.map(version_out))
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
        let handle = run_detached(py, || {
            let hash_rule = hash_rule.map(|name| name.parse()).transpose()?;
            Handle::open(&path, read_only, hash_rule, mode)
        })?;
        Ok(Self::of(handle))
    }

    #[staticmethod]
    #[pyo3(signature = (hash_rule=None))]
    fn open_memory(py: Python<'_>, hash_rule: Option<Text>) -> PyResult<Self> {
        let rule = || hash_rule.map(|name| name.parse()).transpose();
        let handle = run_detached(py, || Handle::open_memory(rule()?))?;
        Ok(Self::of(handle))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        run_detached(py, || {
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
    fn language(&self, py: Python<'_>) -> PyResult<String> {
        self.run(py, |store| Ok(store.languages().to_string()))
    }

    fn settle_language(&self, py: Python<'_>, language: Text, anew: bool) -> PyResult<()> {
        self.run(py, |store| store.settle_languages(language.parse()?, anew))
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
        write: WriteIn,
        rows: Many<NewMessage>,
        clock: Text,
        title: Text,
        recalls: Many<Recall>,
    ) -> PyResult<Option<VersionRow>> {
        let (messages, recalls) = (rows.0, recalls.0);
        let append = append_of(&messages, &clock, &title, &recalls);
        self.write(py, &session, |store, session| {
            store.append(session, write_in(write), append)
        })
    }

    fn log_state(&self, py: Python<'_>, session: Text) -> PyResult<LogState> {
        let state = self.run_of(py, &session, memory::Store::log_state)?;
        Ok(state.into())
    }

    fn open_session(
        &self,
        py: Python<'_>,
        session: Text,
        namespace: Option<Text>,
    ) -> PyResult<LogState> {
        let state = self.run_of(py, &session, |store, session| {
            let namespace = namespace.as_ref().map(namespace_in).transpose()?;
            store.open_session(session, namespace)
        })?;
        Ok(state.into())
    }

    fn version(&self, py: Python<'_>, session: Text) -> PyResult<Option<VersionRow>> {
        self.write(py, &session, memory::Store::version)
    }

    fn read_messages(
        &self,
        py: Python<'_>,
        session: Text,
        start: i64,
        end: i64,
    ) -> PyResult<Vec<LogRow>> {
        let messages = self.run_of(py, &session, |store, session| {
            store.messages(session, start, end)
        })?;
        Ok(rows_out(messages))
    }

    fn shown_messages<'py>(
        &self,
        py: Python<'py>,
        session: Text,
        start: i64,
        end: i64,
    ) -> PyResult<Vec<Shown<'py>>> {
        let messages = self.run_of(py, &session, |store, session| {
            store.messages(session, start, end)
        })?;
        run_attached(py, || {
            let rows = messages.into_iter().enumerate();
            rows.map(|(at, row)| {
                interpreter::at_step(py, at)?;
                Shown::of(py, row)
            })
            .collect()
        })
    }

    fn recalls(
        &self,
        py: Python<'_>,
        session: Text,
        limit: i64,
    ) -> PyResult<Vec<(i64, i64, String)>> {
        let recalls = self.run_of(py, &session, |store, session| store.recalls(session, limit))?;
        let rows = recalls.into_iter();
        Ok(rows
            .map(|row| (row.seq, row.created_at, row.body))
            .collect())
    }

    fn commit_compaction(
        &self,
        py: Python<'_>,
        session: Text,
        write: WriteIn,
        row: In<NewCompaction>,
        entries: Many<NewEntry>,
        clock: Text,
        said: (Many<NewMessage>, Text, Many<Recall>),
    ) -> PyResult<CommittedOut> {
        let (messages, title, recalls) = said;
        let (write, entries, messages) = (write_in(write), entries.0, messages.0);
        let recalls = recalls.0;
        let append = append_of(&messages, &clock, &title, &recalls);
        // The closure owns the entries: freeing thousands takes milliseconds, in which nobody waits for the interpreter.
        let done = self.run_of(py, &session, move |store, session| {
            store.append_compacted(session, write, append, &row.0, &entries)
        })?;
        Ok(committed_out(done))
    }

    fn rewrite(
        &self,
        py: Python<'_>,
        session: Text,
        write: WriteIn,
        row: In<NewCompaction>,
        changes: RewriteIn,
        clock: Text,
    ) -> PyResult<CommittedOut> {
        let (withdrawn, gone, parent, messages, entries) = changes;
        let (messages, entries) = (messages.0, entries.0);
        let rewrite = Rewrite {
            withdrawn: &withdrawn,
            gone: &gone,
            parent,
            messages: &messages,
            row: &row.0,
            entries: &entries,
        };
        let done = self.run_of(py, &session, |store, session| {
            store.rewrite(session, write_in(write), rewrite, &clock)
        })?;
        Ok(committed_out(done))
    }

    fn undo_compaction(
        &self,
        py: Python<'_>,
        session: Text,
        write: WriteIn,
        clock: Text,
    ) -> PyResult<(Option<i64>, i64, Option<VersionRow>)> {
        let undone = self.run_of(py, &session, |store, session| {
            store.undo_compaction(session, write_in(write), &clock)
        })?;
        Ok((undone.head, undone.entries, undone.version.map(version_out)))
    }

    fn save_clock(
        &self,
        py: Python<'_>,
        session: Text,
        write: WriteIn,
        clock: Text,
    ) -> PyResult<Option<VersionRow>> {
        self.write(py, &session, |store, session| {
            store.save_clock(session, write_in(write), &clock)
        })
    }

    fn save_settings(
        &self,
        py: Python<'_>,
        session: Text,
        write: WriteIn,
        settings: Text,
    ) -> PyResult<Option<VersionRow>> {
        self.write(py, &session, |store, session| {
            store.save_settings(session, write_in(write), &settings)
        })
    }

    fn renew(
        &self,
        py: Python<'_>,
        session: Text,
        write: WriteIn,
        derived_id: i64,
        raw: Text,
    ) -> PyResult<Option<VersionRow>> {
        self.write(py, &session, |store, session| {
            store.renew(session, write_in(write), derived_id, &raw)
        })
    }

    fn compactions(&self, py: Python<'_>, session: Text) -> PyResult<Vec<Compaction>> {
        let rows = self.run_of(py, &session, memory::Store::compactions)?;
        Ok(rows_out(rows))
    }

    fn compaction(
        &self,
        py: Python<'_>,
        session: Text,
        compaction_id: i64,
    ) -> PyResult<Option<Compaction>> {
        let row = self.run_of(py, &session, |store, session| {
            store.compaction(session, compaction_id)
        })?;
        Ok(row.map(Compaction::from))
    }

    fn derived(&self, py: Python<'_>, session: Text, ids: Vec<i64>) -> PyResult<Vec<Derived>> {
        let rows = self.run_of(py, &session, |store, session| store.derived(session, &ids))?;
        Ok(rows_out(rows))
    }

    fn derived_after(&self, py: Python<'_>, session: Text, after: i64) -> PyResult<Vec<Derived>> {
        let rows = self.run_of(py, &session, |store, session| {
            store.derived_after(session, after)
        })?;
        Ok(rows_out(rows))
    }

    fn derived_like(
        &self,
        py: Python<'_>,
        session: Text,
        texts: Vec<Text>,
    ) -> PyResult<Vec<Vec<Derived>>> {
        let found = self.run_of(py, &session, |store, session| {
            let texts: Vec<String> = texts.into_iter().map(String::from).collect();
            store.derived_like(session, &texts)
        })?;
        Ok(found.into_iter().map(rows_out).collect())
    }

    // Facts, and the marks of forgotten messages.

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
            store.namespace_facts(namespace_in(&namespace)?, state.as_deref())
        })?;
        Ok(facts.into_iter().map(fact_out).collect())
    }

    fn salt(&self, py: Python<'_>, session: Text) -> PyResult<Py<PyBytes>> {
        let salt = self.run_of(py, &session, memory::Store::salt)?;
        Ok(PyBytes::new(py, salt.as_bytes()).unbind())
    }

    fn forgotten(&self, py: Python<'_>, session: Text) -> PyResult<Vec<(i64, Py<PyBytes>)>> {
        let rows = self.run_of(py, &session, memory::Store::forgotten)?;
        let rows = rows.into_iter();
        let rows = rows.map(|(seq, digest)| (seq, PyBytes::new(py, &digest).unbind()));
        Ok(rows.collect())
    }

    fn restore_marks(
        &self,
        py: Python<'_>,
        session: Text,
        salt: PyBackedBytes,
        digests: Vec<(i64, PyBackedBytes)>,
        redacted: Vec<i64>,
    ) -> PyResult<()> {
        let digests: Vec<(i64, Vec<u8>)> = digests
            .iter()
            .map(|(seq, digest)| (*seq, digest.to_vec()))
            .collect();
        let salt = String::from_utf8_lossy(&salt).into_owned();
        self.run_of(py, &session, |store, session| {
            let marks = memory::Marks {
                salt: &salt,
                digests: &digests,
                redacted: &redacted,
            };
            store.restore_marks(session, marks)
        })
    }

    // Entries, and searches of them.

    fn insert_entries(
        &self,
        py: Python<'_>,
        session: Text,
        entries: Many<NewEntry>,
        now: i64,
    ) -> PyResult<Ids> {
        self.run_of(py, &session, move |store, session| {
            // Before the insert: if this fails, nothing was stored, and the caller can try again.
            store.delete_expired(session, memory::Expired::Noted(now))?;
            Ok(ids_out(&store.insert(session, &entries.0)?))
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
        Ok((stored.id.0, session, stored.entry, stored.compaction).into())
    }

    fn entries(
        &self,
        py: Python<'_>,
        session: Text,
        overlaps: Option<(i64, i64)>,
        since: Option<i64>,
        rows: (i64, i64),
        now: Option<i64>,
    ) -> PyResult<Page> {
        let page = self.run_of(py, &session, |store, session| {
            store.page(session, overlaps, since, rows.0, rows.1)
        })?;
        Page::new(py, page, &session, now)
    }

    fn entries_holding(
        &self,
        py: Python<'_>,
        session: Text,
        text: Text,
        spelled: Text,
    ) -> PyResult<Page> {
        let page = self.run_of(py, &session, |store, session| {
            store.entries_holding(session, &text, &spelled)
        })?;
        Page::new(py, page, &session, None)
    }

    fn messages_holding(
        &self,
        py: Python<'_>,
        session: Text,
        text: Text,
        spelled: Text,
    ) -> PyResult<Vec<i64>> {
        self.run_of(py, &session, |store, session| {
            store.messages_holding(session, &text, &spelled)
        })
    }

    fn labels_holding(
        &self,
        py: Python<'_>,
        session: Option<Text>,
        text: Text,
        spelled: Text,
    ) -> PyResult<Vec<(String, String)>> {
        self.run(py, |store| {
            store.labels_holding(session.as_deref(), &text, &spelled)
        })
    }

    fn entries_from(
        &self,
        py: Python<'_>,
        session: Text,
        messages: Vec<i64>,
    ) -> PyResult<Vec<i64>> {
        let ids = self.run_of(py, &session, |store, session| {
            store.entries_from(session, messages)
        })?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }

    fn expire(
        &self,
        py: Python<'_>,
        session: Text,
        keep: Option<i64>,
        before: Option<i64>,
        now: i64,
        is_asked: bool,
    ) -> PyResult<(i64, i64, i64)> {
        self.run_of(py, &session, |store, session| {
            store.expire(session, keep, before, now, is_asked)
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

    // Sessions, and the store as a whole.

    fn sessions(
        &self,
        py: Python<'_>,
        namespace: Option<Text>,
        offset: i64,
        limit: i64,
    ) -> PyResult<(Vec<SessionRow>, Option<i64>)> {
        let (rows, next) = self.run(py, |store| {
            let namespace = namespace.as_ref().map(namespace_in).transpose()?;
            store.sessions(namespace, offset, limit)
        })?;
        Ok((rows_out(rows), next))
    }

    fn session_with_settings(
        &self,
        py: Python<'_>,
        has: Text,
        lacks: Text,
    ) -> PyResult<Option<(String, String)>> {
        self.run(py, |store| store.session_with_settings(&has, &lacks))
    }

    fn forget(
        &self,
        py: Python<'_>,
        targets: Vec<TargetIn>,
        replacement: Text,
    ) -> PyResult<Forgotten> {
        let forgotten = self.run(py, |store| {
            let targets: CoreResult<Vec<_>> = targets.into_iter().map(TargetIn::checked).collect();
            store.forget(&targets?, &replacement)
        })?;
        Ok(forgotten.into())
    }

    fn delete_session(&self, py: Python<'_>, session: Text) -> PyResult<i64> {
        self.run_of(py, &session, memory::Store::delete_session)
    }

    fn take_back(
        &self,
        py: Python<'_>,
        session: Text,
        writes: Vec<i64>,
        entries: i64,
    ) -> PyResult<bool> {
        self.run_of(py, &session, |store, session| {
            store.take_back(session, &writes, entries)
        })
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
        Ok(rows_out(findings))
    }

    fn shrink(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, memory::Store::shrink)
    }

    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.run(py, |store| store.backup(&path))
    }
}
