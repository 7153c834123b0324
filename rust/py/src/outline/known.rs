//! Remembers the messages of the last list, because the next list mostly has the same messages.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use siltstone_core::bm25::KnownTerms;
use siltstone_core::outline::{Keys, Measured, Other, Outline as Inner, Sketch, Tie};

use super::value::{Plain, is_space, role_and_text};
use crate::error::run_detached;
use crate::text::{Text, exactly};
use crate::turns;

/// The highest number of terms that are kept, which take 32 MB. If there are more, the memory is dropped.
const MOST_TERMS: usize = 1 << 22;
/// The deepest nesting of a message that is remembered.
const MOST_DEPTH: usize = 48;
/// The number of keys of calls that are always kept, even if few of them are still in use.
const FEW_KEYS: usize = 4096;

/// The memory of the last list of messages. It is safe to use from many threads.
#[pyclass(frozen, module = "siltstone._native")]
#[derive(Default)]
pub(crate) struct KnownMessages(Mutex<Memory>);

#[pymethods]
impl KnownMessages {
    #[new]
    fn new() -> Self {
        Self::default()
    }
}

impl KnownMessages {
    /// Takes the memory out. A thread that asks for it before it is put back gets an empty one, and does not wait.
    pub(super) fn take(&self) -> Memory {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts the memory back, unless it has too many terms.
    pub(super) fn put(&self, memory: Memory) {
        if memory.terms() > MOST_TERMS {
            return;
        }
        let before = {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            mem::replace(&mut *kept, memory)
        };
        drop(before); // outside the lock, because this releases Python objects
    }
}

/// The messages of the last list, in order.
#[derive(Default)]
pub(super) struct Memory {
    messages: Vec<Known>,
    keys: Keys,
    /// The opening of a request that may be held.
    opening: String,
    /// A number that no other list has; 0 before the first list.
    stamp: u64,
}

/// A message, and the results of reading it.
struct Known {
    /// The address of its object. Another object may have this address now, so the shape is compared as well.
    address: usize,
    shape: Shape,
    /// Its line and ties; None if Python functions took part in reading it.
    read: Option<(Measured, Box<[Tie]>)>,
    said: Option<Said>,
}

/// The text of a message.
pub(super) struct Said {
    pub(super) terms: KnownTerms,
    pub(super) is_blank: bool,
    pub(super) may_be_held: bool,
}

impl Memory {
    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Whether the memory is of the list of an outline with that stamp. Stamp 0 means an outline without a memory.
    pub(super) fn is_of(&self, stamp: u64) -> bool {
        stamp != 0 && stamp == self.stamp
    }

    /// The outline of a list, which becomes the last list. Unchanged messages are not read again.
    pub(super) fn outline<O: Other<Error = PyErr>>(
        &mut self,
        raws: &Bound<'_, PyList>,
        other: &mut O,
    ) -> PyResult<Inner> {
        self.follow(raws)?;
        let mut sketch = Sketch::with_capacity(self.messages.len());
        for (at, known) in self.messages.iter_mut().enumerate() {
            if let Some((read, ties)) = &known.read {
                sketch.push(read, ties);
            } else {
                turns::at_step(raws.py(), at)?;
                let read = sketch.add(&Plain(raws.get_item(at)?), &mut self.keys, other)?;
                known.read = read.map(|(read, ties)| (read, ties.into()));
            }
        }
        Ok(sketch.outline(self.keys.count()))
    }

    /// Makes a list the last list. The memory keeps the readings of its messages, and drops all others.
    pub(super) fn follow(&mut self, raws: &Bound<'_, PyList>) -> PyResult<()> {
        static STAMPS: AtomicU64 = AtomicU64::new(1);
        self.stamp = STAMPS.fetch_add(1, Ordering::Relaxed);
        let mut same = 0;
        for (known, raw) in self.messages.iter_mut().zip(raws) {
            if !known.shape.is_of(&raw) {
                break;
            }
            known.address = raw.as_ptr().addr();
            same += 1;
        }
        let mut left: Vec<_> = self.messages.drain(same..).map(Some).collect();
        if left.len() > raws.len().saturating_sub(same) {
            self.forget_keys(&mut left);
        }
        let places = left.iter().flatten().map(|known| known.address).zip(0..);
        let places: HashMap<usize, usize> = places.collect();
        self.messages.reserve(raws.len().saturating_sub(same));
        for at in same..raws.len() {
            turns::at_step(raws.py(), at)?;
            let raw = raws.get_item(at)?;
            let address = raw.as_ptr().addr();
            let place = places.get(&address).copied();
            let known =
                place.and_then(|place| left[place].take_if(|known| known.shape.is_of(&raw)));
            self.messages.push(known.unwrap_or_else(|| Known {
                address,
                shape: Shape::of(&raw),
                read: None,
                said: None,
            }));
        }
        Ok(())
    }

    /// Drops the keys of calls, if most of them may belong to messages that left.
    fn forget_keys(&mut self, left: &mut [Option<Known>]) {
        if self.keys.count() < FEW_KEYS.max(2 * self.messages.len()) {
            return;
        }
        self.keys = Keys::default();
        let known = self.messages.iter_mut().chain(left.iter_mut().flatten());
        for known in known {
            known.read.take_if(|(_, ties)| !ties.is_empty());
        }
    }

    /// Reads the texts of messages that are not known yet. `read` gives the text of a message, and whether it may begin
    /// with `opening`.
    pub(super) fn learn(
        &mut self,
        py: Python<'_>,
        members: impl Iterator<Item = usize>,
        opening: &str,
        mut read: impl FnMut(usize) -> PyResult<(Text, bool)>,
    ) -> PyResult<()> {
        if opening != self.opening {
            opening.clone_into(&mut self.opening);
            self.messages.iter_mut().for_each(|known| known.said = None);
        }
        let (mut new, mut texts) = (Vec::new(), Vec::new());
        for at in members {
            if self.messages[at].said.is_none() {
                turns::at_step(py, texts.len())?;
                let (text, may_be_held) = read(at)?;
                new.push((at, may_be_held));
                texts.push(text);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let terms = run_detached(py, || Ok(KnownTerms::of(&texts)))?;
        for (((at, may_be_held), text), terms) in new.into_iter().zip(texts).zip(terms) {
            self.messages[at].said = Some(Said {
                terms,
                is_blank: text.chars().all(is_space),
                may_be_held,
            });
        }
        Ok(())
    }

    /// The text of a message, if it was learnt.
    pub(super) fn said(&self, at: usize) -> Option<&Said> {
        self.messages[at].said.as_ref()
    }

    /// The number of known terms.
    fn terms(&self) -> usize {
        let said = self.messages.iter().filter_map(|known| known.said.as_ref());
        said.map(|said| said.terms.count()).sum()
    }
}

/// The immutable objects of which a message is made. They are kept alive, so that no other object gets their address.
enum Shape {
    /// A role and a text.
    Plain(Py<PyString>, Py<PyString>),
    /// The dicts, the lists and the values in them, in the order of a walk.
    Nested(Box<[Step]>),
    /// The message has objects that can change unnoticed. It is read again each time.
    Unknown,
}

enum Step {
    Dict(usize),
    List(usize),
    Value(Py<PyAny>),
}

/// A step of a walk, with a borrowed value.
enum Met<'a, 'py> {
    Dict(usize),
    List(usize),
    Value(&'a Bound<'py, PyAny>),
}

impl Shape {
    fn of(raw: &Bound<'_, PyAny>) -> Self {
        if let Some((role, text)) = role_and_text(raw) {
            return Self::Plain(role.unbind(), text.unbind());
        }
        let mut steps = Vec::new();
        let is_known = walk(raw, 0, &mut |met| {
            steps.push(match met {
                Met::Dict(count) => Step::Dict(count),
                Met::List(count) => Step::List(count),
                Met::Value(value) => Step::Value(value.clone().unbind()),
            });
            true
        });
        if is_known {
            Self::Nested(steps.into())
        } else {
            Self::Unknown
        }
    }

    /// Whether a message is made of the same objects, or of equal texts.
    fn is_of(&self, raw: &Bound<'_, PyAny>) -> bool {
        match self {
            Self::Plain(role, text) => {
                role_and_text(raw).is_some_and(|now| is_text(&now.1, text) && is_text(&now.0, role))
            }
            Self::Nested(steps) => {
                let mut steps = steps.iter();
                let is_next = |met: Met<'_, '_>| match (steps.next(), met) {
                    (Some(Step::Dict(one)), Met::Dict(other))
                    | (Some(Step::List(one)), Met::List(other)) => *one == other,
                    (Some(Step::Value(one)), Met::Value(other)) => is_same(other, one),
                    _ => false,
                };
                walk(raw, 0, &mut { is_next }) && steps.next().is_none()
            }
            Self::Unknown => false,
        }
    }
}

/// Whether two texts are the same object, or equal.
fn is_text(now: &Bound<'_, PyString>, before: &Py<PyString>) -> bool {
    let before = before.bind(now.py());
    now.is(before)
        || matches!((now.to_str(), before.to_str()), (Ok(one), Ok(other)) if one == other)
}

/// Whether two values are the same object, or equal texts.
fn is_same(now: &Bound<'_, PyAny>, before: &Py<PyAny>) -> bool {
    let before = before.bind(now.py());
    let texts = || Some((exactly::<PyString>(now)?, exactly::<PyString>(before)?));
    now.is(before) || texts().is_some_and(|(now, before)| is_text(now, before.as_unbound()))
}

/// Calls `visit` with each dict, list and value of a message, until it returns false. False if it did, or if a part
/// cannot be compared.
fn walk(
    value: &Bound<'_, PyAny>,
    depth: usize,
    visit: &mut impl FnMut(Met<'_, '_>) -> bool,
) -> bool {
    if depth > MOST_DEPTH {
        return false;
    }
    if let Some(dict) = exactly::<PyDict>(value) {
        return visit(Met::Dict(dict.len()))
            && dict.iter().all(|(key, value)| {
                let is_text = exactly::<PyString>(&key).is_some();
                is_text && visit(Met::Value(&key)) && walk(&value, depth + 1, visit)
            });
    }
    if let Some(list) = exactly::<PyList>(value) {
        return visit(Met::List(list.len()))
            && list.iter().all(|item| walk(&item, depth + 1, visit));
    }
    let is_fixed = value.is_none()
        || exactly::<PyString>(value).is_some()
        || exactly::<PyInt>(value).is_some()
        || exactly::<PyFloat>(value).is_some()
        || exactly::<PyBool>(value).is_some();
    is_fixed && visit(Met::Value(value))
}
