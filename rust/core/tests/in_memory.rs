//! A store in memory behaves as a store in a file, except for its files.

mod common;

use std::thread;

use common::{append, commit, compaction, entry, found, message, now, session};
use siltstone_core::memory::{Handle, Target};

#[test]
fn it_logs_compacts_finds_forgets_and_ends_with_its_handle() {
    let handle = Handle::open_memory(None).unwrap();
    let (store, a) = (handle.store().unwrap(), session("a"));
    append(&store, "a", &[message("one"), message("two")], "c");
    commit(
        &store,
        "a",
        &compaction("so far", 2),
        &[entry("silt of old")],
    );
    store.insert(&a, &[entry("silt and river")]).unwrap();
    assert_eq!(found(&store, "a", "silt").len(), 2);
    let target = Target {
        messages: vec![(0, "gone".to_owned())],
        ..Target::of(session("a"))
    };
    let forgotten = store.forget(&[target], "a sentence").unwrap();
    assert!(forgotten.erased);
    assert_eq!((forgotten.messages, forgotten.derived), (1, 1));
    store.undo_compaction(&a, now(&store, "a"), "d").unwrap();
    assert_eq!(found(&store, "a", "silt").len(), 1);
    assert_eq!(store.check().unwrap(), []);
    assert_eq!(store.figures(None).unwrap().disk_bytes, 0);
    assert!(!store.is_read_only());

    let copy = tempfile::tempdir().unwrap();
    store.backup(&copy.path().join("copy")).unwrap();
    let durable = Handle::open(&copy.path().join("copy"), false, None, None).unwrap();
    assert_eq!(found(&durable.store().unwrap(), "a", "silt").len(), 1);
    drop(store);
    handle.close();

    let other = Handle::open_memory(None).unwrap();
    assert_eq!(
        other.store().unwrap().sessions(None, 0, 9).unwrap(),
        (Vec::new(), None)
    );
}

#[test]
fn many_threads_write_and_search_without_waiting_for_ever() {
    let handle = Handle::open_memory(None).unwrap();
    thread::scope(|scope| {
        for number in 0..4 {
            let handle = &handle;
            scope.spawn(move || {
                for round in 0..50 {
                    let store = handle.store().unwrap();
                    let text = format!("silt {number} {round}");
                    store.insert(&session("a"), &[entry(&text)]).unwrap();
                    assert!(!found(&store, "a", "silt").is_empty());
                }
            });
        }
    });
    assert_eq!(found(&handle.store().unwrap(), "a", "silt").len(), 200);
}
