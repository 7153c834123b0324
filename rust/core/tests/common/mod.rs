//! What the tests of the store share.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod cached;

use siltstone_core::id::SessionId;
use siltstone_core::memory::{Expected, NewCompaction, NewEntry, NewMessage, SearchOptions, Store};

pub fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

/// An entry that came from no message: each one is another, whatever its text.
pub fn entry(text: &str) -> NewEntry {
    NewEntry {
        text: text.to_owned(),
        repaired: false,
        start: 0,
        end: 0,
        role: "user".to_owned(),
        name: None,
        kind: "message".to_owned(),
        created_at: 1_700_000_000_000,
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
    NewCompaction {
        policy: "threshold".to_owned(),
        reason: "input_tokens".to_owned(),
        level: 1,
        summary: summary.to_owned(),
        covers: "[[0, 1]]".to_owned(),
        view: "[null]".to_owned(),
        next_seq,
        usage: "[]".to_owned(),
        ..NewCompaction::default()
    }
}

/// What a writer that stands on `head` expects.
pub fn on(head: Option<i64>) -> Expected {
    Expected {
        head,
        ..Expected::default()
    }
}

/// Ids and texts of the hits.
pub fn found(store: &Store, name: &str, query: &str) -> Vec<(i64, String)> {
    let options = SearchOptions {
        limit: 1_000,
        ..SearchOptions::default()
    };
    let hits = store.search(&session(name), query, &options).unwrap();
    hits.into_iter()
        .map(|hit| (hit.stored.id.0, hit.stored.entry.text))
        .collect()
}
