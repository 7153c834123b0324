//! `best_window` and `matching_lines`: how much of a long text is shown, and which of its lines.

#![expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]

use pyo3::prelude::*;
use siltstone_core::{analyse, grep};

use crate::error::guard;
use crate::text::Text;

/// Where the best stretch of `text` for `query` begins and ends, in code points.
#[pyfunction]
pub(crate) fn best_window(
    py: Python<'_>,
    text: Text,
    query: Text,
    size: usize,
) -> PyResult<(usize, usize)> {
    guard(py, || {
        let window = analyse::best_window(&text, &query, size);
        let start = text[..window.start].chars().count();
        Ok((start, start + text[window].chars().count()))
    })
}

/// The numbers of the lines of `text` that `pattern` matches somewhere, from 0; lines end at line feeds.
#[pyfunction]
pub(crate) fn matching_lines(py: Python<'_>, text: Text, pattern: Text) -> PyResult<Vec<usize>> {
    guard(py, || grep::matching_lines(&text, &pattern))
}
