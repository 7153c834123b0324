//! Stores whose sessions are worth a cache.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use siltstone_core::memory::{Handle, NewEntry, Ranker, SearchOptions, Store, Target};

use super::{entry, session};

/// Entries of the sessions here: more than the fewest that are worth a cache.
pub const MANY: i64 = 600;
const QUERIES: [&str; 4] = [
    "where does silt settle?",
    "river 17 and kettle",
    "stone stones delta",
    "number 599",
];

/// A text of a few of 20 words, by its number.
pub fn text(number: i64) -> String {
    const WORDS: [&str; 20] = [
        "silt", "river", "kettle", "delta", "stone", "water", "slow", "garden", "moon", "paper",
        "copper", "settles", "walked", "reading", "wolves", "bridge", "window", "seven", "harbour",
        "thread",
    ];
    let word =
        |place: i64| WORDS[usize::try_from((number * 7 + place * place * number) % 20).unwrap()];
    let words: Vec<&str> = (0..4 + number % 9).map(word).collect();
    format!("{} number {number}", words.join(" "))
}

pub fn said(number: i64) -> NewEntry {
    NewEntry {
        start: number,
        end: number + 1,
        created_at: 1_700_000_000_000 + number * 3_600_000,
        ..entry(&text(number))
    }
}

pub fn open(path: &Path) -> Handle {
    Handle::open(path, false, None, None).unwrap()
}

pub fn cached(store: &Store, name: &str) -> usize {
    let figures = store.figures(Some(&session(name))).unwrap();
    figures.index.map_or(0, |sizes| sizes.cached)
}

/// The hits of all rankers for all queries, to the bit.
pub fn answers(store: &Store, name: &str) -> Vec<Vec<(i64, u64)>> {
    let mut found = Vec::new();
    for ranker in [Ranker::Lexical, Ranker::Cosine, Ranker::Hybrid] {
        for query in QUERIES {
            let options = SearchOptions {
                limit: 20,
                ranker,
                now: 1_800_000_000_000,
                ..SearchOptions::default()
            };
            let hits = store
                .find(&session(name), query, None, &options)
                .unwrap()
                .hits;
            let hits = hits
                .iter()
                .map(|hit| (hit.stored.id.0, hit.score.to_bits()));
            found.push(hits.collect());
        }
    }
    found
}

pub fn files(store: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(store.join("memory/cache")) else {
        return Vec::new();
    };
    entries.map(|entry| entry.unwrap().path()).collect()
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A store with a cache of the session `a`, and with a small session `b`, closed.
pub fn kept(path: &Path) -> Vec<Vec<(i64, u64)>> {
    let handle = open(path);
    let store = handle.store().unwrap();
    let entries: Vec<NewEntry> = (0..MANY).map(said).collect();
    store.insert(&session("a"), &entries).unwrap();
    store.insert(&session("b"), &entries[..9]).unwrap();
    let answers = answers(&store, "a");
    assert_eq!(cached(&store, "a"), 600);
    assert_eq!(cached(&store, "b"), 0); // too few
    drop(store);
    handle.close();
    assert_eq!(files(path).len(), 1);
    answers
}

/// The answers of a store without a cache.
pub fn from_rows(path: &Path) -> Vec<Vec<(i64, u64)>> {
    let directory = tempfile::tempdir().unwrap();
    copy(path, directory.path());
    let _ = fs::remove_dir_all(directory.path().join("memory/cache"));
    let handle = open(directory.path());
    let store = handle.store().unwrap();
    answers(&store, "a")
}

/// To forget that one entry of the session `a`.
pub fn target(entry: i64) -> Target {
    Target {
        entries: vec![entry],
        ..Target::of(session("a"))
    }
}
