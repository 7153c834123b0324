//! Power is cut at any moment: acknowledged writes are there, and no write is half done.
//!
//! Sessions are worked with while every file operation is recorded. Then power is cut at random places of
//! the recording: synced writes stay; of the others any sectors do, in any order. A state is then opened,
//! and must have the acknowledged writes, or one step more. One of them is where the next recording begins, so
//! the work of a store after a power cut is cut as well.
//!
//! `SILTSTONE_POWER_CUTS` says how many states (`make faults`: 20,000).
#![cfg(unix)]

use siltstone_core::Result;
use siltstone_core::memory::{Append, Handle, Store};
use siltstone_faults::sessions::{compaction, entry, now, session};
use siltstone_faults::{
    Call, Chance, Fault, Flaw, Image, Lie, Place, Recording, State, Step, Trouble, judge,
};

/// The variable with the number of wanted states.
const WANTED: &str = "SILTSTONE_POWER_CUTS";
/// States of a run of the tests.
const STATES: usize = 2_000;
/// States that a mutant is given to be caught in; most are in the first ten, where a run of the tests stops.
const MUTANT_STATES: usize = 400;
/// Of so many states one is cut after failures of the disk.
const FAILING: usize = 10;
/// Steps between opening and closing the store.
const STEPS: usize = 30;
/// States that are made of one recording.
const CUTS: usize = 50;
/// Recordings that begin where power was cut in the one before.
const LIVES: usize = 4;

/// A fault of the store, so that the test is known to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// Nothing: the store as it is.
    None,
    /// It runs with that `PRAGMA synchronous`.
    Synchronous(&'static str),
    /// Its syncs do not reach the disk.
    NoSync,
    /// It says that a step is done before it has synced it.
    EarlyWord,
    /// No mutant: calls to the disk fail now and then, and the step is taken again.
    Failing,
    /// It writes the compaction before the entries, in a transaction of its own.
    HistoryFirst,
}

/// The outcomes of the states.
#[derive(Debug, Default)]
struct Tally {
    states: usize,
    lost: usize,
    ahead: usize,
    corrupt: usize,
    first: Option<Flaw>,
}

/// A recording, and the states that its steps led to; the first is where it began.
struct Life {
    recording: Recording,
    states: Vec<State>,
    highest: Vec<i64>,
}

/// Opens the store, takes steps, and closes it or not.
fn live(place: &Place, begin: (State, i64), mutant: Mutant, chance: &mut Chance) -> Life {
    let lie = if mutant == Mutant::NoSync {
        Lie::NoSync
    } else {
        Lie::None
    };
    let (mut state, mut highest) = begin;
    let mut past = (vec![state.clone()], vec![highest]);
    place.disk.record(lie);
    let handle = Handle::open(&place.path, false, None, None).unwrap();
    let store = handle.store().unwrap();
    if let Mutant::Synchronous(mode) = mutant {
        place.disk.set_synchronous(mode);
    }
    for number in 1..=STEPS {
        let named = past.0.len() + 1_000 * usize::try_from(highest).unwrap();
        let step = match Step::draw(&state, named, chance) {
            Step::Undo if mutant == Mutant::HistoryFirst => Step::Append,
            step => step,
        };
        let ids = match (mutant, &step) {
            (Mutant::HistoryFirst, Step::Commit(number)) => {
                history_first(&store, *number, &mut state)
            }
            (Mutant::Failing, step) => {
                place.disk.arm(Fault {
                    at: 1 + chance.below(16) as u64,
                    trouble: Trouble::Io,
                    lasting: false,
                });
                let first = step.take(&store, &state);
                let refused = place.disk.mend();
                assert!(first.is_ok() || !refused.is_empty(), "{first:?}");
                let ids = first.or_else(|_| step.take(&store, &state));
                step.apply(&mut state);
                ids
            }
            (_, step) => {
                let ids = step.take(&store, &state);
                step.apply(&mut state);
                ids
            }
        };
        highest = ids.unwrap().into_iter().fold(highest, i64::max);
        place.disk.acknowledged(number);
        past.0.push(state.clone());
        past.1.push(highest);
    }
    let kept = chance.percent(50).then(|| place.disk.recorded());
    drop(store);
    handle.close(); // which empties the log into the file, and is recorded for every other life
    let recording = kept.unwrap_or_else(|| place.disk.recorded());
    let recording = match mutant {
        Mutant::EarlyWord => recording.with_early_words(),
        _ => recording,
    };
    Life {
        recording,
        states: past.0,
        highest: past.1,
    }
}

/// The compaction, and then its entries.
fn history_first(store: &Store, number: usize, state: &mut State) -> Result<Vec<i64>> {
    let (a, end) = (session("a"), i64::try_from(state.messages.len()).unwrap());
    store.append_compacted(
        &a,
        now(store)?,
        Append::default(),
        &compaction(number, end),
        &[],
    )?;
    let entries = ["one", "two"].map(|which| entry(&format!("{which} {number}"), (end - 1, end)));
    let ids = store.insert(&a, &entries)?;
    let this = state.compactions.len();
    state
        .compactions
        .push((format!("summary {number}"), state.head, end));
    state.head = Some(this);
    for entry in entries {
        state
            .entries
            .insert((entry.text, (entry.start, entry.end), None));
    }
    Ok(ids.into_iter().flatten().map(|id| id.0).collect())
}

/// Cuts power in `count` states; stops at the first flaw if `impatient`.
fn cut(count: usize, mutant: Mutant, seed: u64, impatient: bool) -> Tally {
    let (place, ruin) = (Place::empty(), Place::empty());
    let mut chance = Chance::new(seed);
    let mut tally = Tally::default();
    let mut begin = (Image::default(), State::default(), 0);
    let mut lives = 0;
    while tally.states < count {
        if lives % LIVES == 0 {
            begin = (Image::default(), State::default(), 0);
        }
        lives += 1;
        begin.0.lay(&place.files);
        let life = live(&place, (begin.1.clone(), begin.2), mutant, &mut chance);
        for _ in 0..CUTS.min(count - tally.states) {
            let at = chance.below(life.recording.len() + 1);
            let image = life.recording.cut(at, &mut chance);
            image.lay(&ruin.files);
            let acknowledged = life.recording.acknowledged(at).unwrap_or_default();
            let next = (acknowledged + 1).min(STEPS);
            let states = [&life.states[acknowledged], &life.states[next]];
            let verdict = judge(&ruin.path, &states, life.highest[acknowledged]);
            tally.states += 1;
            match verdict {
                Ok(found) => begin = (image, states[found.state].clone(), found.highest),
                Err(flaw) => {
                    match flaw {
                        Flaw::Corrupt(_) => tally.corrupt += 1,
                        Flaw::Ahead(_) => tally.ahead += 1,
                        Flaw::Lost(_) => tally.lost += 1,
                    }
                    tally.first.get_or_insert(flaw);
                    if impatient {
                        return tally;
                    }
                }
            }
        }
    }
    tally
}

/// As many states as are asked for, or else `usual`.
fn states(usual: usize) -> usize {
    let wanted = std::env::var(WANTED);
    wanted.map_or(usual, |wanted| wanted.parse().expect("a number of states"))
}

/// Whether the mutants are to be counted, and not only caught.
fn is_long() -> bool {
    std::env::var_os(WANTED).is_some()
}

#[test]
fn nothing_acknowledged_is_lost_and_history_is_never_ahead_of_the_index() {
    let states = states(STATES);
    let tally = cut(states, Mutant::None, 1, true);
    println!(
        "{} states: {} lost something, {} had history ahead of the index, {} were corrupt",
        tally.states, tally.lost, tally.ahead, tally.corrupt
    );
    assert_eq!(tally.first, None, "after {} states", tally.states);
    assert_eq!(tally.states, states);
}

/// Writes that a sync did not bring to the disk are not brought by a later one; so a later success proves nothing.
#[test]
fn nothing_is_lost_when_the_disk_fails_before_the_power_does() {
    let tally = cut(states(STATES) / FAILING, Mutant::Failing, 3, true);
    println!("{} states after failures of the disk", tally.states);
    assert_eq!(tally.first, None, "after {} states", tally.states);
}

/// Bytes of a frame of the log.
const FRAME: usize = 24 + 4_096;

/// Whether a frame at `offset` of the log has its mark of a commit and its salts in one sector, and its checksum in the
/// next.
fn is_parted(offset: usize) -> bool {
    (offset + 16).is_multiple_of(512)
}

fn log_bytes(place: &Place) -> usize {
    let image = Image::of(&place.files);
    image.get("memory.sqlite3-wal").map_or(0, <[u8]>::len)
}

/// Takes the only step of `recording`, the step from the first to the last of `states`, apart: the disk stops behind each
/// sector that was written. Until the step is acknowledged, the store is in one of `states`.
fn stop_everywhere(recording: &Recording, ruin: &Place, states: &[&State], chance: &mut Chance) {
    for at in 0..recording.len() {
        let is_done = recording.acknowledged(at + 1).is_some();
        let states = &states[if is_done { states.len() - 1 } else { 0 }..];
        for sectors in 1.. {
            let Some(image) = recording.stopped(at, sectors, chance) else {
                break;
            };
            image.lay(&ruin.files);
            let found = judge(&ruin.path, states, 0);
            assert!(
                found.is_ok(),
                "sector {sectors} of operation {at}: {found:?}"
            );
        }
    }
}

/// The head of a frame may stand in two sectors: its mark of a commit in one, its checksum in the other. Power that is
/// cut between the two must not make commits of the frames that an unfinished transaction left, be it one that failed
/// or one that power cut off.
#[test]
fn nothing_is_written_over_what_an_unfinished_transaction_left() {
    /// The refused call of the transaction that is not finished, and an operation before it, behind a whole frame.
    const REFUSED: u64 = 24;
    const BEFORE: usize = 21;
    let (place, ruin) = (Place::empty(), Place::empty());
    let mut chance = Chance::new(5);
    let (mut is_failed, mut is_cut_off, mut frames) = (false, false, 1);
    for _ in 0..4 {
        Image::default().lay(&place.files);
        let handle = Handle::open(&place.path, false, None, None).unwrap();
        let store = handle.store().unwrap();
        let mut before = State::default();
        let steps = 3;
        for number in 1..=steps {
            let step = Step::Visit(number, 40);
            step.take(&store, &before).unwrap();
            step.apply(&mut before);
        }
        // The first frame of the next step, or the last one of as many frames as the step has, is to be parted.
        while !is_parted(log_bytes(&place) + (frames - 1) * FRAME) {
            place.disk.commit_a_page();
        }
        let (long, short) = (Step::Visit(steps + 1, 30_000), Step::Visit(steps + 2, 40));
        let (mut longer, mut after) = (before.clone(), before.clone());
        long.apply(&mut longer);
        short.apply(&mut after);
        let begun = log_bytes(&place);
        place.disk.record(Lie::None);
        place.disk.arm(Fault {
            at: REFUSED,
            trouble: Trouble::Io,
            lasting: false,
        });
        assert!(long.take(&store, &before).is_err());
        assert_eq!(place.disk.mend(), [Call::Write]);
        short.take(&store, &before).unwrap();
        place.disk.acknowledged(1);
        let recording = place.disk.recorded();
        drop(store);
        handle.close();
        let image = recording.stopped(BEFORE, 1, &mut chance).unwrap();
        if is_parted(begun) {
            is_failed = true;
            stop_everywhere(&recording, &ruin, &[&before, &longer, &after], &mut chance);
        }

        image.lay(&place.files);
        let handle = Handle::open(&place.path, false, None, None).unwrap();
        let store = handle.store().unwrap();
        place.disk.record(Lie::None);
        short.take(&store, &before).unwrap();
        place.disk.acknowledged(1);
        let recording = place.disk.recorded();
        if is_parted(recording.end() - FRAME) {
            is_cut_off = true;
            stop_everywhere(&recording, &ruin, &[&before, &after], &mut chance);
        }
        if is_failed && is_cut_off {
            return;
        }
        frames = (recording.end() - begun) / FRAME;
    }
    panic!("no frame was parted: {is_failed} {is_cut_off}");
}

/// A process that dies between its write and its sync leaves a commit that power can take away. Whoever opens the
/// store then finds it, and answers a second try with "stored already".
#[test]
fn an_opening_syncs_the_commits_that_a_dead_process_had_not_synced() {
    let (place, other) = (Place::empty(), Place::empty());
    let handle = Handle::open(&place.path, false, None, None).unwrap();
    let store = handle.store().unwrap();
    Step::Visit(1, 40).take(&store, &State::default()).unwrap();
    for name in ["memory.sqlite3", "memory.sqlite3-wal"] {
        std::fs::copy(place.files.join(name), other.files.join(name)).unwrap();
    }
    let died = log_bytes(&other);
    assert!(died > 0);

    other.disk.record(Lie::None);
    let second = Handle::open(&other.path, false, None, None).unwrap();
    assert!(other.disk.recorded().syncs() > 0);
    assert_eq!(log_bytes(&other), died, "nothing is written for it");
    second.close();
    drop(store);
    handle.close();

    other.disk.record(Lie::None);
    let third = Handle::open(&other.path, false, None, None).unwrap();
    assert_eq!(
        other.disk.recorded().syncs(),
        0,
        "a closed store has no log"
    );
    third.close();
}

/// A test of power cuts that passes says nothing unless it fails where it should.
#[test]
fn every_mutant_is_caught() {
    for mutant in [
        Mutant::Synchronous("NORMAL"),
        Mutant::Synchronous("OFF"),
        Mutant::NoSync,
        Mutant::EarlyWord,
        Mutant::HistoryFirst,
    ] {
        let tally = cut(MUTANT_STATES, mutant, 2, !is_long());
        println!(
            "{mutant:?}: of {} states {} lost something, {} had history ahead, {} were corrupt",
            tally.states, tally.lost, tally.ahead, tally.corrupt
        );
        let caught = match mutant {
            Mutant::HistoryFirst => tally.ahead,
            _ => tally.lost + tally.ahead + tally.corrupt,
        };
        assert!(caught > 0, "{mutant:?} was not noticed: {tally:?}");
    }
}
