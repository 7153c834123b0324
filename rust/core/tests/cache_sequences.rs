//! A cache changes no answer, whatever becomes of its session.

mod common;

use common::cached::{MANY, answers, copy, files, from_rows, kept, open, said, target};
use common::{append, commit, compaction, message, now, session};
use siltstone_core::memory::{NewEntry, Ranker, SearchOptions, Store};

/// Sequences that are tried.
const SEQUENCES: u64 = 40;

/// A change of a session between two openings.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(i64),
    Compact(i64),
    Undo,
    Forget(i64),
    Expire(i64),
    Drop,
    Search(Ranker),
    Reopen,
}

/// The rankers that make the postings of terms alone, and of buckets alone.
const RANKERS: [Ranker; 2] = [Ranker::Lexical, Ranker::Cosine];

/// The seventh of these, say, is the same in every run.
fn steps(number: u64) -> Vec<Step> {
    let mut state = number;
    let mut below = |end: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let count = 1 + below(9);
    let mut steps: Vec<Step> = (0..count)
        .map(|_| {
            let (kind, many) = (below(14), 1 + i64::try_from(below(80)).unwrap());
            match kind {
                0 | 1 => Step::Insert(many),
                2 => Step::Compact(1 + many % 9),
                3 => Step::Undo,
                4 => Step::Forget(many * 7),
                5 => Step::Expire(many),
                6 => Step::Drop,
                7..=10 => Step::Search(RANKERS[usize::from(many % 2 == 0)]),
                11 => Step::Insert(many * 12), // more than an eighth, mostly
                _ => Step::Reopen,
            }
        })
        .collect();
    steps.push(Step::Reopen);
    steps
}

fn take(store: &Store, step: Step, next: &mut i64) {
    let name = session("a");
    let mut new = |count: i64| -> Vec<NewEntry> {
        let first = *next;
        *next += count;
        (first..*next).map(said).collect()
    };
    match step {
        Step::Insert(count) => {
            store.insert(&name, &new(count)).unwrap();
        }
        Step::Compact(count) => {
            let version = append(store, "a", &[message("{}")], "");
            let made = compaction("so far", version.next_seq);
            commit(store, "a", &made, &new(count));
        }
        Step::Undo => {
            store.undo_compaction(&name, now(store, "a"), "").unwrap();
        }
        Step::Forget(id) => {
            store.forget(&[target(id)], "gone").unwrap();
        }
        Step::Expire(count) => {
            let figures = store.figures(Some(&name)).unwrap();
            let keep = (figures.counts.entries - count).max(0);
            store.expire(&name, Some(keep), None, 0, true).unwrap();
        }
        Step::Drop => {
            store.delete_session(&name).unwrap();
            store.revive(&name).unwrap();
            store.insert(&name, &new(MANY)).unwrap();
        }
        Step::Search(ranker) => {
            let options = SearchOptions {
                ranker,
                ..SearchOptions::default()
            };
            store.find(&name, "silt and river", None, &options).unwrap();
        }
        Step::Reopen => {}
    }
}

#[test]
fn whatever_became_of_a_session_its_answers_are_those_of_its_rows() {
    let before = tempfile::tempdir().unwrap();
    kept(before.path());
    for number in 0..SEQUENCES {
        let directory = tempfile::tempdir().unwrap();
        copy(before.path(), directory.path());
        let mut handle = open(directory.path());
        let mut next = MANY;
        let steps = steps(number);
        for &step in &steps {
            if matches!(step, Step::Reopen) {
                // Half of the time without a search that needs all indexes before it is closed.
                let live = (number % 2 == 0).then(|| answers(&handle.store().unwrap(), "a"));
                handle.close();
                let wanted = from_rows(directory.path());
                assert!(
                    live.is_none_or(|live| live == wanted),
                    "{number}: {steps:?}"
                );
                handle = open(directory.path());
                let store = handle.store().unwrap();
                assert_eq!(answers(&store, "a"), wanted, "{number}: {steps:?}");
                assert_eq!(store.check().unwrap(), [], "{number}: {steps:?}");
                assert!(files(directory.path()).len() < 2, "{number}: {steps:?}");
            } else {
                take(&handle.store().unwrap(), step, &mut next);
            }
        }
    }
}
