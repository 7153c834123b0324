//! One store, many threads: nothing is lost, nothing leaks, ids are unique.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{entry, found, message, on, session};
use siltstone_core::memory::{Append, Handle, SessionVersion};

const WRITERS: usize = 4;
const ROUNDS: usize = 25;

/// Lets readers end however the writers did: a test that fails must not hang.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_a_thread_inserted_it_finds_at_once_and_nobody_finds_it_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None, None).unwrap();
    let finished = AtomicBool::new(false);
    // Names that begin alike, and one of all writers together.
    let name = |writer: usize| format!("session{}", ".a".repeat(writer));
    let ids = thread::scope(|scope| {
        let _finish = Finish(&finished);
        for writer in 0..WRITERS {
            let (handle, finished) = (&handle, &finished);
            scope.spawn(move || {
                let store = handle.store().unwrap();
                while !finished.load(Ordering::Relaxed) {
                    for (_, text) in found(&store, &name(writer), "canary") {
                        assert!(text.starts_with(&format!("canary {writer} ")), "{text}");
                    }
                }
            });
        }
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let handle = &handle;
                scope.spawn(move || {
                    let (store, own) = (handle.store().unwrap(), session(&name(writer)));
                    let mut ids = Vec::new();
                    for round in 0..ROUNDS {
                        let text = entry(&format!("canary {writer} {round}"));
                        ids.extend(store.insert(&own, std::slice::from_ref(&text)).unwrap());
                        assert_eq!(found(&store, own.as_str(), "canary").len(), round + 1);
                        ids.extend(store.insert(&session("shared"), &[text]).unwrap());
                    }
                    ids
                })
            })
            .collect();
        let ids: Vec<_> = writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect();
        ids
    });
    let unique: BTreeSet<_> = ids.iter().map(|id| id.unwrap().0).collect();
    assert_eq!(unique.len(), 2 * WRITERS * ROUNDS);
    let store = handle.store().unwrap();
    assert_eq!(found(&store, "shared", "canary").len(), WRITERS * ROUNDS);
}

#[test]
fn a_session_that_is_dropped_shows_nothing_and_takes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None, None).unwrap();
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let (handle, finished) = (&handle, &finished);
        let _finish = Finish(finished);
        for _ in 0..2 {
            scope.spawn(move || {
                let store = handle.store().unwrap();
                while !finished.load(Ordering::Relaxed) {
                    for life in 0..ROUNDS {
                        let hits = found(&store, &life.to_string(), "canary");
                        assert!([0, 2, 3].contains(&hits.len()), "{hits:?}");
                    }
                }
            });
        }
        let store = handle.store().unwrap();
        for life in 0..ROUNDS {
            let name = life.to_string();
            let both = [
                entry(&format!("canary of life {life}")),
                entry(&format!("a yellow canary sings in life {life}")),
            ];
            let life = session(&name);
            store.insert(&life, &both).unwrap();
            store
                .insert(&life, &[entry("this canary is silent")])
                .unwrap();
            assert_eq!(found(&store, &name, "canary").len(), 3);
            assert_eq!(store.delete_session(&life).unwrap(), 3);
            assert_eq!(store.insert(&life, &both).unwrap(), [None, None]);
            assert_eq!(found(&store, &name, "canary"), []);
            assert_eq!(store.delete_session(&life).unwrap(), 0);
        }
    });
}

#[test]
fn of_two_appends_at_the_same_place_one_wins() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None, None).unwrap();
    let won: usize = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let handle = &handle;
                scope.spawn(move || {
                    let (store, a) = (handle.store().unwrap(), session("a"));
                    let tries = 0..i64::try_from(ROUNDS).unwrap();
                    tries
                        .filter(|&seq| {
                            let messages = &[message(&format!("{writer} {seq}"))];
                            let expected = SessionVersion {
                                next_seq: seq,
                                counter: seq,
                                ..SessionVersion::default()
                            };
                            let new = Append {
                                messages,
                                ..Append::default()
                            };
                            store.append(&a, on(expected), new).is_ok()
                        })
                        .count()
                })
            })
            .collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum()
    });
    let store = handle.store().unwrap();
    let messages = store.messages(&session("a"), 0, i64::MAX).unwrap();
    assert_eq!(messages.len(), won);
    assert_eq!(
        store.log_state(&session("a")).unwrap().next_seq,
        i64::try_from(won).unwrap()
    );
}

#[test]
fn handles_that_open_at_once_share_one_store() {
    let directory = tempfile::tempdir().unwrap();
    let stores: Vec<_> = thread::scope(|scope| {
        let openers: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Handle::open(directory.path(), false, None, None).unwrap()))
            .collect();
        openers
            .into_iter()
            .map(|opener| opener.join().unwrap())
            .collect()
    });
    let first = stores[0].store().unwrap();
    assert!(
        stores
            .iter()
            .all(|handle| std::sync::Arc::ptr_eq(&first, &handle.store().unwrap()))
    );
}
