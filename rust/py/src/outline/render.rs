//! The text of messages for a summariser. The core stops at a message that it cannot read.

use pyo3::prelude::*;
use pyo3::types::PyList;
use siltstone_core::outline::{Item, ItemKind, Rendering, each_item, weighed};

use super::history::measure_in;
use super::value::Plain;
use crate::error::run_attached;
use crate::interpreter;
use crate::tokenize::family_of;

/// The lines of the messages from `start` to `end`, up to the first that the core cannot read; and the position where
/// it stopped.
#[pyfunction]
pub(crate) fn render_messages(
    raws: &Bound<'_, PyList>,
    start: usize,
    end: usize,
) -> PyResult<(String, usize)> {
    run_attached(raws.py(), || {
        let mut rendering = Rendering::default();
        for position in start..end.min(raws.len()) {
            interpreter::at_step(raws.py(), position)?;
            let raw = Plain(raws.get_item(position)?);
            if rendering.show(&raw).is_none() {
                return Ok((rendering.into_text(), position));
            }
        }
        Ok((rendering.into_text(), end))
    })
}

/// Position, kind, role, call id, name, text, and whether the call failed.
type ItemRow = (
    usize,
    &'static str,
    Option<String>,
    Option<String>,
    Option<String>,
    String,
    bool,
);

/// The items of the messages from `start` to `end`, up to the first that the core cannot read; and the position where
/// it stopped.
#[pyfunction]
pub(crate) fn message_items(
    raws: &Bound<'_, PyList>,
    start: usize,
    end: usize,
) -> PyResult<(Vec<ItemRow>, usize)> {
    run_attached(raws.py(), || {
        let mut items = Vec::new();
        for position in start..end.min(raws.len()) {
            interpreter::at_step(raws.py(), position)?;
            let (raw, before) = (Plain(raws.get_item(position)?), items.len());
            let shown = each_item(&raw, &mut |item| items.push(row_of(position, item)));
            if shown.is_none() {
                items.truncate(before);
                return Ok((items, position));
            }
        }
        Ok((items, end))
    })
}

fn row_of(position: usize, item: Item<'_>) -> ItemRow {
    let (kind, failed) = match item.kind {
        ItemKind::Text => ("text", false),
        ItemKind::Call => ("tool_call", false),
        ItemKind::Result { failed } => ("tool_result", failed),
    };
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let (role, id, name) = (owned(item.role), owned(item.call_id), owned(item.name));
    (position, kind, role, id, name, item.text.to_owned(), failed)
}

/// The tokens of each message by the weights of its characters; none where the core cannot read it.
#[pyfunction]
#[pyo3(signature = (messages, rule = "weights"))]
pub(crate) fn message_tokens(
    messages: &Bound<'_, PyList>,
    rule: &str,
) -> PyResult<Vec<Option<usize>>> {
    run_attached(messages.py(), || {
        let (family, mut counts) = (family_of(rule)?, Vec::with_capacity(messages.len()));
        for (position, raw) in messages.iter().enumerate() {
            interpreter::at_step(messages.py(), position)?;
            counts.push(weighed(&Plain(raw), family));
        }
        Ok(counts)
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
    run_attached(raws.py(), || {
        let measure = measure_in(measure)?;
        let (mut rendering, mut counts) = (Rendering::default(), Vec::new());
        for position in start..end.min(raws.len()) {
            interpreter::at_step(raws.py(), position)?;
            rendering.clear();
            if rendering.show(&Plain(raws.get_item(position)?)).is_none() {
                return Ok((counts, position));
            }
            counts.push(rendering.units(measure));
        }
        Ok((counts, end))
    })
}
