//! Searches of a namespace, and the messages that such a search has to have read first; and whether facts of the
//! store have changed.

use pyo3::prelude::*;
use siltstone_core::memory::{self, Across};

use crate::entries::{EntryIn, entries_in};
use crate::rows::{MessageOut, message_out};
use crate::search::{Found, SearchOptions, VectorIn, vector_in};
use crate::store::Store;
use crate::text::Text;

/// Messages of a session that a search of its namespace has to have read.
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

    /// The messages as their log gives them.
    #[getter]
    fn rows(&self) -> Vec<MessageOut> {
        let messages = self.inner.messages.iter();
        messages.cloned().map(message_out).collect()
    }
}

/// What the namespace of the session has; or the messages of it that have to be read first.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]
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
        Across::Unread(unread) => {
            let unread = unread.into_iter();
            Ok((None, unread.map(|inner| Unread { inner }).collect()))
        }
    }
}

/// What is another text after every change of a fact of the store; None where that cannot be told.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]
pub(crate) fn facts_revision(py: Python<'_>, store: PyRef<'_, Store>) -> PyResult<Option<String>> {
    store.run(py, memory::Store::facts_revision)
}

/// Takes in the texts of those messages.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]
pub(crate) fn take_said(
    py: Python<'_>,
    store: PyRef<'_, Store>,
    session: Text,
    said: Vec<(PyRef<'_, Unread>, Vec<Option<EntryIn>>)>,
) -> PyResult<()> {
    let one = |each: EntryIn| entries_in(vec![each]).pop();
    let said = said.into_iter().map(|(unread, entries)| {
        let entries = entries.into_iter().map(|each| each.and_then(one));
        (unread.inner.clone(), entries.collect())
    });
    let said: Vec<_> = said.collect();
    store.run_of(py, &session, |store, session| {
        store.take_said(session, said)
    })
}
