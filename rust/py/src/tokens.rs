//! The function `text_size`, whose result token estimates are computed from.

use pyo3::prelude::*;
use pyo3::types::PyString;
use siltstone_core::tokens::TextSize;

use crate::error::run_attached;
use crate::text::with_bytes;

/// The bytes of UTF-8 and the code points of a text.
#[pyfunction]
pub(crate) fn text_size(text: &Bound<'_, PyString>) -> PyResult<(usize, usize)> {
    run_attached(text.py(), || {
        let size = with_bytes(text, TextSize::of)?;
        Ok((size.bytes, size.code_points))
    })
}
