//! Groups: messages that must stay together.

use std::collections::{HashMap, VecDeque};

use rustc_hash::FxBuildHasher;

use super::lines::{Lines, Role, Tie};

const NONE: usize = usize::MAX;

/// A partition of the positions of a history. A group is named by its first position.
#[derive(Debug)]
pub(super) struct Groups {
    first: Vec<usize>,
    next: Vec<usize>, // the following position of the same group
    last: Vec<usize>, // of a group's first position: its last
    pending: Vec<bool>,
}

impl Groups {
    pub(super) fn new(lines: &Lines, keys: usize) -> Self {
        let mut sets = Sets::new(lines.len());
        let mut calls = Calls::new(lines.len(), keys);
        let mut sharing: Vec<Option<usize>> = vec![None; keys];
        let mut reference = None;
        for position in 0..lines.len() {
            for tie in lines.ties(position) {
                let bound = match *tie {
                    Tie::Call(key) => {
                        calls.open(key, position);
                        None
                    }
                    Tie::Result(key) => calls.answer(key).or(reference),
                    Tie::Shared(key) => {
                        let before = sharing[key.index()].replace(position);
                        calls.called_at(key).or(before)
                    }
                    Tie::Reference => {
                        reference = Some(position);
                        None
                    }
                };
                if let Some(bound) = bound {
                    sets.join(bound, position);
                }
            }
        }
        bind_reasoning(lines, &mut sets);
        bind_parallel_items(lines, &mut sets);
        Self::of(&mut sets, &calls)
    }

    fn of(sets: &mut Sets, calls: &Calls) -> Self {
        let count = sets.parents.len();
        let first: Vec<usize> = (0..count).map(|position| sets.first(position)).collect();
        let (mut next, mut last) = (vec![NONE; count], vec![NONE; count]);
        let mut pending = vec![false; count];
        for (position, &root) in first.iter().enumerate() {
            if root != position {
                next[last[root]] = position;
            }
            last[root] = position;
            pending[root] |= calls.waits_at(position);
        }
        Self {
            first,
            next,
            last,
            pending,
        }
    }

    pub(super) fn pending(&self) -> Vec<usize> {
        let positions = self.first.iter().enumerate();
        positions
            .filter(|&(_, &root)| self.pending[root])
            .map(|(position, _)| position)
            .collect()
    }

    pub(super) fn ending_at(&self, position: usize) -> Option<Vec<usize>> {
        let root = *self.first.get(position)?;
        (self.last[root] == position).then(|| self.members(root).collect())
    }

    pub(super) fn last_bound(&self) -> Vec<usize> {
        let ends = self.first.iter().enumerate().rev();
        let mut ends = ends.filter(|&(at, &root)| root != at && self.last[root] == at);
        ends.next()
            .map(|(_, &root)| self.members(root).collect())
            .unwrap_or_default()
    }

    pub(super) fn closed(&self, kept: impl IntoIterator<Item = usize>) -> Vec<(usize, usize)> {
        let mut stays = vec![false; self.first.len()];
        for position in kept {
            if let Some(&root) = self.first.get(position)
                && !stays[position]
            {
                for member in self.members(root) {
                    stays[member] = true;
                }
            }
        }
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (position, _) in stays.iter().enumerate().filter(|&(_, &stays)| stays) {
            match runs.last_mut() {
                Some(run) if run.1 == position => run.1 += 1,
                _ => runs.push((position, position + 1)),
            }
        }
        runs
    }

    pub(super) fn breaks(&self, spans: impl IntoIterator<Item = (usize, usize)>) -> Vec<usize> {
        let (mut count, mut reach, mut breaks) = (0, 0, Vec::new());
        for (start, end) in spans {
            for position in start..end.min(self.first.len()) {
                count += 1;
                reach = reach.max(self.last[self.first[position]]);
                if position >= reach {
                    breaks.push(count);
                }
            }
        }
        if count > 0 && breaks.last() != Some(&count) {
            breaks.push(count); // a group that reaches beyond the spans
        }
        breaks
    }

    /// The first positions of the groups that have none of `fixed`, ascending.
    pub(super) fn loose(&self, fixed: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut stays = vec![false; self.first.len()];
        for position in fixed {
            if let Some(&root) = self.first.get(position) {
                stays[root] = true;
            }
        }
        let positions = self.first.iter().enumerate();
        let is_loose = |&(position, &root): &(usize, &usize)| position == root && !stays[root];
        positions.filter(is_loose).map(|(at, _)| at).collect()
    }

    pub(super) fn members(&self, root: usize) -> impl Iterator<Item = usize> + Clone {
        std::iter::successors(Some(root), |&position| {
            Some(self.next[position]).filter(|&next| next != NONE)
        })
    }
}

/// The calls so far, by key, and the number of unanswered calls of each message.
pub(super) struct Calls {
    by_key: Vec<VecDeque<Call>>,
    waiting: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Call {
    position: usize,
    waits: bool,
}

impl Calls {
    pub(super) fn new(messages: usize, keys: usize) -> Self {
        Self {
            by_key: vec![VecDeque::new(); keys],
            waiting: vec![0; messages],
        }
    }

    /// Adds a call. It replaces older calls of its key, except that unanswered calls without ids form a queue.
    pub(super) fn open(&mut self, key: Key, position: usize) {
        let queue = &mut self.by_key[key.index()];
        if !key.is_name() || queue.front().is_some_and(|call| !call.waits) {
            queue.clear();
        }
        queue.push_back(Call {
            position,
            waits: true,
        });
        self.waiting[position] += 1;
    }

    /// Adds a result; returns the position of its call, if there is one.
    pub(super) fn answer(&mut self, key: Key) -> Option<usize> {
        let queue = &mut self.by_key[key.index()];
        let call = *queue.front()?;
        if queue.len() > 1 {
            queue.pop_front();
        } else {
            queue[0].waits = false;
        }
        if call.waits {
            self.waiting[call.position] -= 1;
        }
        Some(call.position)
    }

    fn called_at(&self, key: Key) -> Option<usize> {
        self.by_key[key.index()].back().map(|call| call.position)
    }

    fn waits_at(&self, position: usize) -> bool {
        self.waiting[position] > 0
    }

    pub(super) fn any_waits(&self) -> bool {
        self.waiting.iter().any(|&count| count > 0)
    }
}

/// Disjoint sets of positions; a set is named by its first position.
struct Sets {
    parents: Vec<usize>,
}

impl Sets {
    fn new(count: usize) -> Self {
        Self {
            parents: (0..count).collect(),
        }
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.first(one), self.first(other));
        self.parents[one.max(other)] = one.min(other);
    }

    fn first(&mut self, mut position: usize) -> usize {
        while self.parents[position] != position {
            self.parents[position] = self.parents[self.parents[position]]; // path halving
            position = self.parents[position];
        }
        position
    }
}

/// Joins an assistant message with only reasoning to the rest of the same answer.
fn bind_reasoning(lines: &Lines, sets: &mut Sets) {
    let mut bound = false;
    for (position, line) in lines.all.iter().enumerate() {
        if line.role != Role::Assistant {
            bound = false;
            continue;
        }
        if bound {
            sets.join(position - 1, position);
        }
        bound |= line.is_reasoning;
    }
}

/// Joins adjacent calls that are separate items: the model made them in one answer.
fn bind_parallel_items(lines: &Lines, sets: &mut Sets) {
    let mut before = false;
    for (position, line) in lines.all.iter().enumerate() {
        let calls = line.is_item && lines.has_call(position);
        if calls && before {
            sets.join(position - 1, position);
        }
        before = calls;
    }
}

// The keys that tie a result to its call, as small numbers.

/// Ties a result to its call: the id, or the name where there are no ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    number: u32,
    by_name: bool,
}

impl Key {
    /// Its place among all keys.
    pub(super) fn index(self) -> usize {
        self.number as usize
    }

    /// Whether calls of this key have no id.
    fn is_name(self) -> bool {
        self.by_name
    }
}

/// The keys so far. Equal texts have equal keys, but an id and a name never have the same key.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    ids: HashMap<Box<[u8]>, u32, FxBuildHasher>,
    names: HashMap<Option<Box<[u8]>>, u32, FxBuildHasher>,
    count: u32,
}

impl Keys {
    /// The key of an id.
    pub fn id(&mut self, id: &[u8]) -> Key {
        let known = self.ids.get(id).copied();
        let number = known.unwrap_or_else(|| {
            let number = self.next();
            self.ids.insert(id.into(), number);
            number
        });
        Key {
            number,
            by_name: false,
        }
    }

    /// The key of a name, or of its absence.
    pub fn name(&mut self, name: Option<&[u8]>) -> Key {
        let name = name.map(Box::from);
        let known = self.names.get(&name).copied();
        let number = known.unwrap_or_else(|| {
            let number = self.next();
            self.names.insert(name, number);
            number
        });
        Key {
            number,
            by_name: true,
        }
    }

    /// How many keys there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// A new number. It cannot overflow: fewer than 2^32 messages fit in memory.
    fn next(&mut self) -> u32 {
        let number = self.count;
        self.count += 1;
        number
    }
}
