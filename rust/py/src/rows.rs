//! Rows of a session's log as they cross the wall, and the figures of a store.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use siltstone_core::id::SessionId;
use siltstone_core::memory::{
    Compaction, CompactionBody, Derived, DerivedKind, Fact, Figures, LogState, Message, NewDerived,
    NewFact, NewMessage, SessionFigures, SessionVersion,
};
use siltstone_core::{Error, ErrorKind, Result as CoreResult};

use crate::text::Text;

/// raw, role, dialect, provenance, tokens, `created_at`.
pub(crate) type MessageIn = (Text, Text, Text, Text, i64, i64);
/// seq, as it came in, and then `write_id`.
pub(crate) type MessageOut = (i64, String, String, String, String, i64, i64, i64);
/// `next_seq`, head, redactions, counter.
pub(crate) type VersionRow = (i64, Option<i64>, i64, i64);

/// `siltstone.memory.log.SessionVersion`, read by its attributes.
#[derive(FromPyObject)]
pub(crate) struct VersionIn {
    next_seq: i64,
    head: Option<i64>,
    redactions: i64,
    counter: i64,
}

/// version, clock, settings, namespace, `write_id`, deleted, title.
pub(crate) type StateOut = (VersionRow, String, String, String, i64, bool, String);
/// kind, raw, covers, seq, level, degraded, dialect.
pub(crate) type DerivedIn = (Text, Text, Text, Option<i64>, i64, bool, Text);
/// id, kind, raw, covers, seq, level, degraded, redacted, dialect, `created_at`.
pub(crate) type DerivedOut = (
    i64,
    &'static str,
    String,
    String,
    Option<i64>,
    i64,
    bool,
    bool,
    String,
    i64,
);
/// session, namespace, title, messages, entries, compactions, tokens, `first_at`, `last_at`.
pub(crate) type SessionOut = (
    String,
    String,
    String,
    i64,
    i64,
    i64,
    i64,
    Option<i64>,
    Option<i64>,
);
/// id, key, state, body.
pub(crate) type FactIn = (Option<i64>, Text, Text, Text, Option<Text>);
/// id, namespace, state, key, body, `created_at`, `changed_at`.
pub(crate) type FactOut = (i64, String, String, String, String, i64, i64);
/// An entry without vectors: id, content, role, name.
pub(crate) type MissingOut = (i64, String, String, Option<String>);
/// A session id is a key: it is refused where it would have to be repaired, for two might become one.
pub(crate) fn session_id(text: &Text) -> CoreResult<SessionId> {
    if text.is_repaired() {
        let message = "a session id must not hold lone surrogates";
        return Err(Error::new(ErrorKind::InvalidEntry, message));
    }
    SessionId::new(text)
}

/// A namespace is a key, too.
pub(crate) fn namespace_in(text: &Text) -> CoreResult<&str> {
    if !text.is_empty() {
        session_id(text)?;
    }
    Ok(text)
}

pub(crate) fn session_out(row: SessionFigures) -> SessionOut {
    (
        row.session,
        row.namespace,
        row.title,
        row.messages,
        row.entries,
        row.compactions,
        row.tokens,
        row.first_at,
        row.last_at,
    )
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
    let Message {
        seq,
        write_id,
        message,
    } = row;
    let NewMessage {
        raw,
        role,
        dialect,
        provenance,
        tokens,
        created_at,
    } = message;
    (
        seq, raw, role, dialect, provenance, tokens, created_at, write_id,
    )
}

pub(crate) fn version_in(version: &VersionIn) -> SessionVersion {
    SessionVersion {
        next_seq: version.next_seq,
        head: version.head,
        redactions: version.redactions,
        counter: version.counter,
    }
}

pub(crate) fn version_out(version: SessionVersion) -> VersionRow {
    let SessionVersion {
        next_seq,
        head,
        redactions,
        counter,
    } = version;
    (next_seq, head, redactions, counter)
}

pub(crate) fn state_out(state: LogState) -> StateOut {
    let LogState {
        version,
        clock,
        settings,
        namespace,
        write_id,
        deleted,
        title,
    } = state;
    let version = version_out(version);
    (
        version, clock, settings, namespace, write_id, deleted, title,
    )
}

pub(crate) fn derived_in(row: DerivedIn) -> CoreResult<NewDerived> {
    let (kind, raw, covers, seq, level, degraded, dialect) = row;
    Ok(NewDerived {
        kind: DerivedKind::of(&kind)?,
        seq,
        level,
        degraded,
        covers: covers.to_string(),
        raw: raw.to_string(),
        dialect: dialect.to_string(),
    })
}

pub(crate) fn derived_out(row: Derived) -> DerivedOut {
    let NewDerived {
        kind,
        seq,
        level,
        degraded,
        covers,
        raw,
        dialect,
    } = row.text;
    (
        row.id,
        kind.name(),
        raw,
        covers,
        seq,
        level,
        degraded,
        row.redacted,
        dialect,
        row.created_at,
    )
}

pub(crate) fn fact_in((id, key, state, body, was): FactIn) -> NewFact {
    NewFact {
        id,
        key: key.to_string(),
        state: state.to_string(),
        body: body.to_string(),
        was: was.map(|was| was.to_string()),
    }
}

pub(crate) fn fact_out(fact: Fact) -> FactOut {
    (
        fact.id,
        fact.namespace,
        fact.state,
        fact.key,
        fact.body,
        fact.created_at,
        fact.changed_at,
    )
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

pub(crate) fn compaction_in(row: &Bound<'_, PyTuple>) -> PyResult<CompactionBody> {
    let text =
        |place| -> PyResult<String> { Ok(row.get_item(place)?.extract::<Text>()?.to_string()) };
    let integer = |place| -> PyResult<i64> { row.get_item(place)?.extract() };
    Ok(CompactionBody {
        policy: text(0)?,
        reason: text(1)?,
        state: text(2)?,
        covers: text(3)?,
        view: text(4)?,
        next_seq: integer(5)?,
        model: text(6)?,
        usage: text(7)?,
        tokens_before: integer(8)?,
        tokens_after: integer(9)?,
        messages_before: integer(10)?,
        messages_after: integer(11)?,
        created_at: integer(12)?,
    })
}

/// id, parent, ids of the derived texts that it brought, and then as it came in.
pub(crate) fn compaction_out(py: Python<'_>, row: Compaction) -> PyResult<Bound<'_, PyTuple>> {
    let body = row.body;
    let head = (row.id, row.parent, row.derived);
    let texts = (
        body.policy,
        body.reason,
        body.state,
        body.covers,
        body.view,
        body.next_seq,
        body.model,
        body.usage,
    );
    let counts = (
        body.tokens_before,
        body.tokens_after,
        body.messages_before,
        body.messages_after,
        body.created_at,
    );
    let parts = (
        head.into_pyobject(py)?,
        texts.into_pyobject(py)?,
        counts.into_pyobject(py)?,
    );
    let joined = parts.0.add(parts.1)?.add(parts.2)?;
    Ok(joined.cast_into::<PyTuple>()?)
}

pub(crate) fn compactions_out(
    py: Python<'_>,
    rows: Vec<Compaction>,
) -> PyResult<Vec<Bound<'_, PyTuple>>> {
    let rows = rows.into_iter();
    rows.map(|row| compaction_out(py, row)).collect()
}
