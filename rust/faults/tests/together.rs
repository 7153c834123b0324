//! Writers of one store share commits. Whatever the disk does, each finds what was acknowledged to it, and no more.
//!
//! Each writer appends to a session of its own, on a thread of its own. Half of them also index an entry, and one
//! writes what is refused. A disk whose syncs take a while makes the others wait, and so write together.
//!
//! `SILTSTONE_POWER_CUTS` and `SILTSTONE_REFUSALS` make the tests longer, as those of one writer.
#![cfg(unix)]

use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use siltstone_core::ErrorKind;
use siltstone_core::memory::{Append, Handle, SessionVersion, Store, Write};
use siltstone_faults::sessions::{entry, message, session};
use siltstone_faults::{Call, Chance, Fault, Image, Lie, Place, Recording, Trouble};

const WRITERS: usize = 4;
/// Appends of each writer.
const APPENDS: usize = 12;
/// States that are made of one recording.
const CUTS: usize = 50;
/// States of a run of the tests.
const STATES: usize = 300;
/// Calls that are refused in a run of the tests, one in each run.
const REFUSALS: u64 = 60;
/// How long a sync takes, so that others come to wait for it.
const SYNC: Duration = Duration::from_micros(300);

fn name(writer: usize) -> String {
    format!("writer {writer}")
}

fn text(writer: usize, number: usize) -> String {
    format!("silt {writer} {number}")
}

/// Appends a message.
fn append(
    store: &Store,
    writer: usize,
    number: usize,
    expected: SessionVersion,
) -> siltstone_core::Result<SessionVersion> {
    let own = session(&name(writer));
    let new = Append {
        messages: &[message(&text(writer, number))],
        clock: &format!("{number}"),
        ..Append::default()
    };
    let version = store.append(&own, Write { expected, id: 7 }, new)?;
    Ok(version.unwrap())
}

/// Checks that the store at `path` is whole, and gives the number of messages of each writer.
fn found(path: &Path) -> Vec<usize> {
    let handle = Handle::open(path, false, None, None).unwrap();
    let store = handle.store().unwrap();
    assert_eq!(store.check().unwrap(), []);
    let numbers = (0..WRITERS).map(|writer| {
        let own = session(&name(writer));
        let messages = store.messages(&own, 0, i64::MAX).unwrap();
        let texts: Vec<String> = messages.into_iter().map(|row| row.message.raw).collect();
        let expected: Vec<String> = (0..texts.len())
            .map(|number| text(writer, number))
            .collect();
        assert_eq!(texts, expected);
        texts.len()
    });
    numbers.collect()
}

/// The recording of all writers at once. Step `writer * 1_000 + number` is their append of that number.
fn write_at_once(place: &Place, begin: &Image) -> Recording {
    begin.lay(&place.files);
    place.disk.record(Lie::None);
    place.disk.set_sync_time(SYNC);
    let handle = Handle::open(&place.path, false, None, None).unwrap();
    let barrier = Barrier::new(WRITERS + 1);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (handle, barrier) = (&handle, &barrier);
            scope.spawn(move || {
                let store = handle.store().unwrap();
                let own = session(&name(writer));
                let mut version = store.version(&own).unwrap().unwrap();
                let first = usize::try_from(version.next_seq).unwrap();
                barrier.wait();
                for number in first..first + APPENDS {
                    version = append(&store, writer, number, version).unwrap();
                    place.disk.acknowledged(writer * 1_000 + number);
                    if writer % 2 == 0 {
                        store
                            .insert(&own, &[entry(&text(writer, number), (0, 0))])
                            .unwrap();
                    }
                }
            });
        }
        // Whose writes are refused again and again: they take nobody with them.
        let store = handle.store().unwrap();
        barrier.wait();
        for _ in 0..APPENDS {
            let stale = SessionVersion {
                next_seq: 77,
                ..SessionVersion::default()
            };
            let error = append(&store, WRITERS, 0, stale).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StoreConflict);
        }
    });
    place.disk.recorded()
}

#[test]
fn what_was_acknowledged_to_each_of_several_writers_survives_a_power_cut() {
    let wanted = std::env::var("SILTSTONE_POWER_CUTS").map_or(STATES, |wanted| {
        wanted.parse::<usize>().expect("a number of states") / 10
    });
    let (place, ruin) = (Place::empty(), Place::empty());
    let mut chance = Chance::new(5);
    let mut begin = Image::default();
    let (mut states, mut shared, mut ahead) = (0, 0, 0);
    while states < wanted {
        let recording = write_at_once(&place, &begin);
        shared += usize::from(recording.syncs() < WRITERS * APPENDS);
        begin = Image::default();
        for _ in 0..CUTS.min(wanted - states) {
            let at = chance.below(recording.len() + 1);
            let image = recording.cut(at, &mut chance);
            image.lay(&ruin.files);
            let found = found(&ruin.path);
            for (writer, found) in found.into_iter().enumerate() {
                let of_writer = recording.all_acknowledged(at);
                let last = of_writer.filter(|step| step / 1_000 == writer).last();
                let Some(last) = last else { continue };
                let acknowledged = last % 1_000 + 1;
                assert!(
                    (acknowledged..=acknowledged + 1).contains(&found),
                    "writer {writer} has {found} messages after {acknowledged} at {at}"
                );
                ahead += usize::from(found > acknowledged);
            }
            begin = image;
            states += 1;
        }
    }
    println!("{states} states; {shared} recordings shared commits; {ahead} times one was ahead");
    assert!(shared > 0, "no commit was shared");
}

#[test]
fn whichever_call_is_refused_each_of_several_writers_is_told_of_its_own() {
    let all = std::env::var("SILTSTONE_REFUSALS").is_ok_and(|wanted| wanted == "all");
    let runs = if all { 20 * REFUSALS } else { REFUSALS };
    let place = Place::empty();
    let (mut told, mut together) = (0, 0);
    for run in 0..runs {
        Image::default().lay(&place.files);
        place.disk.set_sync_time(SYNC);
        let handle = Handle::open(&place.path, false, None, None).unwrap();
        for writer in 0..WRITERS {
            append(
                &handle.store().unwrap(),
                writer,
                0,
                SessionVersion::default(),
            )
            .unwrap();
        }
        let trouble = [Trouble::Io, Trouble::NoSpace][usize::try_from(run % 2).unwrap()];
        place.disk.arm(Fault {
            at: 1 + run / 2 % REFUSALS,
            trouble,
            lasting: false,
        });
        let barrier = Barrier::new(WRITERS);
        let failed: Vec<usize> = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (handle, barrier) = (&handle, &barrier);
                    scope.spawn(move || {
                        let store = handle.store().unwrap();
                        let mut version = store.version(&session(&name(writer))).unwrap().unwrap();
                        let mut failed = 0;
                        barrier.wait();
                        for number in 1..=APPENDS {
                            // A write that raised has left nothing, so the same write is not refused. A write that
                            // was acknowledged stays, so the next one is not refused either.
                            version = loop {
                                match append(&store, writer, number, version) {
                                    Ok(version) => break version,
                                    Err(error) => {
                                        assert_eq!(error.kind(), ErrorKind::StoreIo, "{error}");
                                        failed += 1;
                                    }
                                }
                            };
                        }
                        failed
                    })
                })
                .collect();
            let writers = writers.into_iter();
            writers.map(|writer| writer.join().unwrap()).collect()
        });
        let refused = place.disk.mend();
        let failed = failed.into_iter().filter(|&failed| failed > 0).count();
        assert!(failed == 0 || !refused.is_empty());
        let is_commit = matches!(refused[..], [Call::Write | Call::Sync]);
        told += usize::from(is_commit && failed > 0);
        together += usize::from(failed > 1);
        drop(handle);
        assert_eq!(found(&place.path), [APPENDS + 1; WRITERS], "run {run}");
    }
    println!("{runs} runs: in {told} writers were told, in {together} several of them");
    assert!(told > 0 && together > 0, "{told} and {together}");
}
