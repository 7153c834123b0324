//! A cache spares the analysis of texts, and changes no answer, whatever becomes of the file.

mod common;

use std::fs;
use std::path::PathBuf;

use common::cached::{MANY, answers, cached, copy, files, from_rows, kept, open, said, text};
use common::session;
use siltstone_core::id::EntryId;
use siltstone_core::memory::{Handle, NewEntry, Ranker, SearchOptions, Store};

#[test]
fn what_came_since_is_read_and_a_cache_is_written_again_when_it_is_an_eighth() {
    let directory = tempfile::tempdir().unwrap();
    kept(directory.path());
    let first = files(directory.path());
    for (from, to, cached_then) in [(600, 700, 600), (700, 1_200, 1_200)] {
        let handle = open(directory.path());
        let store = handle.store().unwrap();
        let entries: Vec<NewEntry> = (from..to).map(said).collect();
        answers(&store, "a");
        store.insert(&session("a"), &entries).unwrap();
        let grown = answers(&store, "a");
        drop(store);
        handle.close();
        assert_eq!(from_rows(directory.path()), grown);
        let handle = open(directory.path());
        let store = handle.store().unwrap();
        assert_eq!(answers(&store, "a"), grown);
        assert_eq!(cached(&store, "a"), cached_then);
    }
    assert_eq!(files(directory.path()).len(), 1);
    assert_ne!(files(directory.path()), first);
}

#[test]
fn a_damaged_cache_is_deleted_and_the_rows_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let before = kept(directory.path());
    let path = files(directory.path()).remove(0);
    let whole = fs::read(&path).unwrap();
    let len = whole.len();
    let mut damaged: Vec<Vec<u8>> = [0, 1, 64, len / 3, len / 2, len - 9, len - 1]
        .map(|cut| whole[..cut].to_vec())
        .to_vec();
    for place in (0..12).map(|number| (len - 1) * number / 11) {
        let mut flipped = whole.clone();
        flipped[place] ^= 1 << (place % 8);
        damaged.push(flipped);
    }
    for bytes in damaged {
        fs::write(&path, &bytes).unwrap();
        let handle = Handle::open(directory.path(), true, None, None).unwrap();
        assert_eq!(answers(&handle.store().unwrap(), "a"), before);
        handle.close();
        assert!(path.exists(), "who only reads deletes nothing");
    }
    let handle = open(directory.path());
    let store = handle.store().unwrap();
    let findings: Vec<_> = store.check().unwrap();
    assert_eq!((findings.len(), findings[0].code), (1, "cache"));
    assert_eq!(answers(&store, "a"), before);
    assert_eq!(fs::read(&path).unwrap(), whole); // the same file again, of the rows
    assert_eq!(store.check().unwrap(), []);
}

#[test]
fn a_repair_lets_go_of_caches() {
    let directory = tempfile::tempdir().unwrap();
    let before = kept(directory.path());
    let path = files(directory.path()).remove(0);
    fs::write(&path, "nothing").unwrap();
    let handle = open(directory.path());
    let store = handle.store().unwrap();
    let repaired = store.repair(0).unwrap();
    assert_eq!((repaired[0].0.code, repaired[0].1), ("cache", true));
    assert_eq!(files(directory.path()), Vec::<PathBuf>::new());
    assert_eq!(answers(&store, "a"), before);
}

/// A file that is put back is of an earlier state, and grows into another one with the same numbers.
#[test]
fn a_database_that_was_put_back_does_not_believe_in_a_cache_of_its_other_future() {
    let directory = tempfile::tempdir().unwrap();
    let (path, earlier) = (directory.path(), tempfile::tempdir().unwrap());
    let handle = open(path);
    let store = handle.store().unwrap();
    let entries: Vec<NewEntry> = (0..MANY).map(said).collect();
    store.insert(&session("a"), &entries[..300]).unwrap();
    drop(store);
    handle.close();
    copy(path, earlier.path());

    let handle = open(path);
    let store = handle.store().unwrap();
    store.insert(&session("a"), &entries[300..]).unwrap();
    let one = answers(&store, "a");
    drop(store);
    handle.close();
    let known = files(path).remove(0);

    fs::copy(
        earlier.path().join("memory/memory.sqlite3"),
        path.join("memory/memory.sqlite3"),
    )
    .unwrap();
    let bytes = fs::read(&known).unwrap();
    let handle = open(path);
    let store = handle.store().unwrap();
    fs::write(&known, bytes).unwrap(); // it was swept; somebody puts it back, too
    let others: Vec<NewEntry> = (1_000..1_000 + MANY - 300).map(said).collect();
    store.insert(&session("a"), &others).unwrap();
    let other = answers(&store, "a");
    assert_ne!(one, other);
    drop(store);
    handle.close();
    assert_eq!(from_rows(path), other);
    let handle = open(path);
    assert_eq!(answers(&handle.store().unwrap(), "a"), other);
}

#[test]
fn a_cache_of_another_store_or_session_is_not_taken() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    kept(one.path());
    let handle = open(other.path());
    let store = handle.store().unwrap();
    let entries: Vec<NewEntry> = (2_000..2_000 + MANY).map(said).collect();
    store.insert(&session("a"), &entries).unwrap();
    let before = answers(&store, "a");
    drop(store);
    handle.close();
    fs::copy(files(one.path()).remove(0), files(other.path()).remove(0)).unwrap();
    let handle = open(other.path());
    assert_eq!(answers(&handle.store().unwrap(), "a"), before);
}

#[test]
fn where_no_cache_can_be_written_everything_works_without() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("memory")).unwrap();
    fs::write(
        directory.path().join("memory/cache"),
        "a file is in the way",
    )
    .unwrap();
    let handle = open(directory.path());
    let store = handle.store().unwrap();
    let entries: Vec<NewEntry> = (0..MANY).map(said).collect();
    store.insert(&session("a"), &entries).unwrap();
    let before = answers(&store, "a");
    assert_eq!(cached(&store, "a"), 0);
    drop(store);
    handle.close();
    let handle = open(directory.path());
    assert_eq!(answers(&handle.store().unwrap(), "a"), before);
}

#[test]
fn a_row_that_was_damaged_since_is_left_out_and_counted_when_it_is_met() {
    let directory = tempfile::tempdir().unwrap();
    kept(directory.path());
    let file = directory.path().join("memory/memory.sqlite3");
    let mut bytes = fs::read(&file).unwrap();
    let wanted = text(599);
    let mut places = bytes.windows(wanted.len());
    let place = places.position(|window| window == wanted.as_bytes());
    bytes[place.unwrap()] ^= 1;
    fs::write(&file, bytes).unwrap();
    let handle = open(directory.path());
    let store = handle.store().unwrap();
    let hits = common::found(&store, "a", "number 599");
    assert!(hits.iter().all(|(id, _)| *id != 600));
    assert_eq!(store.quarantined(&session("a")).unwrap(), [EntryId(600)]);
    assert_eq!(files(directory.path()), Vec::<PathBuf>::new());
    assert_eq!(answers(&store, "a"), from_rows(directory.path()));
}

/// Searches by one ranker, which needs one of the indexes.
fn search(store: &Store, ranker: Ranker) {
    let options = SearchOptions {
        ranker,
        ..SearchOptions::default()
    };
    let found = store.find(&session("a"), "silt and river", None, &options);
    assert_eq!(found.unwrap().hits.len(), 5);
}

#[test]
fn a_search_makes_the_index_that_it_needs_and_a_cache_of_that() {
    for (one, other) in [
        (Ranker::Lexical, Ranker::Cosine),
        (Ranker::Cosine, Ranker::Lexical),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let wanted = kept(directory.path());
        let both = fs::read(files(directory.path()).remove(0)).unwrap();
        fs::remove_dir_all(directory.path().join("memory/cache")).unwrap();
        let handle = open(directory.path());
        search(&handle.store().unwrap(), one);
        handle.close();
        let alone = fs::read(files(directory.path()).remove(0)).unwrap();
        assert!(alone.len() < both.len());

        let handle = open(directory.path());
        let store = handle.store().unwrap();
        search(&store, one);
        let again = fs::read(files(directory.path()).remove(0)).unwrap();
        assert_eq!(again, alone, "it was taken from there");
        search(&store, other);
        let again = fs::read(files(directory.path()).remove(0)).unwrap();
        assert_eq!(again, both, "the other one was made of rows");
        assert_eq!(answers(&store, "a"), wanted);
    }
}

#[test]
fn an_index_that_was_not_needed_stays_in_the_cache_and_follows() {
    let directory = tempfile::tempdir().unwrap();
    kept(directory.path());
    let handle = open(directory.path());
    let store = handle.store().unwrap();
    search(&store, Ranker::Cosine);
    let entries: Vec<NewEntry> = (MANY..2 * MANY).map(said).collect();
    store.insert(&session("a"), &entries).unwrap();
    search(&store, Ranker::Cosine);
    drop(store);
    handle.close();
    let handle = Handle::open(directory.path(), true, None, None).unwrap();
    let store = handle.store().unwrap();
    assert_eq!(cached(&store, "a"), 1_200);
    assert_eq!(answers(&store, "a"), from_rows(directory.path()));
}

#[test]
fn an_index_that_comes_late_has_what_was_written_before_and_after() {
    let directory = tempfile::tempdir().unwrap();
    kept(directory.path());
    for takes_the_cache in [true, false] {
        if !takes_the_cache {
            fs::remove_dir_all(directory.path().join("memory/cache")).unwrap();
        }
        let handle = open(directory.path());
        let store = handle.store().unwrap();
        for (number, ranker) in (0..).zip([Ranker::Cosine, Ranker::Lexical, Ranker::Hybrid]) {
            search(&store, ranker);
            let first = 5_000 + number * 3 + i64::from(takes_the_cache) * 9;
            let entries: Vec<NewEntry> = (first..first + 3).map(said).collect();
            store.insert(&session("a"), &entries).unwrap();
        }
        let live = answers(&store, "a");
        drop(store);
        handle.close();
        assert_eq!(from_rows(directory.path()), live);
    }
}
