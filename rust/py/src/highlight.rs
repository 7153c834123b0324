//! The terms of a search and their places in texts, and functions that shorten long texts.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use siltstone_core::analyse::LanguageChoice;
use siltstone_core::condense::Earlier;
use siltstone_core::{analyse, condense as condensing, grep};

use crate::error::run_detached;
use crate::record::Named;
use crate::text::Text;

/// The start and the end of a part of a text, and its marks, all in code points of the text.
type Part = (usize, usize, Vec<(usize, usize)>);

/// The class and the arguments with which pickle makes the object again.
type Made<'py> = (Bound<'py, PyType>, (Vec<u64>, String));

/// The terms of a search.
#[pyclass(frozen, eq, module = "siltstone._native")]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) inner: analyse::Asked,
}

#[pymethods]
impl Asked {
    /// The terms, in any order, as they were compared with texts of those languages.
    #[new]
    fn new(mut terms: Vec<u64>, languages: Named<LanguageChoice>) -> Self {
        terms.sort_unstable();
        terms.dedup();
        let inner = analyse::Asked::new(terms.into(), languages.0);
        Self { inner }
    }

    /// The terms of a query that was not compared with any text yet.
    #[staticmethod]
    fn of(py: Python<'_>, query: Text) -> PyResult<Self> {
        let inner = run_detached(py, || Ok(analyse::Asked::of(&query)))?;
        Ok(Self { inner })
    }

    /// The best part of `text` with at most `size` code points, and the places of the terms in it.
    fn best_part(&self, py: Python<'_>, text: Text, size: usize) -> PyResult<Part> {
        run_detached(py, || {
            let part = self.inner.best_part_of(&text, size);
            let start = text[..part.start].chars().count();
            let (mut at, mut place) = (part.start, start);
            let mut count_to = |byte: usize| {
                place += text[at..byte].chars().count();
                at = byte;
                place
            };
            let marks = self.inner.marks(&text, part.clone());
            let marks: Vec<(usize, usize)> = marks
                .into_iter()
                .map(|mark| (count_to(mark.start), count_to(mark.end)))
                .collect();
            Ok((start, count_to(part.end), marks))
        })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Made<'py> {
        let inner = &slf.get().inner;
        let of = (inner.terms().to_vec(), inner.languages().to_string());
        (slf.get_type(), of)
    }
}

// The functions `best_window`, `matching_lines` and `condense`, which shorten long texts.

/// The start and the end, in code points, of the part of `text` with at most `size` code points that fits `query` best.
#[pyfunction]
pub(crate) fn best_window(
    py: Python<'_>,
    text: Text,
    query: Text,
    size: usize,
) -> PyResult<(usize, usize)> {
    run_detached(py, || {
        let window = analyse::best_window(&text, &query, size);
        let start = text[..window.start].chars().count();
        Ok((start, start + text[window].chars().count()))
    })
}

/// The numbers, from 0, of the lines of `text` that `pattern` matches anywhere. Lines end at line feeds.
#[pyfunction]
pub(crate) fn matching_lines(py: Python<'_>, text: Text, pattern: Text) -> PyResult<Vec<usize>> {
    run_detached(py, || grep::matching_lines(&text, &pattern))
}

/// A shorter form of `text`, where its structure allows one. `earlier` are handles and texts that were shown before.
#[pyfunction]
pub(crate) fn condense(
    text: Bound<'_, PyString>,
    earlier: Vec<(Text, Text)>,
) -> PyResult<Bound<'_, PyString>> {
    let (py, read) = (text.py(), Text::from_py(&text)?);
    let shorter = run_detached(py, || {
        let seen: Vec<Earlier<'_>> = earlier
            .iter()
            .map(|(handle, text)| Earlier { handle, text })
            .collect();
        let short = condensing::condense(&read, &seen);
        Ok((short != *read || read.is_repaired()).then_some(short))
    })?;
    Ok(shorter.map_or(text, |short| PyString::new(py, &short)))
}
