//! Entries of a `Store`, batches of them, and what is told of them, as they cross the wall.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use siltstone_core::Result as CoreResult;
use siltstone_core::id::EntryId;
use siltstone_core::memory::{self, NewEntry, StagedEntry, Target};

use crate::rows::session_id;
use crate::text::Text;

/// The id of each entry, None for one that was not stored.
pub(crate) type Ids = Vec<Option<i64>>;

/// `siltstone.memory.convert.NewEntry`, read by its attributes.
#[derive(FromPyObject)]
pub(crate) struct EntryIn {
    content: Text,
    start: i64,
    end: i64,
    role: Text,
    name: Option<Text>,
    kind: Text,
    created_at: i64,
}

/// `siltstone.memory.forgetting.Target`, read by its attributes.
#[derive(FromPyObject)]
pub(crate) struct TargetIn {
    session_id: Text,
    messages: Vec<(i64, Text)>,
    entries: Vec<i64>,
    derived: Vec<(i64, Text)>,
    staged: Vec<i64>,
    facts: Vec<i64>,
    digests: Vec<(i64, PyBackedBytes)>,
    title: Text,
}

/// An entry as the store holds it.
#[pyclass(frozen, get_all, module = "siltstone._native")]
pub(crate) struct StoredEntry {
    entry_id: i64,
    session_id: String,
    content: String,
    start: i64,
    end: i64,
    role: String,
    name: Option<String>,
    kind: String,
    created_at: i64,
    repaired: bool,
}

/// A page of entries.
#[pyclass(frozen, get_all, module = "siltstone._native")]
pub(crate) struct Page {
    entries: Vec<Py<StoredEntry>>,
    next_offset: Option<i64>,
    damaged: Vec<i64>,
}

/// A batch that waits.
#[pyclass(frozen, get_all, module = "siltstone._native")]
pub(crate) struct Stage {
    token: String,
    session_id: String,
    fingerprint: String,
    entries: i64,
    created_at: i64,
}

/// Something that is not what it should be.
#[pyclass(frozen, get_all, module = "siltstone._native")]
pub(crate) struct Finding {
    code: &'static str,
    table: &'static str,
    id: Option<i64>,
    message: String,
    repaired: bool,
}

/// What was forgotten.
#[pyclass(frozen, get_all, module = "siltstone._native")]
pub(crate) struct Forgotten {
    sessions: i64,
    messages: i64,
    entries: i64,
    derived: i64,
    facts: i64,
    erased: bool,
}

pub(crate) fn entries_in(entries: Vec<EntryIn>) -> Vec<NewEntry> {
    let entries = entries.into_iter().map(|entry| NewEntry {
        repaired: entry.content.is_repaired(),
        text: entry.content.to_string(),
        start: entry.start,
        end: entry.end,
        role: entry.role.to_string(),
        name: entry.name.map(|name| name.to_string()),
        kind: entry.kind.to_string(),
        created_at: entry.created_at,
        ..NewEntry::default()
    });
    entries.collect()
}

pub(crate) fn targets_in(targets: Vec<TargetIn>) -> CoreResult<Vec<Target>> {
    let targets = targets.into_iter().map(|target| {
        let texts = |texts: Vec<(i64, Text)>| {
            let texts = texts.into_iter().map(|(id, raw)| (id, raw.to_string()));
            texts.collect()
        };
        let digests = target.digests.iter();
        Ok(Target {
            session: session_id(&target.session_id)?,
            messages: texts(target.messages),
            entries: target.entries,
            derived: texts(target.derived),
            staged: target.staged,
            facts: target.facts,
            digests: digests
                .map(|(seq, digest)| (*seq, digest.to_vec()))
                .collect(),
            title: target.title.to_string(),
        })
    });
    targets.collect()
}

pub(crate) fn ids_out(ids: &[Option<EntryId>]) -> Ids {
    ids.iter().map(|id| id.map(|id| id.0)).collect()
}

impl StoredEntry {
    fn new(entry_id: i64, session_id: String, entry: NewEntry) -> Self {
        Self {
            entry_id,
            session_id,
            content: entry.text,
            start: entry.start,
            end: entry.end,
            role: entry.role,
            name: entry.name,
            kind: entry.kind,
            created_at: entry.created_at,
            repaired: entry.repaired,
        }
    }

    pub(crate) fn stored(stored: memory::StoredEntry, session_id: String) -> Self {
        Self::new(stored.id.0, session_id, stored.entry)
    }

    /// An entry that waits, under the id it has there.
    pub(crate) fn staged(staged: StagedEntry, session_id: String) -> Self {
        Self::new(staged.id, session_id, staged.entry)
    }
}

impl Page {
    pub(crate) fn new(py: Python<'_>, page: memory::Page, session_id: &str) -> PyResult<Self> {
        let entries = page.entries.into_iter();
        let entries =
            entries.map(|stored| Py::new(py, StoredEntry::stored(stored, session_id.to_owned())));
        Ok(Self {
            entries: entries.collect::<PyResult<_>>()?,
            next_offset: page.next_offset,
            damaged: page.damaged.into_iter().map(|id| id.0).collect(),
        })
    }
}

impl From<(memory::Stage, String)> for Stage {
    fn from((stage, session_id): (memory::Stage, String)) -> Self {
        Self {
            token: stage.token,
            session_id,
            fingerprint: stage.fingerprint,
            entries: stage.held,
            created_at: stage.created_at,
        }
    }
}

impl From<(memory::Finding, bool)> for Finding {
    fn from((finding, repaired): (memory::Finding, bool)) -> Self {
        Self {
            code: finding.code,
            table: finding.table,
            id: finding.id,
            message: finding.message,
            repaired,
        }
    }
}

impl From<memory::Forgotten> for Forgotten {
    fn from(forgotten: memory::Forgotten) -> Self {
        Self {
            sessions: forgotten.sessions,
            messages: forgotten.messages,
            entries: forgotten.entries,
            derived: forgotten.derived,
            facts: forgotten.facts,
            erased: forgotten.erased,
        }
    }
}
