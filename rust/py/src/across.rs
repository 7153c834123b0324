//! Searches of a namespace, the messages that the caller must read first for them, and the revision of facts.

use pyo3::prelude::*;
use siltstone_core::memory::{self, Across, NewEntry};

use crate::record::In;
use crate::rows::{LogRow, rows_out};
use crate::search::{Found, SearchOptions, VectorIn, vector_in};
use crate::store::Store;
use crate::text::Text;

/// Messages of a session that the caller must read before a search of its namespace.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Unread {
    inner: memory::Unread,
}

#[pymethods]
impl Unread {
    #[getter]
    fn session_id(&self) -> &str {
        &self.inner.session
    }

    /// The messages as rows of the log.
    #[getter]
    fn rows(&self) -> Vec<LogRow> {
        rows_out(self.inner.messages.clone())
    }
}

/// The entry of each message; None for a message without text.
type Said = Vec<Option<In<NewEntry>>>;

/// The hits in the namespace of the session; or the messages of the namespace that the caller must read first.
#[pyfunction]
pub(crate) fn search_across(
    py: Python<'_>,
    store: PyRef<'_, Store>,
    session: Text,
    query: Text,
    options: PyRef<'_, SearchOptions>,
    vector: Option<VectorIn>,
) -> PyResult<(Option<Found>, Vec<Unread>)> {
    let options = options.inner.clone();
    let found = store.run_of(py, &session, |store, session| {
        store.find_across(session, &query, vector_in(vector).as_ref(), &options)
    })?;
    match found {
        Across::Found(found) => Ok((Some(Found::new(py, found)?), Vec::new())),
        Across::Unread(unread) => Ok((None, unread_out(unread))),
    }
}

pub(crate) fn unread_out(unread: Vec<memory::Unread>) -> Vec<Unread> {
    let unread = unread.into_iter();
    unread.map(|inner| Unread { inner }).collect()
}

/// A text that changes with every change of a fact in the store; None if the store cannot tell.
#[pyfunction]
pub(crate) fn facts_revision(py: Python<'_>, store: PyRef<'_, Store>) -> PyResult<Option<String>> {
    store.run(py, memory::Store::facts_revision)
}

/// Passes the texts of unread messages to the store.
#[pyfunction]
pub(crate) fn take_said(
    py: Python<'_>,
    store: PyRef<'_, Store>,
    session: Text,
    said: Vec<(PyRef<'_, Unread>, Said)>,
) -> PyResult<()> {
    let said = said.into_iter().map(|(unread, entries)| {
        let entries = entries.into_iter().map(|entry| entry.map(|entry| entry.0));
        (unread.inner.clone(), entries.collect())
    });
    let said: Vec<_> = said.collect();
    store.run_of(py, &session, |store, session| {
        store.take_said(session, said)
    })
}
