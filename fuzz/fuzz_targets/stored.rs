//! A store whose bytes are not what was written, in the file or in its log: no panic, and no answer but
//! the right one, one without what is counted as damaged, or an error.
#![no_main]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use siltstone_core::Result;
use siltstone_core::id::SessionId;
use siltstone_core::memory::{
    Append, Handle, NewEntry, NewMessage, SearchOptions, Store, StoredEntry, Write,
};

const FILE: &str = "memory/memory.sqlite3";
const LOG: &str = "memory/memory.sqlite3-wal";

/// Messages and entries before the log is emptied into the file, and in all.
const EMPTIED: i64 = 4;
const ALL: i64 = 8;

/// A whole store that was not closed.
struct Whole {
    path: PathBuf,
    file: Vec<u8>,
    log: Vec<u8>,
    /// Its answers after each commit that is in the log, and before.
    answers: Vec<Answers>,
}

/// The answers of a store, each question by itself.
struct Answers {
    exact: Vec<Result<String>>,
    /// Texts that are listed, and texts that are found, by their ids.
    entries: [Result<BTreeSet<(i64, String)>>; 2],
    /// Whether entries were left out, and counted.
    damaged: bool,
}

static WHOLE: LazyLock<Whole> = LazyLock::new(|| {
    let path = tempfile::tempdir().expect("a directory").keep();
    let write = |store: &Store, number: i64, each: &mut dyn FnMut(&Store)| {
        let message = NewMessage {
            raw: format!("message {number}"),
            role: "user".to_owned(),
            dialect: "any".to_owned(),
            provenance: "original".to_owned(),
            tokens: 3,
            created_at: 0,
        };
        let expected = store.version(&session()).expect("it is open");
        let write = Write {
            expected: expected.unwrap_or_default(),
            id: 7,
        };
        let append = Append {
            messages: &[message],
            ..Append::default()
        };
        store.append(&session(), write, append).expect("room");
        each(store);
        let entry = NewEntry {
            text: format!("silt number {number}"),
            start: number,
            end: number + 1,
            role: "user".to_owned(),
            kind: "message".to_owned(),
            ..NewEntry::default()
        };
        store.insert(&session(), &[entry]).expect("room");
        each(store);
    };
    let handle = Handle::open(&path, false, None, None).expect("a new store");
    (0..EMPTIED).for_each(|number| write(&handle.store().expect("open"), number, &mut |_| {}));
    handle.close();
    let handle = Handle::open(&path, false, None, None).expect("the store");
    let store = handle.store().expect("open");
    let mut answers = vec![ask(&store)];
    for number in EMPTIED..ALL {
        write(&store, number, &mut |store| answers.push(ask(store)));
    }
    let read = |name| fs::read(path.join(name)).expect("a file");
    let whole = Whole {
        file: read(FILE),
        log: read(LOG),
        path: tempfile::tempdir().expect("a directory").keep(),
        answers,
    };
    fs::create_dir(whole.path.join("memory")).expect("room");
    drop(store);
    handle.close();
    fs::remove_dir_all(path).expect("it is there");
    whole
});

fn session() -> SessionId {
    SessionId::new("a").expect("a name")
}

fn ask(store: &Store) -> Answers {
    let a = session();
    let options = SearchOptions {
        limit: 99,
        ..SearchOptions::default()
    };
    let found = store.find(&a, "silt number 3", None, &options);
    let page = store.page(&a, None, None, 0, 99);
    let text = |stored: StoredEntry| (stored.id.0, stored.entry.text);
    let damaged = page.as_ref().is_ok_and(|page| !page.damaged.is_empty())
        || store.quarantined(&a).is_ok_and(|ids| !ids.is_empty());
    Answers {
        exact: vec![
            store.log_state(&a).map(|answer| format!("{answer:?}")),
            store
                .messages(&a, 0, 99)
                .map(|answer| format!("{answer:?}")),
            store.compactions(&a).map(|answer| format!("{answer:?}")),
        ],
        entries: [
            page.map(|page| page.entries.into_iter().map(text).collect()),
            found.map(|found| found.hits.into_iter().map(|hit| text(hit.stored)).collect()),
        ],
        damaged,
    }
}

impl Answers {
    /// Whether each of these is `right`, or an error, or lacks what is counted as damaged.
    fn agrees(&self, right: &Self) -> bool {
        let mut exact = self.exact.iter().zip(&right.exact);
        let mut entries = self.entries.iter().zip(&right.entries);
        exact.all(|(answer, right)| answer.is_err() || answer.as_ref().ok() == right.as_ref().ok())
            && entries.all(|(answer, right)| match (answer, right) {
                (Err(_), _) => true,
                (Ok(answer), Ok(right)) if self.damaged => answer.is_subset(right),
                (Ok(answer), Ok(right)) => answer == right,
                (Ok(_), Err(_)) => false,
            })
    }

    fn told(&self) -> String {
        format!("{:?} {:?} {}", self.exact, self.entries, self.damaged)
    }
}

fn read(path: &Path, read_only: bool) -> Result<Answers> {
    let handle = Handle::open(path, read_only, None, None)?;
    let store = handle.store()?;
    let answers = ask(&store);
    let _ = store.check(); // an error or a list, and no panic
    Ok(answers)
}

// Each four bytes put one byte somewhere, or cut a file: in which file and page, where in it, and what.
fuzz_target!(|data: &[u8]| {
    let Whole {
        path,
        file,
        log,
        answers: right,
    } = &*WHOLE;
    let (mut file, mut log) = (file.clone(), log.clone());
    let mut in_log = false;
    for edit in data.chunks_exact(4).take(8) {
        let is_log = edit[0] & 0x80 != 0;
        in_log |= is_log;
        let bytes = if is_log { &mut log } else { &mut file };
        let pages = (bytes.len() / 4_096).max(1);
        let page = usize::from(edit[0] & 0x3F) % pages;
        let at = page * 4_096 + usize::from(u16::from_be_bytes([edit[1], edit[2]])) % 4_096;
        if edit[0] & 0x40 != 0 && edit[3] == 0 {
            bytes.truncate(at);
        } else if let Some(byte) = bytes.get_mut(at) {
            *byte = edit[3];
        }
    }
    for (name, bytes) in [(FILE, &file), (LOG, &log)] {
        fs::write(path.join(name), bytes).expect("room");
    }
    let _ = fs::remove_file(path.join("memory/memory.sqlite3-shm"));
    let read_only = data.first().is_some_and(|first| first & 1 != 0);
    if let Ok(answers) = read(path, read_only) {
        // A log that is cut, or damaged in its last commit, is that of an earlier one.
        let states = if in_log {
            &right[..]
        } else {
            &right[right.len() - 1..]
        };
        let agrees = states.iter().any(|right| answers.agrees(right));
        assert!(
            agrees,
            "an answer that is wrong in silence: {}",
            answers.told()
        );
    }
});
