//! What crosses the wall as a tuple, and what it is on the other side.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use siltstone_core::id::{EntryId, SessionId};
use siltstone_core::memory::{
    Compaction, Figures, Finding, Message, NewCompaction, NewEntry, NewMessage, Stage, StagedEntry,
    StoredEntry, Target,
};
use siltstone_core::{Error, ErrorKind, Result as CoreResult};

use crate::text::Text;

/// raw, role, dialect, provenance, tokens, `created_at`.
pub(crate) type MessageIn = (Text, Text, Text, Text, i64, i64);
/// seq, and then as it came in.
pub(crate) type MessageOut = (i64, String, String, String, String, i64, i64);
/// text, start, end, role, name, kind, `created_at`.
pub(crate) type EntryIn = (Text, i64, i64, Text, Option<Text>, Text, i64);
/// id, session, text, start, end, role, name, kind, `created_at`, repaired.
pub(crate) type EntryOut = (
    i64,
    String,
    String,
    i64,
    i64,
    String,
    Option<String>,
    String,
    i64,
    bool,
);
/// id, text, start, end, role, name, kind, `created_at`, repaired, score, explain.
pub(crate) type HitOut<'py> = (
    i64,
    String,
    i64,
    i64,
    String,
    Option<String>,
    String,
    i64,
    bool,
    f64,
    Option<Bound<'py, PyDict>>,
);
/// hits, the ranker that ranked them, entries without vectors.
pub(crate) type FoundOut<'py> = (Vec<HitOut<'py>>, &'static str, usize);
/// id, text, role, name of an entry without vectors.
pub(crate) type MissingOut = (i64, String, String, Option<String>);
/// session, (seq, raw) of messages, entries, compactions, entries that wait.
pub(crate) type TargetIn = (Text, Vec<(i64, Text)>, Vec<i64>, Vec<i64>, Vec<i64>);
/// token, session, fingerprint, how many entries, `created_at`.
pub(crate) type StageOut = (String, String, String, i64, i64);
/// code, table, id, message.
pub(crate) type FindingOut = (&'static str, &'static str, Option<i64>, String);
pub(crate) type Ids = Vec<Option<i64>>;

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

pub(crate) fn entry_in(row: EntryIn) -> NewEntry {
    let (text, start, end, role, name, kind, created_at) = row;
    NewEntry {
        repaired: text.is_repaired(),
        text: text.to_string(),
        start,
        end,
        role: role.to_string(),
        name: name.map(|name| name.to_string()),
        kind: kind.to_string(),
        created_at,
    }
}

pub(crate) fn entry_out(stored: StoredEntry, session: String) -> EntryOut {
    let NewEntry {
        text,
        repaired,
        start,
        end,
        role,
        name,
        kind,
        created_at,
    } = stored.entry;
    (
        stored.id.0,
        session,
        text,
        start,
        end,
        role,
        name,
        kind,
        created_at,
        repaired,
    )
}

pub(crate) fn target_in(row: TargetIn) -> CoreResult<Target> {
    let (session, messages, entries, summaries, staged) = row;
    let messages = messages.into_iter();
    Ok(Target {
        session: session_id(&session)?,
        messages: messages.map(|(seq, raw)| (seq, raw.to_string())).collect(),
        entries,
        summaries,
        staged,
    })
}

pub(crate) fn stage_out((stage, session): (Stage, String)) -> StageOut {
    let Stage {
        token,
        fingerprint,
        held,
        created_at,
        ..
    } = stage;
    (token, session, fingerprint, held, created_at)
}

/// An entry that waits, under the id it has there.
pub(crate) fn staged_out(staged: StagedEntry, session: String) -> EntryOut {
    let NewEntry {
        text,
        repaired,
        start,
        end,
        role,
        name,
        kind,
        created_at,
    } = staged.entry;
    (
        staged.id, session, text, start, end, role, name, kind, created_at, repaired,
    )
}

pub(crate) fn finding_out(finding: Finding) -> FindingOut {
    (finding.code, finding.table, finding.id, finding.message)
}

pub(crate) fn ids_out(ids: &[Option<EntryId>]) -> Ids {
    ids.iter().map(|id| id.map(|id| id.0)).collect()
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
