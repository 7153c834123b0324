//! Finds the turns: where each begins and ends, and whether the newest is still in progress.

use super::groups::Calls;
use super::lines::{Lines, Provenance, Role, Tie};

/// A user message and all that follows until the next, as a half-open range of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its first message: the request, or the context that was injected directly before it.
    pub start: usize,
    /// One past its last message.
    pub end: usize,
    /// The user message that it answers.
    pub request: usize,
}

#[derive(Debug)]
pub(super) struct Turns {
    all: Vec<Turn>,
    in_flight: bool,
}

impl Turns {
    pub(super) fn new(lines: &Lines, keys: usize) -> Self {
        let mut all: Vec<Turn> = Vec::new();
        let requests = (0..lines.len()).filter(|&position| lines.all[position].opens_turn);
        for request in requests {
            let start = start_of(lines, request);
            if let Some(before) = all.last_mut() {
                before.end = start;
            }
            all.push(Turn {
                start,
                end: lines.len(),
                request,
            });
        }
        let in_flight = !all.is_empty()
            && (lines.all[lines.len() - 1].role != Role::Assistant || ends_waiting(lines, keys));
        Self { all, in_flight }
    }

    pub(super) fn all(&self) -> &[Turn] {
        &self.all
    }

    pub(super) fn in_flight(&self) -> bool {
        self.in_flight
    }
}

fn start_of(lines: &Lines, request: usize) -> usize {
    let injected = lines.all[..request]
        .iter()
        .rev()
        .take_while(|line| line.provenance == Provenance::Injected);
    request - injected.count()
}

/// Whether a call of the last answer has no result yet. In the Responses API, the last answer is all items at the
/// end.
fn ends_waiting(lines: &Lines, keys: usize) -> bool {
    let mut start = lines.len() - 1;
    while start > 0 {
        let before = lines.all[start - 1];
        if before.role != Role::Assistant || !before.is_item {
            break;
        }
        start -= 1;
    }
    let mut calls = Calls::new(lines.len(), keys);
    for position in start..lines.len() {
        for tie in lines.ties(position) {
            match *tie {
                Tie::Call(key) => calls.open(key, position),
                Tie::Result(key) => _ = calls.answer(key),
                Tie::Shared(_) | Tie::Reference => {}
            }
        }
    }
    calls.any_waits()
}
