//! Vectors are of one embedder, come back as they were stored, and leave with their entries.

mod common;

use std::path::Path;

use common::{append, commit, compaction, entry, message, now, session};
use siltstone_core::ErrorKind;
use siltstone_core::id::EntryId;
use siltstone_core::memory::{
    Embedded, Handle, NewEntry, QueryVector, Ranker, SearchOptions, Store, Target,
};

fn open(path: &Path) -> Handle {
    Handle::open(path, false, None, None).unwrap()
}

fn placed(text: &str, start: i64) -> NewEntry {
    NewEntry {
        start,
        end: start + 1,
        ..entry(text)
    }
}

/// The texts of the hits of `ranker`, and who ranked.
fn near(store: &Store, key: i64, numbers: &[f32], ranker: Ranker) -> (Vec<String>, Ranker) {
    let vector = QueryVector {
        embedder: key,
        numbers: numbers.to_vec(),
    };
    let options = SearchOptions {
        ranker,
        ..SearchOptions::default()
    };
    let found = store
        .find(&session("a"), "river", Some(&vector), &options)
        .unwrap();
    let texts = found.hits.into_iter().map(|hit| hit.stored.entry.text);
    (texts.collect(), found.ranker)
}

#[test]
fn vectors_are_found_after_reopening_and_in_other_stores_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let handle = open(directory.path());
    let store = handle.store().unwrap();
    let key = store.use_embedder("e", 2, false).unwrap();
    let entries = [placed("silt", 0), placed("river", 5), placed("kettle", 9)];
    store.insert(&session("a"), &entries).unwrap();
    let (missing, looked) = store.missing_vectors(EntryId(0), 2).unwrap();
    assert_eq!((missing.len(), looked), (2, EntryId(2)));
    assert_eq!(
        near(&store, key, &[1.0, 0.0], Ranker::Dense),
        (vec!["river".to_owned()], Ranker::Lexical)
    );
    let rows = [
        (EntryId(1), vec![0.0, 1.0, 1.0, 0.0]),
        (EntryId(2), vec![0.6, 0.8]),
        (EntryId(77), vec![1.0, 0.0]), // it was never there
    ];
    assert_eq!(store.store_vectors(key, &rows).unwrap(), 2);
    assert_eq!(store.store_vectors(key, &rows).unwrap(), 0);
    let expected = (vec!["silt".to_owned(), "river".to_owned()], Ranker::Dense);
    assert_eq!(near(&store, key, &[1.0, 0.0], Ranker::Dense), expected);
    drop(store);
    handle.close();

    let handle = open(directory.path());
    let store = handle.store().unwrap();
    assert_eq!(store.use_embedder("e", 2, false).unwrap(), key);
    assert_eq!(near(&store, key, &[1.0, 0.0], Ranker::Dense), expected);
    assert_eq!(
        store.embedded().unwrap(),
        Embedded {
            with: 2,
            without: 1
        }
    );
    let (missing, looked) = store.missing_vectors(EntryId(0), 9).unwrap();
    assert_eq!((missing[0].id, looked), (EntryId(3), EntryId(3)));
    assert_eq!(
        store.missing_vectors(looked, 9).unwrap(),
        (Vec::new(), looked)
    );
    // later rows are read beside the rows that are there
    store
        .store_vectors(key, &[(EntryId(3), vec![2.0, 0.0])])
        .unwrap();
    assert_eq!(near(&store, key, &[1.0, 0.0], Ranker::Dense).0.len(), 3);
    assert_eq!(store.check().unwrap(), []);
}

#[test]
fn vectors_leave_with_their_entries_however_these_leave() {
    let directory = tempfile::tempdir().unwrap();
    let handle = open(directory.path());
    let store = handle.store().unwrap();
    let key = store.use_embedder("e", 1, false).unwrap();
    store
        .insert(&session("a"), &[placed("silt", 0), placed("river", 5)])
        .unwrap();
    store.insert(&session("b"), &[placed("delta", 0)]).unwrap();
    append(&store, "a", &[message("{}")], "");
    commit(&store, "a", &compaction("s", 1), &[placed("old", 20)]);
    let rows: Vec<_> = (1..=4).map(|id| (EntryId(id), vec![1.0])).collect();
    assert_eq!(store.store_vectors(key, &rows).unwrap(), 4);
    assert_eq!(near(&store, key, &[1.0], Ranker::Dense).0.len(), 3);

    store
        .undo_compaction(&session("a"), now(&store, "a"), "")
        .unwrap();
    assert_eq!(store.embedded().unwrap().with, 3);
    let target = Target {
        entries: vec![1],
        ..Target::of(session("a"))
    };
    store.forget(&[target], "gone").unwrap();
    assert_eq!(near(&store, key, &[1.0], Ranker::Dense).0, ["river"]);
    store.delete_session(&session("b")).unwrap();
    assert_eq!(
        store.embedded().unwrap(),
        Embedded {
            with: 1,
            without: 0
        }
    );
    assert_eq!(store.check().unwrap(), []);
}

#[test]
fn vectors_of_two_embedders_are_never_mixed() {
    let directory = tempfile::tempdir().unwrap();
    let handle = open(directory.path());
    let store = handle.store().unwrap();
    let first = store.use_embedder("one", 2, false).unwrap();
    // nothing is lost as long as there are no vectors
    let key = store.use_embedder("two", 2, false).unwrap();
    assert_ne!(first, key);
    store.insert(&session("a"), &[placed("river", 0)]).unwrap();
    let row = [(EntryId(1), vec![1.0, 0.0])];
    let error = store.store_vectors(first, &row).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreConflict);
    store.store_vectors(key, &row).unwrap();
    for (name, dimension) in [("one", 2), ("two", 3)] {
        let error = store.use_embedder(name, dimension, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let message = error.to_string();
        assert!(
            message.contains("has 1 vectors of embedder \"two\" (dimension 2)"),
            "{message}"
        );
    }
    let other = store.use_embedder("one", 3, true).unwrap();
    assert_eq!(store.embedded().unwrap().with, 0);
    // vectors of the old one are refused, and its questions are answered by words
    let error = store.store_vectors(key, &row).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreConflict);
    assert_eq!(
        near(&store, key, &[1.0, 0.0], Ranker::Fused).1,
        Ranker::Lexical
    );
    assert!(other > key);
    assert_eq!(store.check().unwrap(), []);
}

#[test]
fn numbers_that_are_no_vectors_are_refused_and_none_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let handle = open(directory.path());
    let store = handle.store().unwrap();
    let key = store.use_embedder("e", 2, false).unwrap();
    store
        .insert(&session("a"), &[placed("river", 0), placed("silt", 5)])
        .unwrap();
    for wrong in [
        vec![],
        vec![1.0],
        vec![1.0, f32::NAN],
        vec![f32::INFINITY, 0.0],
    ] {
        let rows = [(EntryId(1), vec![1.0, 0.0]), (EntryId(2), wrong)];
        let error = store.store_vectors(key, &rows).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidEntry, "{error}");
    }
    assert_eq!(store.embedded().unwrap().with, 0);
    store
        .store_vectors(key, &[(EntryId(1), vec![1.0, 0.0])])
        .unwrap();
    let vector = QueryVector {
        embedder: key,
        numbers: vec![1.0],
    };
    let options = SearchOptions {
        ranker: Ranker::Dense,
        ..SearchOptions::default()
    };
    let error = store
        .find(&session("a"), "river", Some(&vector), &options)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a query's vector must have 2 numbers, as those of embedder \"e\", got 1"
    );
}

#[test]
fn a_store_that_is_only_read_takes_no_embedder_but_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let handle = open(directory.path());
    handle
        .store()
        .unwrap()
        .insert(&session("a"), &[placed("river", 0)])
        .unwrap();
    handle.close();
    let reader = Handle::open(directory.path(), true, None, None).unwrap();
    assert_eq!(
        reader.store().unwrap().use_embedder("e", 1, true).unwrap(),
        0
    );
    reader.close();

    let handle = open(directory.path());
    let store = handle.store().unwrap();
    let key = store.use_embedder("e", 1, false).unwrap();
    store
        .store_vectors(key, &[(EntryId(1), vec![1.0])])
        .unwrap();
    drop(store);
    handle.close();
    let reader = Handle::open(directory.path(), true, None, None).unwrap();
    let store = reader.store().unwrap();
    assert_eq!(store.use_embedder("e", 1, false).unwrap(), key);
    let error = store.use_embedder("other", 1, true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(near(&store, key, &[1.0], Ranker::Fused).1, Ranker::Fused);
}

#[test]
fn a_repair_lets_go_of_vectors_that_cannot_be_believed_and_indexes_notice() {
    let directory = tempfile::tempdir().unwrap();
    let handle = open(directory.path());
    let store = handle.store().unwrap();
    let key = store.use_embedder("e", 2, false).unwrap();
    let entries = [placed("silt", 0), placed("river", 5), placed("kettle", 9)];
    store.insert(&session("a"), &entries).unwrap();
    let rows = [(EntryId(1), vec![1.0, 0.0]), (EntryId(2), vec![0.6, 0.8])];
    store.store_vectors(key, &rows).unwrap();
    assert_eq!(near(&store, key, &[1.0, 0.0], Ranker::Dense).0.len(), 2);
    let file = directory.path().join("memory").join("memory.sqlite3");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection
        .execute_batch("UPDATE vector SET data = x'0000803f00000000' WHERE entry = 2")
        .unwrap();
    connection.close().unwrap();
    let found = store.check().unwrap();
    assert_eq!((found[0].table, found[0].id), ("vector", Some(2)));
    let told = store.repair(0).unwrap();
    assert!(told.iter().all(|(_, repaired)| *repaired));
    assert_eq!(store.check().unwrap(), []);
    assert_eq!(near(&store, key, &[1.0, 0.0], Ranker::Dense).0, ["silt"]);
    // The successor gets the revision that the one before had: the index must not take one for the other.
    store
        .store_vectors(key, &[(EntryId(2), vec![0.0, 1.0])])
        .unwrap();
    let found = near(&store, key, &[0.0, 1.0], Ranker::Dense).0;
    assert_eq!(found, ["river", "silt"]);
}
