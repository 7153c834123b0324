//! The functions `best_window`, `matching_lines` and `condense`, which shorten long texts.

use pyo3::prelude::*;
use pyo3::types::PyString;
use siltstone_core::condense::Earlier;
use siltstone_core::{analyse, condense as condensing, grep};

use crate::error::run_detached;
use crate::text::Text;

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
