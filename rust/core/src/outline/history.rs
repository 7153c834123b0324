//! The outline of a history: the roles, the groups and turns, and the size of each message.

use super::groups::{Calls, Groups, Keys};
use super::lines::{Line, Lines, Provenance, Role, Tie};
use super::measure::{Measure, Units, measured};
use super::render::{ItemKind, each_item};
use super::value::Value;

/// Describes the messages that this reader cannot read; the caller implements it.
pub trait Other {
    /// The caller's error.
    type Error;

    /// Returns the line of the message at `position`, and appends its ties to `ties`.
    ///
    /// # Errors
    ///
    /// The caller's own.
    fn describe(
        &mut self,
        position: usize,
        keys: &mut Keys,
        ties: &mut Vec<Tie>,
    ) -> Result<Line, Self::Error>;

    /// Whether a user's text beside tool results is a request, which begins a turn.
    ///
    /// # Errors
    ///
    /// The caller's own.
    fn is_request(&mut self, text: &str) -> Result<bool, Self::Error>;
}

/// Whether a text of the message is a request; the texts after the first request are not asked about.
fn has_request<V: Value, O: Other>(message: &V, other: &mut O) -> Result<bool, O::Error> {
    let mut found = Ok(false);
    each_item(message, &mut |item| {
        if item.kind == ItemKind::Text && matches!(found, Ok(false)) {
            found = other.is_request(item.text);
        }
    });
    found
}

/// The outline of a history. Positions are those of its messages, from 0; a position beyond them has no result.
#[derive(Debug)]
pub struct Outline {
    lines: Lines,
    keys: Keys,
    groups: Groups,
    turns: Turns,
    units: Vec<Units>,
    others: Vec<usize>,
}

impl Outline {
    /// The outline of the messages of `before`, and of `messages` after them, in order. Only the latter are read;
    /// `other` describes those that this reader cannot read. Time is linear.
    ///
    /// # Errors
    ///
    /// An error of the iterator `messages`, or of `other`.
    pub fn read<V: Value, O: Other>(
        before: Option<&Self>,
        messages: impl Iterator<Item = Result<V, O::Error>>,
        other: &mut O,
    ) -> Result<Self, O::Error> {
        let (mut lines, mut keys, mut units, mut others) =
            before.map_or_else(Default::default, |known| {
                let (lines, keys) = (known.lines.clone(), known.keys.clone());
                (lines, keys, known.units.clone(), known.others.clone())
            });
        let mut ties = Vec::new();
        for (position, message) in (lines.len()..).zip(messages) {
            let message = message?;
            ties.clear();
            let (line, size) = if let Some(mut read) = measured(&message, &mut keys, &mut ties) {
                if read.has_words_beside_results {
                    read.line.opens_turn = has_request(&message, other)?;
                }
                (read.line, read.units)
            } else {
                ties.clear();
                others.push(position);
                let line = other.describe(position, &mut keys, &mut ties)?;
                (line, Units::default())
            };
            lines.push(line, &ties);
            units.push(size);
        }
        Ok(Self {
            units,
            others,
            ..Self::new(lines, keys)
        })
    }

    /// The outline of `lines`, without sizes. `keys` are those of their ties.
    #[must_use]
    pub fn new(lines: Lines, keys: Keys) -> Self {
        let groups = Groups::new(&lines, keys.count());
        let turns = Turns::new(&lines, keys.count());
        Self {
            lines,
            keys,
            groups,
            turns,
            units: Vec::new(),
            others: Vec::new(),
        }
    }

    /// The positions of the messages that `other` described, ascending.
    #[must_use]
    pub fn others(&self) -> &[usize] {
        &self.others
    }

    /// The positions of the messages whose line is wanted, ascending.
    pub fn positions(&self, is_wanted: impl Fn(&Line) -> bool) -> Vec<usize> {
        let lines = self.lines().iter().enumerate();
        lines
            .filter(|(_, line)| is_wanted(line))
            .map(|(position, _)| position)
            .collect()
    }

    /// How many parts the messages of a half-open range have; positions beyond the last message have none.
    #[must_use]
    pub fn parts(&self, start: usize, end: usize) -> usize {
        let lines = self.lines().get(start..end.min(self.lines.len()));
        let lines = lines.unwrap_or_default().iter();
        lines.map(|line| line.parts as usize).sum()
    }

    /// The running sums of the messages' units by `measure`: before the first, before the second, …, after the
    /// last. `others` has the units of each message that the caller described.
    #[must_use]
    pub fn sums(&self, measure: Measure, others: &[usize]) -> Vec<usize> {
        let mut sums = Vec::with_capacity(self.units.len() + 1);
        let mut total = 0_usize;
        sums.push(total);
        sums.extend(self.units(measure, others).map(|units| {
            total = total.saturating_add(units);
            total
        }));
        sums
    }

    /// The last of [`sums`](Self::sums).
    #[must_use]
    pub fn total(&self, measure: Measure, others: &[usize]) -> usize {
        self.units(measure, others).fold(0, usize::saturating_add)
    }

    /// The units of the largest message; 0 if there is none.
    #[must_use]
    pub fn largest(&self, measure: Measure, others: &[usize]) -> usize {
        self.units(measure, others).max().unwrap_or(0)
    }

    /// The units of each message.
    fn units(&self, measure: Measure, others: &[usize]) -> impl Iterator<Item = usize> {
        let mut given = self.others.iter().zip(others).peekable();
        self.units.iter().enumerate().map(move |(position, units)| {
            let own = given.next_if(|&(&other, _)| other == position);
            own.map_or_else(|| units.by(measure), |(_, &own)| own)
        })
    }

    /// The messages.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines.all
    }

    /// The turns, in order.
    #[must_use]
    pub fn turns(&self) -> &[Turn] {
        self.turns.all()
    }

    /// Whether the newest turn is still going on.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.turns.in_flight()
    }

    /// The positions of every group that has a call without a result, ascending.
    #[must_use]
    pub fn pending(&self) -> Vec<usize> {
        self.groups.pending()
    }

    /// The group whose last message is at `position`, ascending; `None` if no group ends there.
    #[must_use]
    pub fn group_ending_at(&self, position: usize) -> Option<Vec<usize>> {
        self.groups.ending_at(position)
    }

    /// The group of several messages that ends last, ascending; empty where there is none.
    #[must_use]
    pub fn last_bound(&self) -> Vec<usize> {
        self.groups.last_bound()
    }

    /// The groups that have none of `fixed`, each by its first position, ascending.
    #[must_use]
    pub fn loose(&self, fixed: impl IntoIterator<Item = usize>) -> Vec<usize> {
        self.groups.loose(fixed)
    }

    /// The positions of the group whose first message stands at `first`, ascending.
    pub fn members(&self, first: usize) -> impl Iterator<Item = usize> + Clone {
        self.groups.members(first)
    }

    /// The positions of `kept` and of every group that has one of them, as ascending half-open ranges
    /// that do not touch.
    #[must_use]
    pub fn closed(&self, kept: impl IntoIterator<Item = usize>) -> Vec<(usize, usize)> {
        self.groups.closed(kept)
    }

    /// The places where the messages of `spans`, one after the other, can be cut without cutting a group. Each
    /// place is the number of messages before it; the end is one of them.
    #[must_use]
    pub fn breaks(&self, spans: impl IntoIterator<Item = (usize, usize)>) -> Vec<usize> {
        self.groups.breaks(spans)
    }
}

// Finds the turns: where each begins and ends, and whether the newest is still in progress.

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
        let said = |line: &Line| line.provenance != Provenance::Injected;
        let last = lines.all.iter().rposition(said).filter(|_| !all.is_empty());
        let in_flight = last
            .is_some_and(|at| lines.all[at].role != Role::Assistant || waits_at(at, lines, keys));
        Self { all, in_flight }
    }

    pub(super) fn all(&self) -> &[Turn] {
        &self.all
    }

    fn in_flight(&self) -> bool {
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

/// Whether a call of the answer that ends at `last` has no result yet. In the Responses API, that is all items up to
/// there.
fn waits_at(last: usize, lines: &Lines, keys: usize) -> bool {
    let mut start = last;
    while start > 0 {
        let before = lines.all[start - 1];
        if before.role != Role::Assistant || !before.is_item {
            break;
        }
        start -= 1;
    }
    let mut calls = Calls::new(lines.len(), keys);
    for position in start..=last {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outline::lines::Role;

    #[test]
    fn a_call_its_late_result_and_a_pending_call_worked_by_hand() {
        let mut keys = Keys::default();
        let (one, two) = (keys.id(b"one"), keys.id(b"two"));
        let mut lines = Lines::default();
        lines.push(Line::of_text(Role::System), &[]); // 0
        lines.push(Line::of_text(Role::User), &[]); // 1
        lines.push(Line::of_text(Role::Assistant), &[Tie::Call(one)]); // 2
        lines.push(Line::of_text(Role::Assistant), &[]); // 3
        lines.push(Line::of_text(Role::Tool), &[Tie::Result(one)]); // 4
        lines.push(Line::of_text(Role::User), &[]); // 5
        lines.push(Line::of_text(Role::Assistant), &[Tie::Call(two)]); // 6
        let outline = Outline::new(lines, keys);
        let spans: Vec<_> = outline
            .turns()
            .iter()
            .map(|turn| (turn.start, turn.end, turn.request))
            .collect();
        assert_eq!(spans, [(1, 5, 1), (5, 7, 5)]);
        assert!(outline.in_flight());
        assert_eq!(outline.pending(), [6]);
        assert_eq!(outline.group_ending_at(4), Some(vec![2, 4]));
        assert_eq!(outline.group_ending_at(2), None);
        assert_eq!(outline.group_ending_at(7), None);
        assert_eq!(outline.closed([4, 1, 99]), [(1, 3), (4, 5)]);
        assert_eq!(outline.closed([]), []);
        assert_eq!(outline.last_bound(), [2, 4]);
        assert_eq!(outline.loose([4, 99]), [0, 1, 3, 5, 6]);
        assert_eq!(outline.loose([0, 1, 3, 5, 6]), [2]);
        assert_eq!(outline.members(2).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(outline.breaks([(1, 3), (4, 7), (9, 9)]), [1, 3, 4, 5]);
    }

    #[test]
    fn a_shared_id_ties_to_the_call_of_that_id_and_otherwise_to_the_message_that_had_it_last() {
        let mut keys = Keys::default();
        let (called, shared) = (keys.id(b"called"), keys.id(b"shared"));
        let mut lines = Lines::default();
        lines.push(Line::of_text(Role::Assistant), &[Tie::Shared(shared)]); // 0
        lines.push(Line::of_text(Role::Assistant), &[Tie::Call(called)]); // 1
        lines.push(Line::of_text(Role::User), &[]); // 2
        lines.push(Line::of_text(Role::Tool), &[Tie::Shared(called)]); // 3
        lines.push(Line::of_text(Role::Tool), &[Tie::Shared(shared)]); // 4
        lines.push(Line::of_text(Role::Tool), &[Tie::Result(called)]); // 5
        let outline = Outline::new(lines, keys);
        assert_eq!(outline.group_ending_at(4), Some(vec![0, 4]));
        assert_eq!(outline.group_ending_at(5), Some(vec![1, 3, 5]));
        assert_eq!(outline.group_ending_at(2), Some(vec![2]));
    }

    #[test]
    fn nothing_has_an_outline_too() {
        let outline = Outline::new(Lines::default(), Keys::default());
        assert!(outline.turns().is_empty() && !outline.in_flight());
        assert!(outline.pending().is_empty() && outline.closed([0]).is_empty());
    }
}
