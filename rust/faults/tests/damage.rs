//! Bits flip and ends go missing, in the file and in the log: no answer is wrong in silence.
//!
//! A store is closed, or its files are taken as they are while it works. One bit is flipped, or one file
//! is cut, and everything is asked again: each answer is right, or an error, or lacks entries that are
//! counted as damaged.
//!
//! Where the log is damaged in its last commit, or cut, it looks as it does when power is lost in the
//! middle of that commit. The store is then found whole as it was after an earlier one, and that is
//! counted. A file that is cut to nothing, with no log beside it, is a creation that was killed.
#![cfg(unix)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;

use siltstone_core::id::EntryId;
use siltstone_core::memory::{Handle, SearchOptions, SessionRow, Store};
use siltstone_core::{ErrorKind, Result};
use siltstone_faults::sessions::session;
use siltstone_faults::{Chance, Image, Place, State, Step};

const FLIPS: usize = 1_000;
const TRUNCATIONS: usize = 300;
/// Steps before the log is emptied into the file, and after.
const STEPS: [usize; 2] = [60, 25];

const FILE: &str = "memory.sqlite3";
const LOG: &str = "memory.sqlite3-wal";

/// The answer of a store to one question.
#[derive(Debug, PartialEq)]
enum Answer {
    /// All of it is right, or none is.
    Whole(String),
    /// Entries with their scores, and the number that is counted as left out.
    Entries(Vec<String>, String, usize),
}

/// The answers of a store, each call by itself.
type Answers = Vec<Result<Answer>>;

fn whole(answer: Result<impl Debug>) -> Result<Answer> {
    answer.map(|answer| Answer::Whole(format!("{answer:?}")))
}

fn found(store: &Store, name: &str, query: &str) -> Result<Answer> {
    let (session, options) = (
        session(name),
        SearchOptions {
            limit: 1_000,
            ..SearchOptions::default()
        },
    );
    let hits = store.find(&session, query, None, &options)?.hits;
    let left_out = store.quarantined(&session)?.len();
    let entries = hits.iter().map(|hit| format!("{:?}", hit.stored)).collect();
    let scores = format!("{:?}", hits.iter().map(|hit| hit.score).collect::<Vec<_>>());
    Ok(Answer::Entries(entries, scores, left_out))
}

fn listed(store: &Store) -> Result<Answer> {
    let page = store.page(&session("a"), None, None, 0, 1_000)?;
    let entries = page.entries.iter().map(|stored| format!("{stored:?}"));
    let next = format!("{:?}", page.next_offset);
    Ok(Answer::Entries(entries.collect(), next, page.damaged.len()))
}

fn ask(store: &Store) -> Answers {
    let a = session("a");
    let mut answers = vec![
        whole(store.log_state(&a)),
        whole(store.messages(&a, 0, 10_000)),
        whole(store.compactions(&a)),
        listed(store),
        found(store, "a", "mud one"),
        whole(store.sessions(None, 0, 10_000)),
        // The bytes of all texts are summed up, and not read.
        whole(store.figures(None).map(|figures| {
            let counts = figures.counts;
            (
                counts.sessions,
                counts.messages,
                counts.entries,
                counts.compactions,
            )
        })),
    ];
    for guest in 0..9 {
        answers.push(found(store, &format!("guest {guest}"), "silt canary"));
    }
    for id in 1..40 {
        answers.push(whole(store.get(EntryId(id))));
    }
    answers
}

/// Whether the answer is that of the whole store, or an error, or lacks only entries that are counted as left out.
fn agrees(answer: &Result<Answer>, right: &Result<Answer>) -> bool {
    match (answer, right) {
        (Err(_), _) => true,
        (Ok(Answer::Entries(entries, _, left_out @ 1..)), Ok(Answer::Entries(right, _, 0))) => {
            let once: BTreeSet<_> = entries.iter().collect();
            once.len() == entries.len()
                && entries.iter().all(|entry| right.contains(entry))
                && entries.len() + left_out >= right.len()
        }
        (Ok(answer), right) => right.as_ref().is_ok_and(|right| answer == right),
    }
}

fn leaves_out(answer: &Result<Answer>) -> bool {
    matches!(answer, Ok(Answer::Entries(_, _, 1..)))
}

/// Opens the store there and asks it.
fn open_and_ask(path: &Path, read_only: bool) -> Result<Answers> {
    let handle = Handle::open(path, read_only, None, None)?;
    let store = handle.store()?;
    Ok(ask(&store))
}

/// A store as it was found, and its answers after each commit, the last one at the end.
struct Whole {
    files: Image,
    answers: Vec<Answers>,
    /// Where the log of the last commit begins.
    last_commit: usize,
}

/// The store after it was closed, and as it was while it worked.
fn make() -> [Whole; 2] {
    let place = Place::empty();
    let mut chance = Chance::new(7);
    let mut state = State::default();
    let mut number = 0;
    let mut work = |steps: usize, each: &mut dyn FnMut(&Store)| {
        let handle = Handle::open(&place.path, false, None, None).unwrap();
        let store = handle.store().unwrap();
        each(&store);
        for _ in 0..steps {
            number += 1;
            // A forget empties the log.
            let step = match Step::draw(&state, number, &mut chance) {
                Step::Forget(_) if each_is_kept(steps) => Step::Append,
                step => step,
            };
            step.take(&store, &state).unwrap();
            step.apply(&mut state);
            each(&store);
        }
        Image::of(&place.files)
    };
    work(STEPS[0], &mut |_| {});
    let closed = Whole {
        files: Image::of(&place.files),
        answers: vec![open_and_ask(&place.path, true).unwrap()],
        last_commit: 0,
    };
    let mut answers = Vec::new();
    let mut ends = vec![0];
    let files = work(STEPS[1], &mut |store| {
        answers.push(ask(store));
        let log = Image::of(&place.files).get(LOG).map_or(0, <[u8]>::len);
        if ends.last() != Some(&log) {
            ends.push(log);
        }
    });
    let working = Whole {
        files,
        answers,
        last_commit: ends[ends.len() - 2],
    };
    [closed, working]
}

/// Whether the log of each step is wanted.
fn each_is_kept(steps: usize) -> bool {
    steps == STEPS[1]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Right,
    Error,
    SomeErrors,
    /// Entries are left out, and counted; all else is right, or an error.
    LeftOut,
    EarlierCommit,
    /// A file with nothing in it and nothing beside it: a store that nobody has written to.
    New,
}

/// How the store answers with `files`; a message where an answer is wrong.
fn outcome(
    files: &Image,
    whole: &Whole,
    place: &Place,
    read_only: bool,
) -> std::result::Result<Outcome, String> {
    files.lay(&place.files);
    let answers = match open_and_ask(&place.path, read_only) {
        Ok(answers) => answers,
        Err(error) => return expected(&error).map(|()| Outcome::Error),
    };
    let mut errors = 0;
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        if error.kind() != ErrorKind::EntryNotFound {
            expected(error)?;
            errors += 1;
        }
    }
    // An entry that cannot be found any more is an error too, though it says less than it might.
    let all_agree = |right: &Answers| {
        let mut pairs = answers.iter().zip(right);
        pairs.all(|(answer, right)| agrees(answer, right))
    };
    let absent = |right: &Answers| {
        let pairs = answers.iter().zip(right);
        pairs
            .filter(|(answer, right)| answer.is_err() && right.is_ok())
            .count()
            > errors
    };
    match whole.answers.iter().rposition(all_agree) {
        None => {
            let last = whole.answers.last().expect("an answer");
            let mut pairs = answers.iter().zip(last);
            let wrong = pairs.find(|(answer, right)| !agrees(answer, right));
            Err(format!("wrong: {wrong:?}"))
        }
        Some(at) if at + 1 < whole.answers.len() => Ok(Outcome::EarlierCommit),
        Some(_) if answers.iter().any(leaves_out) => Ok(Outcome::LeftOut),
        Some(at) if errors > 0 || absent(&whole.answers[at]) => Ok(Outcome::SomeErrors),
        Some(_) => Ok(Outcome::Right),
    }
}

/// Whether the store has nothing at all.
fn is_new(answers: &Answers) -> bool {
    answers.iter().all(|answer| match answer {
        Ok(Answer::Entries(entries, _, left_out)) => entries.is_empty() && *left_out == 0,
        Ok(Answer::Whole(answer)) => [
            "[]",
            "([], None)",
            "(0, 0, 0, 0)",
            &format!("{:?}", SessionRow::default()),
        ]
        .contains(&answer.as_str()),
        Err(error) => error.kind() == ErrorKind::EntryNotFound,
    })
}

fn expected(error: &siltstone_core::Error) -> std::result::Result<(), String> {
    use ErrorKind::{StoreCorrupt, StoreOpen, StoreVersion};
    match error.kind() {
        StoreCorrupt | StoreOpen | StoreVersion => Ok(()),
        kind => Err(format!("{kind:?}: {error:?}")),
    }
}

#[test]
fn a_flipped_bit_gives_an_error_or_the_right_answer() {
    let (place, wholes) = (Place::empty(), make());
    let mut chance = Chance::new(1);
    let mut outcomes = BTreeMap::<_, usize>::new();
    for flip in 0..FLIPS {
        let which = [(&wholes[0], FILE), (&wholes[1], FILE), (&wholes[1], LOG)];
        let (whole, name) = which[flip % which.len()];
        let mut bytes = whole.files.get(name).unwrap().to_vec();
        let bit = chance.below(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let damaged = whole.files.with(name, bytes);
        let told = format!("bit {bit} of {name}");
        let outcome = outcome(&damaged, whole, &place, chance.percent(50));
        let outcome = outcome.unwrap_or_else(|why| panic!("{told}: {why}"));
        if outcome == Outcome::EarlierCommit {
            assert_eq!(name, LOG, "{told}");
            assert!(
                bit / 8 >= whole.last_commit,
                "{told} lost more than the last commit"
            );
        }
        *outcomes.entry((name, outcome)).or_default() += 1;
    }
    println!("{FLIPS} flips: {outcomes:?}");
    let count = |outcome| outcomes.get(&(FILE, outcome)).copied().unwrap_or_default();
    let (errors, left_out) = (count(Outcome::SomeErrors), count(Outcome::LeftOut));
    assert!(errors + left_out > FLIPS / 20 && left_out > 0 && errors > 0);
    assert!(
        outcomes
            .get(&(LOG, Outcome::Error))
            .is_some_and(|&count| count > FLIPS / 20)
    );
}

#[test]
fn a_missing_end_gives_an_error_or_an_earlier_commit() {
    let (place, wholes) = (Place::empty(), make());
    let mut chance = Chance::new(2);
    let mut outcomes = BTreeMap::<_, usize>::new();
    for cut in 0..TRUNCATIONS {
        let which = [(&wholes[0], FILE), (&wholes[1], FILE), (&wholes[1], LOG)];
        let (whole, name) = which[cut % which.len()];
        let bytes = whole.files.get(name).unwrap();
        // Half of them where a page ends.
        let mut length = chance.below(bytes.len());
        if chance.percent(50) {
            length -= length % 4_096;
        }
        let damaged = whole.files.with(name, bytes[..length].to_vec());
        let told = format!("{name} cut to {length} of {} bytes", bytes.len());
        if length == 0 && whole.files.get(LOG).is_none() {
            damaged.lay(&place.files);
            let answers = open_and_ask(&place.path, false).unwrap();
            assert!(is_new(&answers), "{told}: {answers:?}");
            *outcomes.entry((name, Outcome::New)).or_default() += 1;
            continue;
        }
        let outcome = outcome(&damaged, whole, &place, chance.percent(50));
        let outcome = outcome.unwrap_or_else(|why| panic!("{told}: {why}"));
        assert!(outcome != Outcome::EarlierCommit || name == LOG, "{told}");
        *outcomes.entry((name, outcome)).or_default() += 1;
    }
    println!("{TRUNCATIONS} truncations: {outcomes:?}");
    assert!(
        outcomes
            .get(&(FILE, Outcome::Error))
            .is_some_and(|&count| count > TRUNCATIONS / 10)
    );
}
