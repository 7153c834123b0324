//! Checks whether a store keeps its promises after a fault.

use std::path::Path;

use siltstone_core::memory::Handle;

use crate::sessions::{State, Step, find, look};

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The store cannot be opened or read, or its own check finds a fault.
    Corrupt(String),
    /// A compaction exists without the entries that it discarded: the history is ahead of the index.
    Ahead(String),
    /// An acknowledged write is missing, or the store holds data that was never written.
    Lost(String),
}

/// The state in which an intact store was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number of the state among the allowed states.
    pub state: usize,
    /// The highest known id of an entry.
    pub highest: i64,
}

/// Opens the store at `path`. It must be intact and in one of `states`, and must not give ids up to `highest` again.
///
/// # Errors
///
/// The broken promise.
pub fn judge(path: &Path, states: &[&State], highest: i64) -> Result<Found, Flaw> {
    let corrupt = |error: siltstone_core::Error| Flaw::Corrupt(format!("{error}"));
    let handle = Handle::open(path, false, None, None).map_err(corrupt)?;
    let store = handle.store().map_err(corrupt)?;
    let findings = store.check().map_err(corrupt)?;
    if let Some(finding) = findings.first() {
        return Err(Flaw::Corrupt(format!("{finding:?}")));
    }
    let (seen, last) = look(&store).map_err(corrupt)?;
    let Some(state) = states.iter().position(|state| **state == seen) else {
        return Err(told(&seen, states));
    };
    let found = find(&store).map_err(corrupt)?;
    if seen.entries.len() < 1_000
        && found != seen.entries.iter().map(|entry| entry.0.clone()).collect()
    {
        return Err(Flaw::Corrupt(format!("a search finds {found:?}")));
    }
    let ids = Step::Visit(usize::MAX, 40)
        .take(&store, &seen)
        .map_err(corrupt)?;
    if ids.iter().any(|&id| id <= highest.max(last)) {
        return Err(Flaw::Corrupt(format!(
            "ids {ids:?} after {highest} and {last}"
        )));
    }
    Ok(Found {
        state,
        highest: highest.max(last),
    })
}

fn told(seen: &State, states: &[&State]) -> Flaw {
    let what = format!("{seen:?} is none of {states:?}");
    // Whether the compaction is new, and lacks the entries that it discarded.
    let bare = |number: usize| {
        let alone = !seen.entries.iter().any(|entry| entry.2 == Some(number));
        alone && states.iter().any(|state| state.compactions.len() <= number)
    };
    if seen.head.is_some_and(bare) {
        return Flaw::Ahead(what);
    }
    Flaw::Lost(what)
}
