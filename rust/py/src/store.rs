//! The class `Store`: a durable store.

use std::ffi::OsStr;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;
use siltstone_core::Result as CoreResult;
use siltstone_core::analyse::LanguageChoice;
use siltstone_core::embed::hash::HashRule;
use siltstone_core::id::{EntryId, SessionId};
use siltstone_core::memory::{
    self, Append, Expired, Handle, Marks, NewCompaction, NewEntry, NewFact, NewMessage, Recall,
    Rewrite, Target, Write,
};

use crate::entries::{Finding, Forgotten, MissingOut, PageOut, StoredEntry};
use crate::error::{run_attached, run_detached};
use crate::interpreter;
use crate::record::{Cross, In, Many, Named};
use crate::rows::{
    CommittedOut, Compaction, Derived, FactOut, LogRow, LogState, SessionRow, Shown, VersionRow,
    figures_out,
};
use crate::search::{Found, SearchOptions, VectorIn, numbers_in, vector_in};
use crate::text::{Namespace, Text};

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
}

/// The withdrawn compactions, the messages whose entries are deleted, the parent, new messages and new entries.
type RewriteIn = (
    Vec<i64>,
    Vec<i64>,
    Option<i64>,
    Many<NewMessage>,
    Many<NewEntry>,
);

/// Defines the methods of `Store` for Python: those in braces as they are, and for each other one the work that it runs
/// on the store without the interpreter, whose result crosses to the type that it returns.
macro_rules! methods {
    (
        { $($written:tt)* }
        $($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $out:ty = $work:expr;)*
    ) => {
        #[pymethods]
        impl Store {
            $($written)*

            $($(#[$meta])*
            fn $name(&self, py: Python<'_>, $($argument: $type),*) -> PyResult<$out> {
                Ok(self.run(py, $work)?.cross())
            })*
        }
    };
}

methods! {
    {
        #[staticmethod]
        #[pyo3(signature = (path, read_only, hash_rule, mode=None))]
        fn open(
            py: Python<'_>,
            path: PathBuf,
            read_only: bool,
            hash_rule: Option<Named<HashRule>>,
            mode: Option<u32>,
        ) -> PyResult<Self> {
            let hash_rule = hash_rule.map(|Named(rule)| rule);
            run_detached(py, || Handle::open(&path, read_only, hash_rule, mode)).map(Self::of)
        }

        #[staticmethod]
        #[pyo3(signature = (hash_rule=None))]
        fn open_memory(py: Python<'_>, hash_rule: Option<Named<HashRule>>) -> PyResult<Self> {
            let hash_rule = hash_rule.map(|Named(rule)| rule);
            run_detached(py, || Handle::open_memory(hash_rule)).map(Self::of)
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
        fn read_only(&self) -> bool {
            self.handle.is_read_only()
        }

        fn shown_messages<'py>(
            &self,
            py: Python<'py>,
            session: In<SessionId>,
            start: i64,
            end: i64,
        ) -> PyResult<Vec<Shown<'py>>> {
            let messages = self.run(py, |store| store.messages(&session, start, end))?;
            run_attached(py, || {
                let rows = messages.into_iter().enumerate();
                rows.map(|(at, row)| {
                    interpreter::at_step(py, at)?;
                    Shown::of(py, row)
                })
                .collect()
            })
        }

        fn search(
            &self,
            py: Python<'_>,
            session: In<SessionId>,
            query: Text,
            options: PyRef<'_, SearchOptions>,
            vector: Option<VectorIn>,
        ) -> PyResult<Found> {
            let options = options.inner.clone();
            let found = self.run(py, |store| {
                store.find(&session, &query, vector_in(vector).as_ref(), &options)
            })?;
            Found::new(py, found)
        }

        fn stats<'py>(
            &self,
            py: Python<'py>,
            session: Option<In<SessionId>>,
        ) -> PyResult<Bound<'py, PyDict>> {
            let figures = self.run(py, |store| store.figures(session.as_deref()))?;
            figures_out(py, &figures)
        }
    }

    #[getter]
    fn language() -> String = |store| Ok(store.languages().to_string());

    fn settle_language(language: Named<LanguageChoice>, anew: bool) -> () =
        |store| store.settle_languages(language.0, anew);

    // The log of a session.

    fn append_messages(
        session: In<SessionId>,
        write: In<Write>,
        rows: Many<NewMessage>,
        clock: Text,
        title: Text,
        recalls: Many<Recall>,
    ) -> Option<VersionRow> = |store| {
        let (messages, clock, title, recalls) = (&rows, &clock, &title, &recalls);
        store.append(&session, *write, Append { messages, clock, title, recalls })
    };

    fn log_state(session: In<SessionId>) -> LogState = |store| store.log_state(&session);

    fn open_session(session: In<SessionId>, namespace: Option<Namespace>) -> LogState =
        |store| store.open_session(&session, namespace.as_deref());

    fn version(session: In<SessionId>) -> Option<VersionRow> = |store| store.version(&session);

    fn read_messages(session: In<SessionId>, start: i64, end: i64) -> Vec<LogRow> =
        |store| store.messages(&session, start, end);

    fn recalls(session: In<SessionId>, limit: i64) -> Vec<(i64, i64, String)> =
        |store| store.recalls(&session, limit);

    fn commit_compaction(
        session: In<SessionId>,
        write: In<Write>,
        row: In<NewCompaction>,
        entries: Many<NewEntry>,
        clock: Text,
        said: (Many<NewMessage>, Text, Many<Recall>),
    ) -> CommittedOut = move |store| {
        // The work owns the entries: freeing thousands takes milliseconds, in which nobody waits for the interpreter.
        let (entries, (messages, title, recalls)) = (entries, &said);
        let append = Append { messages, clock: &clock, title, recalls };
        store.append_compacted(&session, *write, append, &row, &entries)
    };

    fn rewrite(
        session: In<SessionId>,
        write: In<Write>,
        row: In<NewCompaction>,
        changes: RewriteIn,
        clock: Text,
    ) -> CommittedOut = |store| {
        let (withdrawn, gone, parent, messages, entries) = &changes;
        let parent = *parent;
        let rewrite = Rewrite { withdrawn, gone, parent, messages, row: &row, entries };
        store.rewrite(&session, *write, rewrite, &clock)
    };

    fn undo_compaction(
        session: In<SessionId>,
        write: In<Write>,
        clock: Text,
    ) -> (Option<i64>, i64, Option<VersionRow>) =
        |store| store.undo_compaction(&session, *write, &clock);

    fn save_clock(session: In<SessionId>, write: In<Write>, clock: Text) -> Option<VersionRow> =
        |store| store.save_clock(&session, *write, &clock);

    fn save_settings(session: In<SessionId>, write: In<Write>, settings: Text) -> Option<VersionRow> =
        |store| store.save_settings(&session, *write, &settings);

    fn renew(
        session: In<SessionId>,
        write: In<Write>,
        derived_id: i64,
        raw: Text,
    ) -> Option<VersionRow> = |store| store.renew(&session, *write, derived_id, &raw);

    fn compactions(session: In<SessionId>) -> Vec<Compaction> = |store| store.compactions(&session);

    fn compaction(session: In<SessionId>, compaction_id: i64) -> Option<Compaction> =
        |store| store.compaction(&session, compaction_id);

    fn derived(session: In<SessionId>, ids: Vec<i64>) -> Vec<Derived> =
        |store| store.derived(&session, &ids);

    fn derived_after(session: In<SessionId>, after: i64) -> Vec<Derived> =
        |store| store.derived_after(&session, after);

    fn derived_like(session: In<SessionId>, texts: Vec<Text>) -> Vec<Vec<Derived>> =
        |store| store.derived_like(&session, &texts.cross());

    // Facts, and the marks of forgotten messages.

    fn put_facts(session: In<SessionId>, facts: Many<NewFact>, now: i64) -> Vec<i64> =
        |store| store.put_facts(&session, &facts, now);

    fn facts(session: In<SessionId>, state: Option<Text>) -> Vec<FactOut> =
        |store| store.facts(&session, state.as_deref());

    fn namespace_facts(namespace: Namespace, state: Option<Text>) -> Vec<FactOut> =
        |store| store.namespace_facts(&namespace, state.as_deref());

    fn salt(session: In<SessionId>) -> Vec<u8> =
        |store| Ok(store.salt(&session)?.into_bytes());

    fn forgotten(session: In<SessionId>) -> Vec<(i64, Vec<u8>)> = |store| store.forgotten(&session);

    fn restore_marks(
        session: In<SessionId>,
        salt: PyBackedBytes,
        digests: Vec<(i64, Vec<u8>)>,
        redacted: Vec<i64>,
    ) -> () = |store| {
        let (salt, digests) = (&String::from_utf8_lossy(&salt), &digests);
        store.restore_marks(&session, Marks { salt, digests, redacted: &redacted })
    };

    // Entries.

    fn insert_entries(
        session: In<SessionId>,
        entries: Many<NewEntry>,
        now: i64,
    ) -> Vec<Option<i64>> = move |store| {
        // Before the insert: if this fails, nothing was stored, and the caller can try again.
        store.delete_expired(&session, Expired::Noted(now))?;
        store.insert(&session, &entries)
    };

    fn get(entry_id: i64) -> StoredEntry = |store| store.get(EntryId(entry_id));

    // A page. With `now`, entries that have expired by then are left out.
    fn entries(
        session: In<SessionId>,
        overlaps: Option<(i64, i64)>,
        since: Option<i64>,
        rows: (i64, i64),
        now: Option<i64>,
    ) -> PageOut = |store| {
        let mut page = store.page(&session, overlaps, since, rows.0, rows.1)?;
        page.entries.retain(|stored| now.is_none_or(|now| !stored.entry.is_expired(now)));
        Ok((page, &*session))
    };

    fn entries_holding(session: In<SessionId>, text: Text, spelled: Text) -> PageOut =
        |store| Ok((store.entries_holding(&session, &text, &spelled)?, &*session));

    fn messages_holding(session: In<SessionId>, text: Text, spelled: Text) -> Vec<i64> =
        |store| store.messages_holding(&session, &text, &spelled);

    fn labels_holding(
        session: Option<Text>,
        text: Text,
        spelled: Text,
    ) -> Vec<(String, String)> =
        |store| store.labels_holding(session.as_deref(), &text, &spelled);

    fn entries_from(session: In<SessionId>, messages: Vec<i64>) -> Vec<i64> =
        |store| store.entries_from(&session, messages);

    fn expire(
        session: In<SessionId>,
        keep: Option<i64>,
        before: Option<i64>,
        now: i64,
        is_asked: bool,
    ) -> (i64, i64, i64) = |store| store.expire(&session, keep, before, now, is_asked);

    fn quarantined(session: In<SessionId>) -> Vec<i64> = |store| store.quarantined(&session);

    // Vectors of an embedder.

    fn use_embedder(name: Text, dimension: usize, replace: bool) -> i64 =
        |store| store.use_embedder(&name, dimension, replace);

    fn embedded() -> (i64, i64) = memory::Store::embedded;

    fn missing_vectors(after: i64, limit: usize) -> (Vec<MissingOut>, i64) =
        |store| store.missing_vectors(EntryId(after), limit);

    fn store_vectors(embedder: i64, rows: Vec<(i64, PyBackedBytes)>) -> usize = |store| {
        let rows = rows.iter();
        let rows = rows.map(|(id, numbers)| (EntryId(*id), numbers_in(numbers)));
        store.store_vectors(embedder, &rows.collect::<Vec<_>>())
    };

    // Sessions, and the store as a whole.

    fn sessions(
        namespace: Option<Namespace>,
        offset: i64,
        limit: i64,
    ) -> (Vec<SessionRow>, Option<i64>) =
        |store| store.sessions(namespace.as_deref(), offset, limit);

    fn session_with_settings(has: Text, lacks: Text) -> Option<(String, String)> =
        |store| store.session_with_settings(&has, &lacks);

    fn forget(targets: Many<Target>, replacement: Text) -> Forgotten =
        |store| store.forget(&targets, &replacement);

    fn delete_session(session: In<SessionId>) -> i64 = |store| store.delete_session(&session);

    fn take_back(session: In<SessionId>, writes: Vec<i64>, entries: i64) -> bool =
        |store| store.take_back(&session, &writes, entries);

    fn revive(session: In<SessionId>) -> bool = |store| store.revive(&session);

    fn check() -> Vec<Finding> = |store| {
        let findings = store.check()?.into_iter();
        Ok(findings.map(|finding| (finding, false)).collect::<Vec<_>>())
    };

    fn repair(now: i64) -> Vec<Finding> = |store| store.repair(now);

    fn shrink() -> () = memory::Store::shrink;

    fn backup(path: PathBuf) -> () = |store| store.backup(&path);
}
