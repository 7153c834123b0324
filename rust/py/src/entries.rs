//! Entries of a `Store`, their batches and reports about them, between Rust and Python.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use siltstone_core::Result as CoreResult;
use siltstone_core::id::EntryId;
use siltstone_core::memory::{self, NewEntry, Target};

use crate::record::In;
use crate::text::{Text, session_id};

/// The id of each entry; None for an entry that was not stored.
pub(crate) type Ids = Vec<Option<i64>>;

/// The fields of `siltstone.memory.convert.NewEntry`, in their order.
type EntryIn = (Text, i64, i64, Text, Option<Text>, Text, i64, Option<i64>);

impl<'py> FromPyObject<'_, 'py> for In<NewEntry> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (text, start, end, role, name, kind, created_at, expires_at): EntryIn =
            object.extract()?;
        Ok(Self(NewEntry {
            repaired: text.is_repaired(),
            text: text.into(),
            start,
            end,
            role: role.into(),
            name: name.map(String::from),
            kind: kind.into(),
            created_at,
            expires_at,
        }))
    }
}

/// `siltstone.memory.forgetting.Target`, read by its attributes.
#[derive(FromPyObject)]
pub(crate) struct TargetIn {
    session_id: Text,
    messages: Vec<(i64, Text)>,
    entries: Vec<i64>,
    derived: Vec<(i64, Text)>,
    facts: Vec<i64>,
    digests: Vec<(i64, PyBackedBytes)>,
    title: Text,
}

class! {
    /// An entry as the store holds it, and the id of its session.
    StoredEntry(held: (i64, String, NewEntry, Option<i64>)) {
        entry_id: i64 = held.0,
        session_id: String = held.1,
        content: String = held.2.text,
        start: i64 = held.2.start,
        end: i64 = held.2.end,
        role: String = held.2.role,
        name: Option<String> = held.2.name,
        kind: String = held.2.kind,
        created_at: i64 = held.2.created_at,
        repaired: bool = held.2.repaired,
        expires_at: Option<i64> = held.2.expires_at,
        compaction: Option<i64> = held.3,
    }
}

class! {
    /// A fault of the store, and whether it is repaired.
    Finding(found: (memory::Finding, bool)) {
        code: &'static str = found.0.code,
        table: &'static str = found.0.table,
        id: Option<i64> = found.0.id,
        message: String = found.0.message,
        repaired: bool = found.1,
    }
}

class! {
    /// The numbers of forgotten things.
    Forgotten(forgotten: memory::Forgotten) {
        sessions: i64 = forgotten.sessions,
        messages: i64 = forgotten.messages,
        entries: i64 = forgotten.entries,
        derived: i64 = forgotten.derived,
        facts: i64 = forgotten.facts,
        erased: bool = forgotten.erased,
    }
}

/// A page of entries.
#[pyclass(frozen, get_all, module = "siltstone._native")]
pub(crate) struct Page {
    entries: Vec<Py<StoredEntry>>,
    next_offset: Option<i64>,
    damaged: Vec<i64>,
}

impl Page {
    /// The page. With `now`, entries that have expired by then are left out.
    pub(crate) fn new(
        py: Python<'_>,
        page: memory::Page,
        session_id: &str,
        now: Option<i64>,
    ) -> PyResult<Self> {
        let is_gone =
            |each: &memory::StoredEntry| now.is_some_and(|now| each.entry.is_expired(now));
        let entries = page.entries.into_iter().filter(|each| !is_gone(each));
        let entries = entries.map(|stored| {
            let held = (stored.id.0, session_id.to_owned());
            Py::new(
                py,
                StoredEntry::from((held.0, held.1, stored.entry, stored.compaction)),
            )
        });
        Ok(Self {
            entries: entries.collect::<PyResult<_>>()?,
            next_offset: page.next_offset,
            damaged: page.damaged.into_iter().map(|id| id.0).collect(),
        })
    }
}

impl TargetIn {
    /// The target for the core. Refuses a session id that is out of bounds.
    pub(crate) fn checked(self) -> CoreResult<Target> {
        let texts = |texts: Vec<(i64, Text)>| {
            let texts = texts.into_iter().map(|(id, raw)| (id, raw.into()));
            texts.collect()
        };
        let digests = self.digests.iter();
        Ok(Target {
            session: session_id(&self.session_id)?,
            messages: texts(self.messages),
            entries: self.entries,
            derived: texts(self.derived),
            facts: self.facts,
            digests: digests
                .map(|(seq, digest)| (*seq, digest.to_vec()))
                .collect(),
            title: self.title.into(),
        })
    }
}

pub(crate) fn ids_out(ids: &[Option<EntryId>]) -> Ids {
    ids.iter().map(|id| id.map(|id| id.0)).collect()
}
