//! Undoing a compaction, and what is one entry however often it is handed over.

mod common;

use common::{compaction, entry, found, message, on, session};
use siltstone_core::ErrorKind;
use siltstone_core::memory::{Handle, NewEntry, Store};

fn of(text: &str, start: i64, end: i64) -> NewEntry {
    NewEntry {
        start,
        end,
        ..entry(text)
    }
}

fn commit(store: &Store, head: Option<i64>, entries: &[NewEntry]) -> i64 {
    let row = compaction("summary", 3);
    store
        .commit_compaction(&session("a"), on(head), &row, entries, String::new())
        .unwrap()
        .compaction
}

#[test]
fn an_undo_takes_back_what_the_compaction_brought_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None).unwrap();
    let (store, a) = (handle.store().unwrap(), session("a"));
    store
        .append(&a, 0, &[message("{}")], String::new())
        .unwrap();
    store.insert(&a, &[of("silt of a caller", 0, 1)]).unwrap();
    let first = commit(&store, None, &[of("silt one", 1, 2)]);
    let second = commit(
        &store,
        Some(first),
        &[of("silt two", 2, 3), of("silt of a caller", 0, 1)],
    );
    assert_eq!(found(&store, "a", "silt").len(), 3);

    let refused = store.undo_compaction(&a, first, String::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StoreConflict);
    assert_eq!(found(&store, "a", "silt").len(), 3);

    let undone = store.undo_compaction(&a, second, "c".to_owned()).unwrap();
    assert_eq!((undone.head, undone.entries), (Some(first), 1));
    let state = store.log_state(&a).unwrap();
    assert_eq!(
        (state.head, state.next_seq, state.cadence.as_str()),
        (Some(first), 1, "c")
    );
    let mut texts: Vec<_> = found(&store, "a", "silt")
        .into_iter()
        .map(|hit| hit.1)
        .collect();
    texts.sort();
    assert_eq!(texts, ["silt of a caller", "silt one"]);
    assert_eq!(
        store.compactions(&a).unwrap().len(),
        2,
        "the log forgets nothing"
    );
}

/// An index that reads what is new must not go on with what is gone, though the counts agree.
#[test]
fn an_index_in_another_store_notices_that_entries_left() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None).unwrap();
    let store = handle.store().unwrap();
    let reader = Handle::open(directory.path(), true, None).unwrap();
    let reader = reader.store().unwrap();
    store
        .insert(&session("a"), &[entry("silt of old")])
        .unwrap();
    let first = commit(&store, None, &[of("silt that leaves", 1, 2)]);
    assert_eq!(found(&reader, "a", "silt").len(), 2);
    store
        .undo_compaction(&session("a"), first, String::new())
        .unwrap();
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
fn the_same_text_of_the_same_messages_is_one_entry() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None).unwrap();
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
        "what came from no message is new each time"
    );
    assert_eq!(store.figures(Some(&a)).unwrap().counts.entries, 8);
}

#[test]
fn what_a_caller_indexes_stays_though_a_compaction_brought_it_first() {
    let directory = tempfile::tempdir().unwrap();
    let handle = Handle::open(directory.path(), false, None).unwrap();
    let (store, a) = (handle.store().unwrap(), session("a"));
    let first = commit(&store, None, &[of("silt", 0, 1)]);
    store.insert(&a, &[of("silt", 0, 1)]).unwrap();
    assert_eq!(
        store
            .undo_compaction(&a, first, String::new())
            .unwrap()
            .entries,
        0
    );
    assert_eq!(found(&store, "a", "silt").len(), 1);
}
