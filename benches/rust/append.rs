//! The cost of a durable message beside a plain insert: the same disk, the same pragmas, side by side.
//!
//! A commit waits for the disk, whose speed changes from minute to minute. So the two take turns, and what
//! counts is the ratio of their medians.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior, params};
use siltstone_benches::texts;
use siltstone_core::id::SessionId;
use siltstone_core::memory::{Append, Handle, NewMessage, Store, Write};

/// Bytes of a message.
const BYTES: usize = 1_000;
/// Commits of each kind.
const ROUNDS: usize = 300;
/// Messages that share a commit, in the second half.
const BATCH: usize = 100;

fn main() {
    if cfg!(debug_assertions) {
        println!("a debug build measures nothing");
        return;
    }
    let directory = tempfile::tempdir_in(".").expect("room for two stores");
    for (name, batch, rounds) in [("one", 1, ROUNDS), ("batch", BATCH, ROUNDS / 5)] {
        let handle =
            Handle::open(&directory.path().join(name), false, None, None).expect("a new store");
        let store = handle.store().expect("it is open");
        let mut plain = plain(&directory.path().join(format!("{name}.sqlite3")));
        let texts = texts(11, batch * rounds, BYTES);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (round, texts) in texts.chunks(batch).enumerate() {
            // Who is first in one round is second in the next.
            if round % 2 == 0 {
                ours.push(append(&store, texts));
            }
            theirs.push(insert(&mut plain, texts));
            if round % 2 == 1 {
                ours.push(append(&store, texts));
            }
        }
        check(&store, &plain, &texts);
        let (ours, theirs) = (median(ours), median(theirs));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!(
            "append/{batch}-messages-of-{BYTES}-bytes: store {ours:?}, plain SQLite {theirs:?}, ratio {ratio:.2}"
        );
    }
}

/// A database with one table, opened as a store is.
fn plain(file: &Path) -> Connection {
    let connection = Connection::open(file).expect("a new database");
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON;
             PRAGMA checkpoint_fullfsync = ON; PRAGMA secure_delete = ON; PRAGMA cell_size_check = ON;
             PRAGMA foreign_keys = ON; PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY;
             CREATE TABLE message (id INTEGER PRIMARY KEY, raw TEXT NOT NULL) STRICT;",
        )
        .expect("a new table");
    connection
}

fn insert(plain: &mut Connection, texts: &[String]) -> Duration {
    let begin = Instant::now();
    let transaction = plain
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .expect("nobody else writes");
    for text in texts {
        transaction
            .prepare_cached("INSERT INTO message (raw) VALUES (?1)")
            .and_then(|mut statement| statement.execute(params![text]))
            .expect("room");
    }
    transaction.commit().expect("room");
    begin.elapsed()
}

fn append(store: &Store, texts: &[String]) -> Duration {
    let session = SessionId::new("a").expect("a name");
    let version = store.version(&session).expect("it is open");
    let message = |text: &String| NewMessage {
        raw: text.clone(),
        role: "user".to_owned(),
        dialect: "any".to_owned(),
        provenance: "original".to_owned(),
        tokens: 250,
        created_at: 1_700_000_000_000,
    };
    let messages: Vec<_> = texts.iter().map(message).collect();
    let write = Write {
        expected: version.unwrap_or_default(),
        id: 7,
    };
    let append = Append {
        messages: &messages,
        ..Append::default()
    };
    let begin = Instant::now();
    store.append(&session, write, append).expect("room");
    begin.elapsed()
}

/// Panics unless both hold the texts.
fn check(store: &Store, plain: &Connection, texts: &[String]) {
    let session = SessionId::new("a").expect("a name");
    let messages = store.messages(&session, 0, i64::MAX).expect("a whole log");
    assert!(messages.iter().map(|row| &row.message.raw).eq(texts));
    let mut statement = plain
        .prepare("SELECT raw FROM message ORDER BY id")
        .expect("a table");
    let rows = statement
        .query_map([], |row| row.get::<_, String>(0))
        .expect("rows");
    assert!(
        rows.map(|row| row.expect("a text"))
            .eq(texts.iter().cloned())
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
