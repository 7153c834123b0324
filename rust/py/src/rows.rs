//! Rows of a session's log between Rust and Python, the figures of a store, and messages as a session shows them.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyString};
use siltstone_core::json::{Said, said};
use siltstone_core::memory::{
    self, Committed, CompactionBody, DerivedKind, Fact, Figures, Message, NewCompaction,
    NewDerived, NewFact, NewMessage, Recall, SessionVersion, Undone, Write,
};

use crate::record::{Cross, In, Many, Named};
use crate::text::Text;

/// `next_seq`, head, redactions and counter of a session's version.
pub(crate) type VersionRow = (i64, Option<i64>, i64, i64);
/// The id of the compaction, the ids of its derived texts, the ids of the entries, and the new version.
pub(crate) type CommittedOut = (i64, Vec<i64>, Vec<Option<i64>>, Option<VersionRow>);
/// id, namespace, state, key, body, `created_at`, `changed_at`.
pub(crate) type FactOut = (i64, String, String, String, String, i64, i64);

reads!(SessionVersion {
    next_seq: i64,
    head: Option<i64>,
    redactions: i64,
    counter: i64,
});

reads_tuple!(Write {
    expected: In<SessionVersion>,
    id: i64,
});

reads!(NewMessage {
    raw: Text,
    role: Text,
    dialect: Text,
    provenance: Text,
    tokens: i64,
    created_at: i64,
});

reads!(CompactionBody {
    policy: Text,
    reason: Text,
    state: Text,
    covers: Text,
    view: Text,
    next_seq: i64,
    model: Text,
    usage: Text,
    tokens_before: i64,
    tokens_after: i64,
    messages_before: i64,
    messages_after: i64,
    created_at: i64,
    notes: Text,
});

reads!(Recall {
    seq: i64,
    created_at: i64,
    body: Text,
});

reads!(NewDerived {
    kind: Named<DerivedKind>,
    raw: Text,
    covers: Text,
    seq: Option<i64>,
    level: i64,
    degraded: bool,
    dialect: Text,
});

reads_tuple!(NewFact {
    id: Option<i64>,
    key: Text,
    state: Text,
    body: Text,
    was: Option<Text>,
});

impl<'py> FromPyObject<'_, 'py> for In<NewCompaction> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let In(body) = object.extract()?;
        let Many(derived) = object.getattr("derived")?.extract()?;
        Ok(Self(NewCompaction { body, derived }))
    }
}

class! {
    /// A message as the log holds it.
    LogRow(row: memory::Message) {
        seq: i64 = row.seq,
        raw: String = row.message.raw,
        role: String = row.message.role,
        dialect: String = row.message.dialect,
        provenance: String = row.message.provenance,
        tokens: i64 = row.message.tokens,
        created_at: i64 = row.message.created_at,
        write_id: i64 = row.write_id,
    }
}

class! {
    /// A derived text as the log holds it.
    Derived(row: memory::Derived) {
        derived_id: i64 = row.id,
        kind: &'static str = row.text.kind.name(),
        raw: String = row.text.raw,
        covers: String = row.text.covers,
        seq: Option<i64> = row.text.seq,
        level: i64 = row.text.level,
        degraded: bool = row.text.degraded,
        redacted: bool = row.redacted,
        dialect: String = row.text.dialect,
        created_at: i64 = row.created_at,
    }
}

class! {
    /// A compaction as the log holds it.
    Compaction(row: memory::Compaction) {
        compaction_id: i64 = row.id,
        parent: Option<i64> = row.parent,
        derived_ids: Vec<i64> = row.derived,
        policy: String = row.body.policy,
        reason: String = row.body.reason,
        state: String = row.body.state,
        covers: String = row.body.covers,
        view: String = row.body.view,
        next_seq: i64 = row.body.next_seq,
        model: String = row.body.model,
        usage: String = row.body.usage,
        tokens_before: i64 = row.body.tokens_before,
        tokens_after: i64 = row.body.tokens_after,
        messages_before: i64 = row.body.messages_before,
        messages_after: i64 = row.body.messages_after,
        created_at: i64 = row.body.created_at,
        notes: String = row.body.notes,
    }
}

class! {
    /// The state of a session's log.
    LogState(row: memory::SessionRow) {
        version: VersionRow = row.version(),
        clock: String = row.clock,
        settings: String = row.settings,
        namespace: String = row.namespace,
        write_id: i64 = row.write_id,
        deleted: bool = row.dropped,
        title: String = row.title,
    }
}

class! {
    /// A session in a list.
    SessionRow(row: memory::SessionRow) {
        name: String = row.name,
        namespace: String = row.namespace,
        title: String = row.title,
        messages: i64 = row.next_seq,
        entries: i64 = row.entries,
        compactions: i64 = row.compactions,
        tokens: i64 = row.tokens,
        first_at: Option<i64> = row.first_at,
        last_at: Option<i64> = row.last_at,
    }
}

impl Cross<VersionRow> for SessionVersion {
    fn cross(self) -> VersionRow {
        (self.next_seq, self.head, self.redactions, self.counter)
    }
}

impl Cross<CommittedOut> for Committed {
    fn cross(self) -> CommittedOut {
        let (derived, entries) = (self.derived, self.entries.cross());
        (self.compaction, derived, entries, self.version.cross())
    }
}

impl Cross<(Option<i64>, i64, Option<VersionRow>)> for Undone {
    fn cross(self) -> (Option<i64>, i64, Option<VersionRow>) {
        (self.head, self.entries, self.version.cross())
    }
}

impl Cross<(i64, i64, String)> for Recall {
    fn cross(self) -> (i64, i64, String) {
        (self.seq, self.created_at, self.body)
    }
}

impl Cross<FactOut> for Fact {
    fn cross(self) -> FactOut {
        (
            self.id,
            self.namespace,
            self.state,
            self.key,
            self.body,
            self.created_at,
            self.changed_at,
        )
    }
}

pub(crate) fn figures_out<'py>(py: Python<'py>, figures: &Figures) -> PyResult<Bound<'py, PyDict>> {
    let counts = figures.counts;
    let stats = [
        ("sessions", counts.sessions),
        ("messages", counts.messages),
        ("entries", counts.entries),
        ("compactions", counts.compactions),
        ("text_bytes", counts.text_bytes),
        ("quarantined", figures.quarantined),
    ];
    let (stats, detail) = (stats.into_py_dict(py)?, PyDict::new(py));
    stats.set_item("disk_bytes", figures.disk_bytes)?;
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

// Messages of a log as a session shows them: those that are a role and a text are made here.

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
            None => Ok(Self::Row(row.cross())),
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
