//! The functions `text_size` and `text_sizes`, whose results token estimates are computed from.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use siltstone_core::tokens::TextSize;

use crate::error::guard_attached;
use crate::text::{map_strings, with_bytes};

/// The bytes of UTF-8 and the code points of a text.
#[pyfunction]
pub(crate) fn text_size(text: &Bound<'_, PyString>) -> PyResult<(usize, usize)> {
    guard_attached(text.py(), || size(text))
}

/// The bytes of UTF-8 and the code points of each text.
#[pyfunction]
pub(crate) fn text_sizes(texts: &Bound<'_, PyList>) -> PyResult<Vec<(usize, usize)>> {
    guard_attached(texts.py(), || map_strings(texts, size))
}

fn size(text: &Bound<'_, PyString>) -> PyResult<(usize, usize)> {
    let size = with_bytes(text, TextSize::of)?;
    Ok((size.bytes, size.code_points))
}
