//! What may leave a history, and in which order: by how little it has to do with a question.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use siltstone_core::bm25::{Bm25Params, KnownTexts as Known, Query, scores};
use siltstone_core::outline::{Field, Rendering};

use super::history::Outline;
use super::value::{Plain, name};
use crate::error::{guard, guard_attached};
use crate::text::{Text, exactly};

/// The terms of texts that were asked about last; safe to use from many threads, one after the other.
#[pyclass(frozen, module = "siltstone._native")]
#[derive(Default)]
pub(crate) struct KnownTexts(Mutex<Known>);

#[pymethods]
impl KnownTexts {
    #[new]
    fn new() -> Self {
        Self::default()
    }
}

/// The groups of a history that may leave it, and what they say.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Loose {
    outline: Py<Outline>,
    /// By their first positions, ascending: those with a text, and those without.
    speaking: Vec<usize>,
    blank: Vec<usize>,
    /// What the speaking ones say.
    texts: Vec<Text>,
}

#[pymethods]
impl Loose {
    #[new]
    fn new(
        outline: &Bound<'_, Outline>,
        raws: &Bound<'_, PyList>,
        fixed: Vec<usize>,
        shown: &Bound<'_, PyAny>,
        held: (Text, Bound<'_, PyAny>),
    ) -> PyResult<Self> {
        let (history, (opening, is_held)) = (&outline.get().0, held);
        if raws.len() != history.lines().len() {
            return Err(PyValueError::new_err("raws must be those of the outline"));
        }
        guard_attached(raws.py(), || {
            let groups = history.loose(fixed);
            let mut loose = Self {
                outline: outline.clone().unbind(),
                speaking: Vec::with_capacity(groups.len()),
                blank: Vec::new(),
                texts: Vec::with_capacity(groups.len()),
            };
            let mut reader = Reader::new(raws, shown);
            let mut is_request = vec![false; raws.len()];
            for turn in history.turns() {
                is_request[turn.request] = true;
            }
            for first in groups {
                let mut requests = history.members(first).filter(|&at| is_request[at]);
                let is_held = |at| -> PyResult<bool> {
                    let may_be = reader.may_begin(at, &opening)?;
                    Ok(may_be && is_held.call1((at,))?.extract()?)
                };
                if requests.try_fold(false, |held, at| is_held(at).map(|is| held | is))? {
                    continue;
                }
                let text = reader.group(history.members(first))?;
                if text.chars().all(is_space) {
                    loose.blank.push(first);
                } else {
                    loose.speaking.push(first);
                    loose.texts.push(text);
                }
            }
            Ok(loose)
        })
    }

    fn __len__(&self) -> usize {
        self.speaking.len() + self.blank.len()
    }

    fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(|text| &**text).collect()
    }

    fn by_relevance(
        &self,
        py: Python<'_>,
        query: Text,
        k1: f64,
        b: f64,
        known: Option<&KnownTexts>,
    ) -> PyResult<Leaving> {
        let scores = guard(py, || {
            let (params, query) = (Bm25Params::new(k1, b)?, Query::of(&query));
            Ok(match known {
                Some(known) => {
                    let mut known = known.0.lock().unwrap_or_else(PoisonError::into_inner);
                    known.scores(&self.texts, &query, params)
                }
                None => scores(&self.texts, &query, params),
            })
        })?;
        Ok(self.leaving(py, &scores))
    }

    fn by_scores(&self, py: Python<'_>, scores: Vec<f64>) -> PyResult<Leaving> {
        let (needed, given) = (self.texts.len(), scores.len());
        if needed != given {
            return Err(PyValueError::new_err(format!(
                "scores must have one for each of the {needed} texts, got {given}"
            )));
        }
        Ok(self.leaving(py, &scores))
    }
}

impl Loose {
    /// The lowest score leaves first, the oldest of equal ones; what has no text leaves last.
    fn leaving(&self, py: Python<'_>, scores: &[f64]) -> Leaving {
        let mut order: Vec<(f64, usize)> =
            scores.iter().copied().zip(self.speaking.clone()).collect();
        order.sort_unstable_by(|one, next| one.0.total_cmp(&next.0).then(one.1.cmp(&next.1)));
        let order = order.into_iter().map(|(_, first)| first);
        Leaving {
            outline: self.outline.clone_ref(py),
            order: order.chain(self.blank.iter().copied()).collect(),
        }
    }
}

/// Groups in the order in which they leave.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Leaving {
    outline: Py<Outline>,
    order: Vec<usize>,
}

#[pymethods]
impl Leaving {
    /// The positions that leave, ascending, and what is left in the units of `sums`.
    fn until(
        &self,
        py: Python<'_>,
        sums: Vec<usize>,
        most: i64,
        spared: Option<usize>,
    ) -> PyResult<(Vec<usize>, usize)> {
        let history = &self.outline.get().0;
        if sums.len() != history.lines().len() + 1 {
            return Err(PyValueError::new_err("sums must be those of the outline"));
        }
        guard_attached(py, || {
            let most = usize::try_from(most).ok();
            let mut left = sums.last().copied().unwrap_or_default();
            let mut gone = Vec::new();
            for &first in &self.order {
                if most.is_some_and(|most| left <= most) {
                    break;
                }
                if spared.is_some_and(|spared| history.members(first).any(|at| at == spared)) {
                    continue;
                }
                for at in history.members(first) {
                    left = left.saturating_sub(sums[at + 1].saturating_sub(sums[at]));
                    gone.push(at);
                }
            }
            gone.sort_unstable();
            Ok((gone, left))
        })
    }
}

/// Reads what messages say, with one buffer for all of them.
struct Reader<'a, 'py> {
    raws: &'a Bound<'py, PyList>,
    shown: &'a Bound<'py, PyAny>,
    rendering: Rendering,
}

impl<'a, 'py> Reader<'a, 'py> {
    fn new(raws: &'a Bound<'py, PyList>, shown: &'a Bound<'py, PyAny>) -> Self {
        Self {
            raws,
            shown,
            rendering: Rendering::default(),
        }
    }

    /// Whether a message begins with `opening`, as far as the core can tell.
    fn may_begin(&self, at: usize, opening: &str) -> PyResult<bool> {
        let said = plainly_said(&self.raws.get_item(at)?);
        let text = said.as_ref().and_then(|said| said.to_str().ok());
        Ok(text.is_none_or(|text| text.trim_start_matches(is_space).starts_with(opening)))
    }

    /// What the messages of a group say, each on lines of its own.
    fn group(&mut self, mut members: impl Iterator<Item = usize>) -> PyResult<Text> {
        let Some(first) = members.next() else {
            return Ok(Text::Repaired(String::new()));
        };
        let raw = self.raws.get_item(first)?;
        if let Some(said) = plainly_said(&raw) {
            return Text::from_py(&said); // such a message is a group of its own
        }
        let mut text = self.one(first, raw)?;
        for at in members {
            text.push('\n');
            let raw = self.raws.get_item(at)?;
            match plainly_said(&raw) {
                Some(said) => text.push_str(&Text::from_py(&said)?),
                None => text.push_str(&self.one(at, raw)?),
            }
        }
        Ok(Text::Repaired(text))
    }

    /// What a message says without who says it.
    fn one(&mut self, at: usize, raw: Bound<'py, PyAny>) -> PyResult<String> {
        const SPEAKERS: [&str; 4] = ["User: ", "Assistant: ", "Tool: ", "System: "];
        self.rendering.clear();
        let lines = match self.rendering.show(&Plain(raw)) {
            Some(()) => self.rendering.text().to_owned(),
            None => self.shown.call1((at,))?.extract::<Text>()?.to_owned(),
        };
        let said = SPEAKERS
            .iter()
            .find_map(|speaker| lines.strip_prefix(speaker));
        Ok(said.map(str::to_owned).unwrap_or(lines))
    }
}

/// The content of a message that has a role and a text and nothing else.
fn plainly_said<'py>(raw: &Bound<'py, PyAny>) -> Option<Bound<'py, PyString>> {
    let dict = exactly::<PyDict>(raw)?;
    let field = |field| dict.get_item(name(raw.py(), field)).ok()?;
    let others = dict.len() - usize::from(dict.len() > 1 && field(Field::Role).is_some());
    if others != 1 {
        return None;
    }
    exactly::<PyString>(&field(Field::Content)?).cloned()
}

/// Whether Python calls it space.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1C}'..='\u{1F}')
}

/// The messages that are not at one of `gone`, which ascend, and those that are.
#[pyfunction]
pub(crate) fn parted<'py>(
    raws: &Bound<'py, PyList>,
    gone: Vec<usize>,
) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
    let py = raws.py();
    let (mut kept, mut left) = (
        Vec::with_capacity(raws.len()),
        Vec::with_capacity(gone.len()),
    );
    let mut gone = gone.into_iter().peekable();
    for (at, raw) in raws.iter().enumerate() {
        let leaves = gone.next_if_eq(&at).is_some();
        if leaves {
            left.push(raw);
        } else {
            kept.push(raw);
        }
    }
    Ok((PyList::new(py, kept)?, PyList::new(py, left)?))
}
