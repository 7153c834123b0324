//! Undoing a compaction, and entries that are the same however often they are handed over.

mod common;

use common::{append, compaction, entry, found, message, now, on, session};
use siltstone_core::ErrorKind;
use siltstone_core::memory::{Handle, NewEntry, Rewrite, SessionVersion, Store, Target};

fn of(text: &str, start: i64, end: i64) -> NewEntry {
    NewEntry {
        start,
        end,
        ..entry(text)
    }
}

/// A compaction of the first message, in a log of three or more.
fn commit(store: &Store, entries: &[NewEntry]) -> i64 {
    while store.log_state(&session("a")).unwrap().next_seq < 3 {
        append(store, "a", &[message("{}")], "");
    }
    common::commit(store, "a", &compaction("summary", 3), entries)
}

/// Goes back before the view that is current; how many entries left.
fn undo(store: &Store) -> i64 {
    let undone = store.undo_compaction(&session("a"), now(store, "a"), "c");
    undone.unwrap().entries
}

/// An index that reads new entries must not go on with entries that are gone, though the counts agree.
#[test]
fn an_index_in_another_store_notices_that_entries_left() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None, None).unwrap();
    let store = handle.store().unwrap();
    let reader = Handle::open(directory.path(), true, None, None).unwrap();
    let reader = reader.store().unwrap();
    store
        .insert(&session("a"), &[entry("silt of old")])
        .unwrap();
    commit(&store, &[of("silt that leaves", 1, 2)]);
    assert_eq!(found(&reader, "a", "silt").len(), 2);
    undo(&store);
    store
        .insert(&session("a"), &[entry("silt that comes")])
        .unwrap();
    for store in [&reader, &store] {
        let mut texts: Vec<_> = found(store, "a", "silt")
            .into_iter()
            .map(|hit| hit.1)
            .collect();
        texts.sort();
        assert_eq!(texts, ["silt of old", "silt that comes"]);
    }
}

#[test]
fn entries_of_messages_that_a_rewrite_leaves_behind_go_whatever_brought_them() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None, None).unwrap();
    let (store, a) = (handle.store().unwrap(), session("a"));
    append(&store, "a", &[message("{}"), message("{}")], "");
    let both = [of("silt of one", 0, 1), of("silt of two", 1, 2)];
    store.insert(&a, &both).unwrap();
    assert_eq!(found(&store, "a", "silt").len(), 2);
    let rewrite = Rewrite {
        withdrawn: &[],
        gone: &[1],
        parent: None,
        messages: &[],
        row: &compaction("", 2),
        entries: &[],
    };
    store.rewrite(&a, now(&store, "a"), rewrite, "").unwrap();
    let left = found(&store, "a", "silt");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].1, "silt of one");
    assert!(store.check().unwrap().is_empty());
}

#[test]
fn a_session_is_found_by_what_it_settled() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None, None).unwrap();
    let store = handle.store().unwrap();
    for (name, settings) in [("a", ""), ("b", "{\"one\": 1}"), ("c", "{\"two\": 2}")] {
        append(&store, name, &[message("{}")], "");
        let write = now(&store, name);
        store
            .save_settings(&session(name), write, settings)
            .unwrap();
    }
    let first = |has: &str, lacks: &str| {
        let found = store.session_with_settings(has, lacks).unwrap();
        found.map(|(name, _)| name)
    };
    assert_eq!(first("\": ", "").as_deref(), Some("b"));
    assert_eq!(first("\": ", "one").as_deref(), Some("c"));
    assert_eq!(first("three", ""), None);
    store.delete_session(&session("b")).unwrap();
    assert_eq!(first("\": ", "").as_deref(), Some("c"));
}

#[test]
fn the_same_text_of_the_same_messages_is_one_entry() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None, None).unwrap();
    let (store, a) = (handle.store().unwrap(), session("a"));
    let batch = [
        of("silt", 0, 1),
        of("silt", 1, 2),
        of("silt", 0, 1),
        of("", 0, 1),
    ];
    let ids = store.insert(&a, &batch).unwrap();
    assert_eq!((ids[0], ids[3]), (ids[2], None));
    assert_ne!(ids[0], ids[1]);
    let later = NewEntry {
        created_at: 7,
        ..of("silt", 0, 1)
    };
    assert_eq!(store.insert(&a, &[later]).unwrap(), [ids[0]]);
    for other in [
        NewEntry {
            role: "assistant".to_owned(),
            ..of("silt", 0, 1)
        },
        NewEntry {
            name: Some("Ann".to_owned()),
            ..of("silt", 0, 1)
        },
        NewEntry {
            kind: "note".to_owned(),
            ..of("silt", 0, 1)
        },
        of("clay", 0, 1),
    ] {
        let id = store.insert(&a, &[other]).unwrap()[0];
        assert!(!ids.contains(&id));
    }
    assert_ne!(
        store.insert(&session("b"), &[of("silt", 0, 1)]).unwrap()[0],
        ids[0]
    );
    let twice = store.insert(&a, &[entry("silt"), entry("silt")]).unwrap();
    assert_ne!(
        twice[0], twice[1],
        "an entry that came from no message is new each time"
    );
    assert_eq!(store.figures(Some(&a)).unwrap().counts.entries, 8);
}

#[test]
fn what_a_caller_indexes_stays_though_a_compaction_brought_it_first() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None, None).unwrap();
    let (store, a) = (handle.store().unwrap(), session("a"));
    commit(&store, &[of("silt", 0, 1)]);
    store.insert(&a, &[of("silt", 0, 1)]).unwrap();
    assert_eq!(undo(&store), 0);
    assert_eq!(found(&store, "a", "silt").len(), 1);
}

#[test]
fn an_undo_in_a_session_that_nobody_has_written_makes_no_session() {
    let handle = Handle::open_memory(None).unwrap();
    let (store, a) = (handle.store().unwrap(), session("a"));
    let undone = store.undo_compaction(&a, on(SessionVersion::default()), "c");
    assert_eq!(undone.unwrap().head, None);
    assert!(store.sessions(None, 0, 9).unwrap().0.is_empty());
    let outdated = SessionVersion {
        next_seq: 3,
        ..SessionVersion::default()
    };
    let error = store.undo_compaction(&a, on(outdated), "c").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreConflict);
}

#[test]
fn digests_alone_give_a_session_another_version_and_only_once() {
    let handle = Handle::open_memory(None).unwrap();
    let (store, a) = (handle.store().unwrap(), session("a"));
    let before = append(&store, "a", &[message("{}")], "");
    let target = Target {
        digests: vec![(0, vec![1, 2, 3])],
        ..Target::of(session("a"))
    };
    for _ in 0..2 {
        let forgotten = store.forget(std::slice::from_ref(&target), "gone").unwrap();
        assert_eq!((forgotten.sessions, forgotten.messages), (0, 0));
        let now = store.version(&a).unwrap().unwrap();
        assert_eq!(now.counter, before.counter + 1);
        assert_eq!(now.redactions, before.redactions);
    }
    assert_eq!(store.forgotten(&a).unwrap(), target.digests);
}
