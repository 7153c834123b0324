//! The text of messages for a summariser. The core stops at a message that it cannot read.

use pyo3::prelude::*;
use pyo3::types::PyList;
use siltstone_core::outline::Rendering;

use super::history::measure_in;
use super::value::Plain;
use crate::error::guard_attached;

/// The lines of the messages from `start` to `end`, up to the first that the core cannot read; and the position where
/// it stopped.
#[pyfunction]
pub(crate) fn render_messages(
    raws: &Bound<'_, PyList>,
    start: usize,
    end: usize,
) -> PyResult<(String, usize)> {
    guard_attached(raws.py(), || {
        let mut rendering = Rendering::default();
        for position in start..end.min(raws.len()) {
            let raw = Plain(raws.get_item(position)?);
            if rendering.show(&raw).is_none() {
                return Ok((rendering.into_text(), position));
            }
        }
        Ok((rendering.into_text(), end))
    })
}

/// The units of the lines of each message from `start` to `end`, line breaks included, up to the first that
/// the core cannot read; and the position where it stopped.
#[pyfunction]
pub(crate) fn rendered_tokens(
    raws: &Bound<'_, PyList>,
    start: usize,
    end: usize,
    measure: &str,
) -> PyResult<(Vec<usize>, usize)> {
    guard_attached(raws.py(), || {
        let measure = measure_in(measure)?;
        let (mut rendering, mut counts) = (Rendering::default(), Vec::new());
        for position in start..end.min(raws.len()) {
            rendering.clear();
            if rendering.show(&Plain(raws.get_item(position)?)).is_none() {
                return Ok((counts, position));
            }
            counts.push(rendering.units(measure));
        }
        Ok((counts, end))
    })
}
