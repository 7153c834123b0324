//! The steps that a test takes with a store, and the expected state after each.

use std::collections::{BTreeMap, BTreeSet};

use siltstone_core::Result;
use siltstone_core::id::SessionId;
use siltstone_core::memory::{
    Append, CompactionBody, NewCompaction, NewDerived, NewEntry, NewMessage, SearchOptions, Store,
    Target, Write,
};

use crate::chance::Chance;

/// The text that replaces forgotten texts.
const TOMBSTONE: &str = "forgotten";

/// The number of steps after which a new guest session begins. A guest that has left does not come back.
const STAY: usize = 10;

/// The state of a store as readers see it: the log `a`, and the guest sessions beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The texts of the messages, in order.
    pub messages: Vec<String>,
    /// The summary of each compaction, the number of its parent, from 0, and the number of messages it covers.
    pub compactions: Vec<(String, Option<usize>, i64)>,
    /// The number of the compaction whose view is current.
    pub head: Option<usize>,
    /// The text and the range of each entry, and the number of the compaction that brought it.
    pub entries: BTreeSet<(String, (i64, i64), Option<usize>)>,
    /// The texts of the guest sessions, by session.
    pub guests: BTreeMap<String, Vec<String>>,
}

/// A write to the store, which must be done whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Appends three messages.
    Append,
    /// Indexes two entries, one of them from a message.
    Index(usize),
    /// Commits a compaction with two entries.
    Commit(usize),
    /// Undoes the last compaction.
    Undo,
    /// Forgets a message and everything that came from it.
    Forget(i64),
    /// Indexes an entry in a guest session; its text has about this many bytes.
    Visit(usize, usize),
    /// Deletes a guest session.
    Leave(usize),
}

impl Step {
    /// A random step that is possible in `state`. Its texts contain `number`.
    #[must_use]
    pub fn draw(state: &State, number: usize, chance: &mut Chance) -> Self {
        let end = state.messages.len();
        match chance.below(20) {
            5..9 if end > 0 => Self::Index(number),
            9..13 if end > 0 => Self::Commit(number),
            13..15 if state.head.is_some() => Self::Undo,
            15 if end > 0 => Self::Forget(i64::try_from(chance.below(end)).unwrap_or_default()),
            16 if number >= STAY => Self::Leave(chance.below(number - number % STAY)),
            17.. => Self::Visit(number, [40, 2_000, 30_000][chance.below(3)]),
            _ => Self::Append,
        }
    }

    /// Takes the step in the expected state.
    ///
    /// # Panics
    ///
    /// Where there is nothing to undo. `draw` gives no such step.
    pub fn apply(&self, state: &mut State) {
        let end = as_integer(state.messages.len());
        match self {
            Self::Append => {
                let first = state.messages.len();
                let new = (first..first + 3).map(|n| format!("message {n}"));
                state.messages.extend(new);
            }
            Self::Index(number) => {
                state
                    .entries
                    .insert((format!("loose {number}"), (0, 0), None));
                let mud = (format!("mud {number}"), (end - 1, end), None);
                state.entries.insert(mud);
            }
            Self::Commit(number) => {
                let this = state.compactions.len();
                let summary = format!("summary {number}");
                state.compactions.push((summary, state.head, end));
                state.head = Some(this);
                for which in ["one", "two"] {
                    let entry = (format!("{which} {number}"), (end - 1, end), Some(this));
                    state.entries.insert(entry);
                }
            }
            Self::Undo => {
                let head = state.head.expect("a view to go back from");
                state.entries.retain(|entry| entry.2 != Some(head));
                state.head = state.compactions[head].1;
            }
            Self::Forget(seq) => {
                let place = usize::try_from(*seq).expect("a message's number");
                TOMBSTONE.clone_into(&mut state.messages[place]);
                state
                    .entries
                    .retain(|(_, (start, end), _)| !(*start..*end).contains(seq));
                for (summary, _, covered) in &mut state.compactions {
                    if *seq < *covered {
                        TOMBSTONE.clone_into(summary);
                    }
                }
            }
            Self::Visit(number, _) => {
                let texts = state.guests.entry(guest(*number)).or_default();
                texts.push(format!("canary {number}"));
            }
            Self::Leave(number) => {
                state.guests.remove(&guest(*number));
            }
        }
    }

    /// Takes the step in `store`, whose state is `state`. Gives the ids of new entries.
    ///
    /// # Errors
    ///
    /// The errors of the store.
    pub fn take(&self, store: &Store, state: &State) -> Result<Vec<i64>> {
        let (a, end) = (session("a"), as_integer(state.messages.len()));
        let mut ids = Vec::new();
        match self {
            Self::Append => {
                let new: Vec<_> = (end..end + 3)
                    .map(|n| message(&format!("message {n}")))
                    .collect();
                let new = Append {
                    messages: &new,
                    clock: &format!("{end}"),
                    ..Append::default()
                };
                store.append(&a, now(store)?, new)?;
            }
            Self::Index(number) => {
                let loose = entry(&format!("loose {number}"), (0, 0));
                let mud = entry(&format!("mud {number}"), (end - 1, end));
                ids = store.insert(&a, &[loose, mud])?;
            }
            Self::Commit(number) => {
                let entries =
                    ["one", "two"].map(|which| entry(&format!("{which} {number}"), (end - 1, end)));
                let row = compaction(*number, end);
                let committed =
                    store.append_compacted(&a, now(store)?, Append::default(), &row, &entries)?;
                ids = committed.entries;
            }
            Self::Undo => {
                store.undo_compaction(&a, now(store)?, "u")?;
            }
            Self::Forget(seq) => {
                let target = Target {
                    messages: vec![(*seq, TOMBSTONE.to_owned())],
                    ..Target::of(a)
                };
                store.forget(&[target], TOMBSTONE)?;
            }
            Self::Visit(number, bytes) => {
                let text = format!("canary {number} {}", "silt ".repeat(bytes / 5));
                ids = store.insert(&session(&guest(*number)), &[entry(&text, (0, 0))])?;
            }
            Self::Leave(number) => {
                store.delete_session(&session(&guest(*number)))?;
            }
        }
        Ok(ids.into_iter().flatten().map(|id| id.0).collect())
    }
}

/// The state of `store`, and the highest id of an entry.
///
/// # Errors
///
/// The errors of the store.
pub fn look(store: &Store) -> Result<(State, i64)> {
    let a = session("a");
    let log = store.log_state(&a)?;
    let rows = store.compactions(&a)?;
    let number = |id: i64| rows.iter().position(|row| row.id == id);
    let mut state = State {
        head: log.head.and_then(number),
        ..State::default()
    };
    for row in store.messages(&a, 0, log.next_seq)? {
        state.messages.push(row.message.raw);
    }
    for row in &rows {
        let parent = row.parent.and_then(number);
        let texts = store.derived(&a, &row.derived)?.into_iter();
        let summary = texts.map(|derived| derived.text.raw).collect();
        state.compactions.push((summary, parent, row.body.next_seq));
    }
    let mut highest = 0;
    for stored in store.page(&a, None, None, 0, i64::MAX)?.entries {
        let range = (stored.entry.start, stored.entry.end);
        let brought = stored.compaction.and_then(number);
        state.entries.insert((stored.entry.text, range, brought));
        highest = highest.max(stored.id.0);
    }
    for name in store
        .sessions(None, 0, i64::MAX)?
        .0
        .into_iter()
        .map(|row| row.name)
    {
        if name == "a" {
            continue;
        }
        let entries = store
            .page(&session(&name), None, None, 0, i64::MAX)?
            .entries;
        for stored in entries {
            highest = highest.max(stored.id.0);
            let mut words = stored.entry.text.splitn(3, ' ');
            let told: Vec<&str> = words.by_ref().take(2).collect();
            let texts = state.guests.entry(name.clone()).or_default();
            texts.push(told.join(" "));
        }
    }
    Ok((state, highest))
}

/// A write to `a` by a writer that has just read it.
///
/// # Errors
///
/// The errors of the store.
pub fn now(store: &Store) -> Result<Write> {
    let expected = store.version(&session("a"))?.unwrap_or_default();
    Ok(Write { expected, id: 7 })
}

/// The texts of the entries of `a` that a search finds.
///
/// # Errors
///
/// The errors of the store.
pub fn find(store: &Store) -> Result<BTreeSet<String>> {
    let options = SearchOptions {
        limit: 1_000,
        ..SearchOptions::default()
    };
    let hits = store
        .find(&session("a"), "loose mud one two", None, &options)?
        .hits;
    Ok(hits.into_iter().map(|hit| hit.stored.entry.text).collect())
}

/// The session of that name.
///
/// # Panics
///
/// Where the name is out of bounds.
#[must_use]
pub fn session(name: &str) -> SessionId {
    SessionId::new(name).expect("a name of a session")
}

/// An entry of that text and range.
#[must_use]
pub fn entry(text: &str, (start, end): (i64, i64)) -> NewEntry {
    NewEntry {
        text: text.to_owned(),
        start,
        end,
        role: "user".to_owned(),
        kind: "message".to_owned(),
        created_at: 1_700_000_000_000,
        ..NewEntry::default()
    }
}

/// A message of that text.
#[must_use]
pub fn message(raw: &str) -> NewMessage {
    NewMessage {
        raw: raw.to_owned(),
        role: "user".to_owned(),
        dialect: "any".to_owned(),
        provenance: "original".to_owned(),
        tokens: 3,
        created_at: 1_700_000_000_000,
    }
}

/// A compaction of all messages before `end`, with a summary that contains `number`.
#[must_use]
pub fn compaction(number: usize, end: i64) -> NewCompaction {
    let body = CompactionBody {
        policy: "threshold".to_owned(),
        reason: "input_tokens".to_owned(),
        covers: format!("[[0, {end}]]"),
        view: "[-1]".to_owned(),
        next_seq: end,
        usage: "[]".to_owned(),
        ..CompactionBody::default()
    };
    let text = NewDerived {
        level: 1,
        covers: format!("[[0, {end}]]"),
        raw: format!("summary {number}"),
        ..NewDerived::default()
    };
    NewCompaction {
        body,
        derived: vec![text],
    }
}

fn guest(number: usize) -> String {
    format!("guest {}", number / STAY)
}

fn as_integer(length: usize) -> i64 {
    i64::try_from(length).expect("a small number")
}
