//! Helpers that the tests of the store share.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod cached;

use siltstone_core::id::SessionId;
use siltstone_core::memory::{
    Append, CompactionBody, NewCompaction, NewDerived, NewEntry, NewMessage, SearchOptions,
    SessionVersion, Store, Write,
};

pub fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

/// An entry that came from no message: each one is another, whatever its text.
pub fn entry(text: &str) -> NewEntry {
    NewEntry {
        text: text.to_owned(),
        role: "user".to_owned(),
        kind: "message".to_owned(),
        created_at: 1_700_000_000_000,
        ..NewEntry::default()
    }
}

pub fn message(raw: &str) -> NewMessage {
    NewMessage {
        raw: raw.to_owned(),
        role: "user".to_owned(),
        dialect: "any".to_owned(),
        provenance: "original".to_owned(),
        tokens: 3,
        created_at: 1_700_000_000_000,
    }
}

pub fn compaction(summary: &str, next_seq: i64) -> NewCompaction {
    let body = CompactionBody {
        policy: "threshold".to_owned(),
        reason: "input_tokens".to_owned(),
        covers: "[[0, 1]]".to_owned(),
        view: "[-1]".to_owned(),
        next_seq,
        usage: "[]".to_owned(),
        ..CompactionBody::default()
    };
    let text = NewDerived {
        level: 1,
        covers: "[[0, 1]]".to_owned(),
        raw: summary.to_owned(),
        ..NewDerived::default()
    };
    NewCompaction {
        body,
        derived: vec![text],
    }
}

/// A write by who has just read the session.
pub fn now(store: &Store, name: &str) -> Write {
    on(store.version(&session(name)).unwrap().unwrap_or_default())
}

/// A write by who stands on that version.
pub fn on(expected: SessionVersion) -> Write {
    Write { expected, id: 7 }
}

/// Appends to the session as it is now; its version then.
pub fn append(store: &Store, name: &str, messages: &[NewMessage], clock: &str) -> SessionVersion {
    let new = Append {
        messages,
        clock,
        ..Append::default()
    };
    let version = store.append(&session(name), now(store, name), new);
    version.unwrap().unwrap()
}

/// Compacts the session as it is now; the compaction's id.
pub fn commit(store: &Store, name: &str, row: &NewCompaction, entries: &[NewEntry]) -> i64 {
    let write = now(store, name);
    let append = Append {
        clock: "c",
        ..Append::default()
    };
    let done = store.append_compacted(&session(name), write, append, row, entries);
    done.unwrap().compaction
}

/// Ids and texts of the hits.
pub fn found(store: &Store, name: &str, query: &str) -> Vec<(i64, String)> {
    let options = SearchOptions {
        limit: 1_000,
        ..SearchOptions::default()
    };
    let found = store.find(&session(name), query, None, &options).unwrap();
    found
        .hits
        .into_iter()
        .map(|hit| (hit.stored.id.0, hit.stored.entry.text))
        .collect()
}
