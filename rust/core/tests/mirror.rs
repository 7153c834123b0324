//! A mirror hands over its changes before it commits, has no change that was refused, and takes in the rows of others.

use std::sync::{Arc, Mutex};

use siltstone_core::embed::hash::HashRule;
use siltstone_core::id::SessionId;
use siltstone_core::memory::{Changes, Handle, Keeper, NewEntry, SearchOptions};
use siltstone_core::{Error, ErrorKind, Result};

/// Keeps the changes that it is handed, unless it is told to refuse.
#[derive(Clone, Default)]
struct Kept {
    changes: Arc<Mutex<Vec<Changes>>>,
    refuses: Arc<Mutex<bool>>,
}

impl Keeper for Kept {
    fn keep(&self, changes: &Changes) -> Result<()> {
        if *self.refuses.lock().unwrap() {
            return Err(Error::new(ErrorKind::NotKept, "not now"));
        }
        self.changes.lock().unwrap().push(changes.clone());
        Ok(())
    }
}

fn mirror() -> (Handle, Kept) {
    let kept = Kept::default();
    let handle = Handle::open_mirror(HashRule::default(), Box::new(kept.clone())).unwrap();
    (handle, kept)
}

fn entry(text: &str) -> NewEntry {
    NewEntry {
        text: text.to_owned(),
        role: "user".to_owned(),
        kind: "message".to_owned(),
        ..NewEntry::default()
    }
}

fn found(handle: &Handle, query: &str) -> Vec<(String, u64)> {
    let session = SessionId::new("a").unwrap();
    let hits = handle
        .store()
        .unwrap()
        .find(&session, query, None, &SearchOptions::default())
        .unwrap()
        .hits;
    let shown = hits
        .into_iter()
        .map(|hit| (hit.stored.entry.text, hit.score.to_bits()));
    shown.collect()
}

#[test]
fn what_one_mirror_hands_over_makes_another_one_like_it() {
    let ((one, kept), (other, _)) = (mirror(), mirror());
    let session = SessionId::new("a").unwrap();
    let store = one.store().unwrap();
    for text in ["silt in the river", "gravel on the bank", "silt and mud"] {
        store.insert(&session, &[entry(text)]).unwrap();
        for changes in kept.changes.lock().unwrap().drain(..) {
            other.store().unwrap().take(&changes).unwrap();
        }
        assert_eq!(found(&one, "silt river"), found(&other, "silt river"));
    }
    assert_eq!(store.delete_session(&session).unwrap(), 3);
    for changes in kept.changes.lock().unwrap().drain(..) {
        let entries = changes
            .tables
            .iter()
            .find(|changed| changed.table == "entry");
        assert_eq!(entries.unwrap().gone, [1, 2, 3]);
        other.store().unwrap().take(&changes).unwrap();
    }
    assert_eq!(found(&other, "silt"), []);
    assert_eq!(other.store().unwrap().check().unwrap(), []);
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let (handle, kept) = mirror();
    let session = SessionId::new("a").unwrap();
    let store = handle.store().unwrap();
    store
        .insert(&session, &[entry("silt in the river")])
        .unwrap();
    *kept.refuses.lock().unwrap() = true;
    let refused = store.insert(&session, &[entry("silt and mud")]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotKept);
    assert_eq!(found(&handle, "silt").len(), 1);
    *kept.refuses.lock().unwrap() = false;
    store.insert(&session, &[entry("silt and clay")]).unwrap();
    let changes = kept.changes.lock().unwrap();
    let last = changes.last().unwrap();
    let rows: usize = last
        .tables
        .iter()
        .filter(|changed| changed.table == "entry")
        .map(|changed| changed.rows.len())
        .sum();
    assert_eq!((changes.len(), rows, last.high_water), (2, 1, 2));
    assert_eq!(store.check().unwrap(), []);
}

#[test]
fn ids_are_given_above_what_is_asked_for() {
    let (handle, kept) = mirror();
    let store = handle.store().unwrap();
    store.give_ids_above(1_000).unwrap();
    let session = SessionId::new("a").unwrap();
    store
        .insert(&session, &[entry("silt in the river")])
        .unwrap();
    assert_eq!(kept.changes.lock().unwrap()[0].high_water, 1_001);
}
