//! A full disk, and a disk that fails: at every call in turn. Acknowledged writes stay, and no others.
//!
//! The same steps are taken over and over, and each time another call to the file system is refused, once
//! or from then on. A call that raised has changed nothing: not for who has the store open, not for who opens the
//! files as they are at that moment, not after the disk was mended. Then the store takes the step.
//!
//! `SILTSTONE_REFUSALS=all` refuses every call in turn (`make faults`); a run of the tests takes one
//! in a few of them.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::path::Path;

use siltstone_core::ErrorKind;
use siltstone_core::memory::Handle;
use siltstone_faults::sessions::look;
use siltstone_faults::{Call, Fault, Image, Place, State, Step, Trouble, judge};

/// Every kind of step, and some that write more than fits into the log before it is emptied.
const STEPS: [Step; 11] = [
    Step::Append,
    Step::Index(1),
    Step::Visit(2, 2_000),
    Step::Commit(3),
    Step::Append,
    Step::Commit(4),
    Step::Undo,
    Step::Forget(2),
    Step::Visit(5, 40),
    Step::Leave(2),
    Step::Append,
];

/// Of so many calls of a kind one is refused in a run of the tests.
const STRIDE: usize = 7;

/// The result of one refusal.
#[derive(Debug, Default)]
struct Outcome {
    refused: Vec<Call>,
    /// The error that a caller saw.
    errors: Vec<ErrorKind>,
    /// How often a step that raised was found done by who opened the files then.
    found_done: usize,
}

fn open(path: &Path) -> siltstone_core::Result<Handle> {
    Handle::open(path, false, None, None)
}

/// Takes the steps while `fault` is waiting. Panics where a promise is broken.
fn endure(fault: Fault, place: &Place, ruin: &Place) -> Outcome {
    Image::default().lay(&place.files);
    let mut outcome = Outcome::default();
    let (mut state, mut highest) = (State::default(), 0);
    place.disk.arm(fault);
    let mut handle = None;
    for step in &STEPS {
        loop {
            if handle.is_none() {
                match open(&place.path) {
                    Ok(opened) => handle = Some(opened),
                    Err(error) => {
                        let kinds = [ErrorKind::StoreOpen, ErrorKind::StoreIo];
                        assert!(kinds.contains(&error.kind()), "{fault:?}: {error}");
                        outcome.errors.push(error.kind());
                        outcome.refused.extend(place.disk.mend());
                        continue;
                    }
                }
            }
            let opened = handle.as_ref().unwrap();
            let store = opened.store().unwrap();
            let error = match step.take(&store, &state) {
                Ok(ids) => {
                    highest = ids.into_iter().fold(highest, i64::max);
                    step.apply(&mut state);
                    break;
                }
                Err(error) => error,
            };
            let told = format!("{fault:?} in {step:?}: {error}");
            let read_only = opened.is_read_only();
            let expected = if read_only {
                ErrorKind::ReadOnlyStore
            } else {
                ErrorKind::StoreIo
            };
            assert_eq!(error.kind(), expected, "{told}");
            assert_eq!(look(&store).unwrap().0, state, "{told}: to who has it open");
            // As if the process were killed now: the files as they are, without the shared memory.
            Image::of(&place.files).lay(&ruin.files);
            let mut done = state.clone();
            step.apply(&mut done);
            // Where nothing can be written at all, the commit that failed cannot be taken back.
            let may = if fault.lasting {
                vec![&state, &done]
            } else {
                vec![&state]
            };
            let found = judge(&ruin.path, &may, highest);
            assert!(found.is_ok(), "{told}: to who opens it then: {found:?}");
            outcome.found_done += usize::from(found.is_ok_and(|found| found.state == 1));
            outcome.errors.push(error.kind());
            let refused = place.disk.mend();
            assert!(!refused.is_empty(), "{told}, though nothing was refused");
            outcome.refused.extend(refused);
            if read_only {
                handle = None; // a store that is open for reading stays so
            }
        }
    }
    drop(handle);
    outcome.refused.extend(place.disk.mend());
    let found = judge(&place.path, &[&state], highest);
    assert!(found.is_ok(), "{fault:?}: in the end: {found:?}");
    outcome
}

/// The calls that are there to be refused.
fn calls(place: &Place, ruin: &Place) -> Vec<Call> {
    let never = Fault {
        at: u64::MAX,
        trouble: Trouble::Io,
        lasting: false,
    };
    let outcome = endure(never, place, ruin);
    assert!(outcome.refused.is_empty() && outcome.errors.is_empty());
    place.disk.calls()
}

/// Numbers of calls, from 1: of each kind one in `stride`, beginning with the one at `first`.
fn sample(calls: &[Call], first: usize, stride: usize) -> Vec<u64> {
    let mut before = BTreeMap::<Call, usize>::new();
    let mut numbers = Vec::new();
    for (number, &call) in (1..).zip(calls) {
        let place = before.entry(call).or_default();
        if *place % stride == first % stride {
            numbers.push(number);
        }
        *place += 1;
    }
    numbers
}

#[test]
fn whichever_call_is_refused_the_store_holds_what_it_acknowledged() {
    let (place, ruin) = (Place::empty(), Place::empty());
    let all = std::env::var("SILTSTONE_REFUSALS").is_ok_and(|wanted| wanted == "all");
    let stride = if all { 1 } else { STRIDE };
    let calls = calls(&place, &ruin);
    let (mut runs, mut seen) = (0, BTreeMap::<Call, usize>::new());
    let (mut told, mut found_done) = (0, 0);
    for (offset, (trouble, lasting)) in [
        (Trouble::NoSpace, false),
        (Trouble::NoSpace, true),
        (Trouble::Io, false),
        (Trouble::Io, true),
    ]
    .into_iter()
    .enumerate()
    {
        for at in sample(&calls, offset, stride) {
            let outcome = endure(
                Fault {
                    at,
                    trouble,
                    lasting,
                },
                &place,
                &ruin,
            );
            runs += 1;
            told += usize::from(!outcome.errors.is_empty());
            found_done += outcome.found_done;
            for call in outcome.refused {
                *seen.entry(call).or_default() += 1;
            }
        }
    }
    println!(
        "{runs} runs over {} calls; refused {seen:?}; the caller was told in {told} runs, and in \
         {found_done} of them a step that had raised was found done",
        calls.len()
    );
    for call in [
        Call::Create,
        Call::Write,
        Call::Truncate,
        Call::Sync,
        Call::Share,
    ] {
        assert!(
            seen.contains_key(&call),
            "no {call:?} was refused: {seen:?}"
        );
    }
    assert!(told > runs / 3, "{told} of {runs} runs");
}

#[test]
fn a_connection_whose_sync_failed_is_not_used_again() {
    let place = Place::empty();
    let handle = open(&place.path).unwrap();
    let store = handle.store().unwrap();
    let mut state = State::default();
    let mut replaced = 0;
    for at in 1..20 {
        let before = place.disk.connections_opened();
        place.disk.arm(Fault {
            at,
            trouble: Trouble::Io,
            lasting: false,
        });
        let failed = Step::Append.take(&store, &state).is_err();
        let refused = place.disk.mend();
        assert_eq!(
            failed,
            refused.contains(&Call::Write) || refused.contains(&Call::Sync)
        );
        assert_eq!(
            failed,
            place.disk.connections_opened() > before,
            "{refused:?}"
        );
        replaced += usize::from(refused == [Call::Sync]);
        if failed {
            assert_eq!(look(&store).unwrap().0, state);
            Step::Append.take(&store, &state).unwrap();
        }
        Step::Append.apply(&mut state);
        assert_eq!(look(&store).unwrap().0, state);
    }
    assert!(replaced > 0, "no sync was refused");
}
