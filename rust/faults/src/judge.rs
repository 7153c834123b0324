//! Does a store that is found after a fault hold what was promised?

use std::path::Path;

use siltstone_core::memory::Handle;

use crate::sessions::{State, Step, find, look};

/// What is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It cannot be opened or read, or its own check finds something.
    Corrupt(String),
    /// A compaction is there without the entries that it discarded: history is ahead of the index.
    Ahead(String),
    /// Something acknowledged is not there, or something is there that nobody wrote.
    Lost(String),
}

/// Where a store that is whole was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which of the states it is at.
    pub state: usize,
    /// The highest id of an entry that it gave so far, or the one that was known before.
    pub highest: i64,
}

/// Opens the store at `path`: it must be at one of `states`, whole, and give no id up to `highest` again.
///
/// # Errors
///
/// What is wrong with it.
pub fn judge(path: &Path, states: &[&State], highest: i64) -> Result<Found, Flaw> {
    let corrupt = |error: siltstone_core::Error| Flaw::Corrupt(format!("{error}"));
    let handle = Handle::open(path, false, None).map_err(corrupt)?;
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
    // New since, and without what it discarded.
    let bare = |number: usize| {
        let alone = !seen.entries.iter().any(|entry| entry.2 == Some(number));
        alone && states.iter().any(|state| state.compactions.len() <= number)
    };
    if seen.head.is_some_and(bare) {
        return Flaw::Ahead(what);
    }
    Flaw::Lost(what)
}
