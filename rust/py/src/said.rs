//! Messages of a log as a session shows them: those that are a role and a text are made here.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use siltstone_core::json::{Said, said};
use siltstone_core::memory::Message;

use crate::rows::LogRow;

/// The number, the role, the text, the message and its time, of a message that is a role and a text.
type SaidOut<'py> = (
    i64,
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    Bound<'py, PyDict>,
    i64,
);

/// A message of a log: a row for one that only Python reads.
#[derive(IntoPyObject)]
pub(crate) enum Shown<'py> {
    Said(SaidOut<'py>),
    Row(LogRow),
}

impl<'py> Shown<'py> {
    pub(crate) fn of(py: Python<'py>, row: Message) -> PyResult<Self> {
        let message = &row.message;
        let found = said(&message.raw).filter(|said| {
            message.provenance == "original"
                && message.dialect == "any"
                && message.role == said.role
        });
        match found {
            Some(said) => made(py, &said, row.seq, message.created_at).map(Self::Said),
            None => Ok(Self::Row(row.into())),
        }
    }
}

fn made<'py>(
    py: Python<'py>,
    said: &Said<'_>,
    seq: i64,
    created_at: i64,
) -> PyResult<SaidOut<'py>> {
    let role = match said.role {
        "user" => intern!(py, "user"),
        "assistant" => intern!(py, "assistant"),
        _ => intern!(py, "system"),
    };
    let (text, raw) = (PyString::new(py, &said.text), PyDict::new(py));
    if said.is_role_first {
        raw.set_item(intern!(py, "role"), role)?;
    }
    raw.set_item(intern!(py, "content"), &text)?;
    if !said.is_role_first {
        raw.set_item(intern!(py, "role"), role)?;
    }
    Ok((seq, role.clone(), text, raw, created_at))
}
