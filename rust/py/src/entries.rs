//! Entries of a `Store`, their batches and reports about them, between Rust and Python.

use pyo3::prelude::*;
use siltstone_core::id::SessionId;
use siltstone_core::memory::{self, NewEntry, Target};

use crate::record::{Cross, In};
use crate::text::Text;

/// The fields of `siltstone.memory.convert.NewEntry`, in their order.
type EntryIn = (Text, i64, i64, Text, Option<Text>, Text, i64, Option<i64>);
/// A page of entries: the entries, the offset of the next page, and the ids of damaged entries.
pub(crate) type PageOut = (Vec<StoredEntry>, Option<i64>, Vec<i64>);
/// An entry without vectors: id, content, role and name.
pub(crate) type MissingOut = (i64, String, String, Option<String>);

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
            name: name.cross(),
            kind: kind.into(),
            created_at,
            expires_at,
        }))
    }
}

reads_tuple!(Target {
    session: In<SessionId>,
    messages: Vec<(i64, Text)>,
    entries: Vec<i64>,
    derived: Vec<(i64, Text)>,
    facts: Vec<i64>,
    digests: Vec<(i64, Vec<u8>)>,
    title: Text,
});

class! {
    /// An entry as the store holds it, and the id of its session.
    StoredEntry(held: (memory::StoredEntry, String)) {
        entry_id: i64 = held.0.id,
        session_id: String = held.1,
        content: String = held.0.entry.text,
        start: i64 = held.0.entry.start,
        end: i64 = held.0.entry.end,
        role: String = held.0.entry.role,
        name: Option<String> = held.0.entry.name,
        kind: String = held.0.entry.kind,
        created_at: i64 = held.0.entry.created_at,
        repaired: bool = held.0.entry.repaired,
        expires_at: Option<i64> = held.0.entry.expires_at,
        compaction: Option<i64> = held.0.compaction,
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

impl Cross<PageOut> for (memory::Page, &SessionId) {
    fn cross(self) -> PageOut {
        let (page, session) = self;
        let entries = page.entries.into_iter();
        let entries = entries.map(|entry| (entry, session.to_string()).cross());
        (entries.collect(), page.next_offset, page.damaged.cross())
    }
}

impl Cross<MissingOut> for memory::StoredEntry {
    fn cross(self) -> MissingOut {
        let NewEntry {
            text, role, name, ..
        } = self.entry;
        (self.id.0, text, role, name)
    }
}
