//! `kill -9` at any moment: acknowledged writes are there, other writes are whole or absent.
#![cfg(unix)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{append, compaction, entry, found, message, now, session};
use siltstone_core::memory::{Append, Handle};

const DIRECTORY: &str = "SILTSTONE_CRASH_DIRECTORY";
const KILLS: u64 = 20;
/// The sessions of the threads that append beside the one that does everything.
const BESIDE: [&str; 3] = ["b", "c", "d"];

/// Not a test by itself: the work of the process that is killed, started by the test below.
#[test]
#[ignore = "the child of the crash test"]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let handle = Handle::open(Path::new(&directory), false, None, None).unwrap();
    let (store, a) = (handle.store().unwrap(), session("a"));
    let mut out = std::io::stdout();
    // Whoever appends beside it shares its commits.
    for beside in BESIDE {
        let store = handle.store().unwrap();
        std::thread::spawn(move || {
            for n in store.log_state(&session(beside)).unwrap().next_seq.. {
                append(&store, beside, &[message(&format!("{beside} {n}"))], "");
                writeln!(std::io::stdout(), "\nbeside {beside} {n}").unwrap();
            }
        });
    }
    loop {
        let state = store.log_state(&a).unwrap();
        let n = state.next_seq;
        append(
            &store,
            "a",
            &[message(&format!("message {n}"))],
            &format!("{n}"),
        );
        writeln!(out, "\nappended {n}").unwrap();
        let entries = [
            entry(&format!("silt one {n}")),
            entry(&format!("silt two {n}")),
        ];
        let committed = store
            .append_compacted(
                &a,
                now(&store, "a"),
                Append {
                    clock: &format!("{n}"),
                    ..Append::default()
                },
                &compaction(&format!("summary {n}"), n),
                &entries,
            )
            .unwrap();
        writeln!(out, "\ncommitted {} {n}", committed.compaction).unwrap();
        let id = store.insert(&a, &[entry(&format!("loose {n}"))]).unwrap()[0].unwrap();
        writeln!(out, "\ninserted {} {n}", id.0).unwrap();
        out.flush().unwrap();
    }
}

/// The reports of the child before it died, one on each line.
fn run_and_kill(directory: &Path, after: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut reported = Vec::new();
    // From the first report on, so that a slow start is not taken for a crash.
    for line in lines.by_ref() {
        let line = line.unwrap();
        if line.starts_with("appended") {
            reported.push(line);
            break;
        }
    }
    std::thread::sleep(after);
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    reported.extend(lines.map_while(Result::ok));
    reported
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_done() {
    let directory = tempfile::tempdir().unwrap();
    let (mut highest_id, mut appended_beside) = (0, 0);
    for kill in 0..KILLS {
        let reported = run_and_kill(directory.path(), Duration::from_millis(3 * kill % 40));
        let handle = Handle::open(directory.path(), false, None, None).unwrap();
        let (store, a) = (handle.store().unwrap(), session("a"));
        let state = store.log_state(&a).unwrap();
        let messages = store.messages(&a, 0, i64::MAX).unwrap();
        let compactions = store.compactions(&a).unwrap();
        let entries = store.page(&a, None, None, 0, i64::MAX).unwrap().entries;
        let has = |text: &str| {
            entries
                .iter()
                .filter(|stored| stored.entry.text == text)
                .count()
        };

        let beside = BESIDE.map(|name| store.messages(&session(name), 0, i64::MAX).unwrap());
        for (name, messages) in BESIDE.iter().zip(&beside) {
            for (n, row) in messages.iter().enumerate() {
                assert_eq!(row.message.raw, format!("{name} {n}"));
            }
        }
        for line in &reported {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["appended", n] => {
                    let n: usize = n.parse().unwrap();
                    assert_eq!(messages[n].message.raw, format!("message {n}"));
                }
                ["beside", name, n] => {
                    let n: usize = n.parse().unwrap();
                    let place = BESIDE.iter().position(|each| *each == name).unwrap();
                    assert!(n < beside[place].len(), "{line}");
                    appended_beside += 1;
                }
                ["committed", id, n] => {
                    let row = compactions
                        .iter()
                        .find(|row| row.id.to_string() == id)
                        .expect(line);
                    assert_eq!(
                        store.derived(&a, &row.derived).unwrap()[0].text.raw,
                        format!("summary {n}")
                    );
                }
                ["inserted", id, n] => {
                    assert_eq!(has(&format!("loose {n}")), 1, "{line}");
                    highest_id = highest_id.max(id.parse().unwrap());
                }
                _ => {} // the test harness speaks too
            }
        }
        // A compaction and its entries are one: each has both of its two, or there is no such row.
        for row in &compactions {
            let n = row.body.next_seq;
            assert_eq!(
                (has(&format!("silt one {n}")), has(&format!("silt two {n}"))),
                (1, 1),
                "{row:?}"
            );
        }
        let committed = entries
            .iter()
            .filter(|stored| stored.entry.text.starts_with("silt"))
            .count();
        assert_eq!(committed, 2 * compactions.len());
        assert_eq!(state.head, compactions.last().map(|row| row.id));
        // Their neighbours may be found too.
        let silt = found(&store, "a", "silt")
            .into_iter()
            .filter(|(_, text)| text.starts_with("silt"));
        assert_eq!(silt.count(), committed.min(1_000));
        let next = store.insert(&a, &[entry("after the crash")]).unwrap()[0]
            .unwrap()
            .0;
        assert!(next > highest_id, "id {next} after {highest_id}");
        highest_id = next;
    }
    assert!(appended_beside > KILLS, "{appended_beside}");
    assert!(
        highest_id > i64::try_from(KILLS).unwrap() * 2,
        "the children did hardly anything"
    );
}
