//! Rows of a session's log as they cross the wall, and the figures of a store.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use siltstone_core::id::SessionId;
use siltstone_core::memory::{Compaction, Figures, Message, NewCompaction, NewMessage};
use siltstone_core::{Error, ErrorKind, Result as CoreResult};

use crate::text::Text;

/// raw, role, dialect, provenance, tokens, `created_at`.
pub(crate) type MessageIn = (Text, Text, Text, Text, i64, i64);
/// seq, and then as it came in.
pub(crate) type MessageOut = (i64, String, String, String, String, i64, i64);
/// A session id is a key: it is refused where it would have to be repaired, for two might become one.
pub(crate) fn session_id(text: &Text) -> CoreResult<SessionId> {
    if text.is_repaired() {
        let message = "a session id must not hold lone surrogates";
        return Err(Error::new(ErrorKind::InvalidEntry, message));
    }
    SessionId::new(text)
}

pub(crate) fn message_in(row: MessageIn) -> NewMessage {
    let (raw, role, dialect, provenance, tokens, created_at) = row;
    NewMessage {
        raw: raw.to_string(),
        role: role.to_string(),
        dialect: dialect.to_string(),
        provenance: provenance.to_string(),
        tokens,
        created_at,
    }
}

pub(crate) fn message_out(row: Message) -> MessageOut {
    let Message { seq, message } = row;
    let NewMessage {
        raw,
        role,
        dialect,
        provenance,
        tokens,
        created_at,
    } = message;
    (seq, raw, role, dialect, provenance, tokens, created_at)
}

pub(crate) fn figures_out<'py>(py: Python<'py>, figures: &Figures) -> PyResult<Bound<'py, PyDict>> {
    let (counts, stats) = (figures.counts, PyDict::new(py));
    stats.set_item("sessions", counts.sessions)?;
    stats.set_item("messages", counts.messages)?;
    stats.set_item("entries", counts.entries)?;
    stats.set_item("compactions", counts.compactions)?;
    stats.set_item("text_bytes", counts.text_bytes)?;
    stats.set_item("staged", counts.staged)?;
    stats.set_item("quarantined", figures.quarantined)?;
    stats.set_item("disk_bytes", figures.disk_bytes)?;
    let detail = PyDict::new(py);
    if let Some(sizes) = figures.index {
        detail.set_item("index", "exact")?;
        detail.set_item("words", sizes.words)?;
        detail.set_item("terms", sizes.terms)?;
        detail.set_item("term_postings", sizes.term_postings)?;
        detail.set_item("bucket_postings", sizes.bucket_postings)?;
        detail.set_item("cached", sizes.cached)?;
    }
    stats.set_item("detail", detail)?;
    Ok(stats)
}

pub(crate) fn compaction_in(row: &Bound<'_, PyTuple>) -> PyResult<NewCompaction> {
    let text =
        |place| -> PyResult<String> { Ok(row.get_item(place)?.extract::<Text>()?.to_string()) };
    let integer = |place| -> PyResult<i64> { row.get_item(place)?.extract() };
    Ok(NewCompaction {
        policy: text(0)?,
        reason: text(1)?,
        level: integer(2)?,
        degraded: row.get_item(3)?.extract()?,
        summary: text(4)?,
        covers: text(5)?,
        view: text(6)?,
        next_seq: integer(7)?,
        model: text(8)?,
        usage: text(9)?,
        tokens_before: integer(10)?,
        tokens_after: integer(11)?,
        messages_before: integer(12)?,
        messages_after: integer(13)?,
        created_at: integer(14)?,
    })
}

/// id, parent, and then as it came in; at the end whether its summary was forgotten.
pub(crate) fn compaction_out(py: Python<'_>, row: Compaction) -> PyResult<Bound<'_, PyTuple>> {
    let Compaction {
        id,
        parent,
        redacted,
        compaction: new,
        ..
    } = row;
    let head = (
        id,
        parent,
        new.policy,
        new.reason,
        new.level,
        new.degraded,
        new.summary,
    );
    let texts = (new.covers, new.view, new.next_seq, new.model, new.usage);
    let counts = (
        new.tokens_before,
        new.tokens_after,
        new.messages_before,
        new.messages_after,
        new.created_at,
        redacted,
    );
    let parts = (
        head.into_pyobject(py)?,
        texts.into_pyobject(py)?,
        counts.into_pyobject(py)?,
    );
    let joined = parts.0.add(parts.1)?.add(parts.2)?;
    Ok(joined.cast_into::<PyTuple>()?)
}
