//! Orders the parts of a history that may be trimmed: the least relevant to a question leave first.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyDict, PyList, PyString};
use siltstone_core::bm25::{Bm25Params, Query, scores};
use siltstone_core::outline::{Field, Loose as InnerLoose, Rendering};

use super::history::{Outline, UnitsIn};
use super::value::{Plain, is_space, name};
use crate::error::{run_attached, run_detached};
use crate::interpreter;
use crate::text::{Text, exactly};

/// A text, and a function of a request's position. The function is called for each request that may begin with the
/// text, and says whether its group must stay.
type Held<'py> = (Text, Bound<'py, PyAny>);

/// The groups of a history that may leave it, and their texts.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Loose {
    outline: Py<Outline>,
    inner: InnerLoose,
    groups: Vec<Arc<Group>>,
}

/// A group that was read: the place of its first message, its messages, and its text.
struct Group {
    first: usize,
    raws: Vec<Py<PyAny>>,
    text: PyBackedStr,
    is_blank: bool,
}

#[pymethods]
impl Loose {
    #[new]
    #[pyo3(signature = (outline, raws, fixed, shown, held, before = None))]
    fn new(
        outline: &Bound<'_, Outline>,
        raws: &Bound<'_, PyList>,
        fixed: Vec<usize>,
        shown: &Bound<'_, PyAny>,
        held: Held<'_>,
        before: Option<&Self>,
    ) -> PyResult<Self> {
        run_attached(raws.py(), || {
            let (history, (opening, is_held)) = (&outline.get().inner, held);
            let mut reader = Reader::of(outline, raws, shown)?;
            let loose = history.without_held(history.loose(fixed), |request| {
                Ok::<_, PyErr>(
                    reader.may_begin(request, &opening)? && is_held.call1((request,))?.extract()?,
                )
            })?;
            let mut known = before.iter().flat_map(|loose| &loose.groups).peekable();
            let (mut inner, mut groups) = (InnerLoose::default(), Vec::with_capacity(loose.len()));
            for first in loose {
                interpreter::at_step(raws.py(), inner.len())?;
                let members = history.members(first).map(|at| raws.get_item(at));
                let own = members.collect::<PyResult<Vec<_>>>()?;
                while known.next_if(|group| group.first < first).is_some() {}
                let group = match known.next_if(|group| group.is(first, &own)) {
                    Some(group) => Arc::clone(group),
                    None => Arc::new(reader.group(first, history.members(first), own)?),
                };
                inner.push(first, group.is_blank);
                groups.push(group);
            }
            let outline = outline.clone().unbind();
            Ok(Self {
                outline,
                inner,
                groups,
            })
        })
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    fn texts(&self) -> Vec<&PyBackedStr> {
        let speaking = self.groups.iter().filter(|group| !group.is_blank);
        speaking.map(|group| &group.text).collect()
    }

    fn relevance(&self, py: Python<'_>, query: Text, k1: f64, b: f64) -> PyResult<Vec<f64>> {
        run_detached(py, || {
            let (params, query) = (Bm25Params::new(k1, b)?, Query::of(&query));
            let texts: Vec<&str> = self.texts().into_iter().map(|text| &**text).collect();
            Ok(scores(&texts, &query, params))
        })
    }

    /// The positions that leave, ascending, until at most `most` units are left; and the number of units left.
    fn until(
        &self,
        py: Python<'_>,
        scores: Vec<f64>,
        units: UnitsIn,
        most: i64,
        spared: Option<usize>,
    ) -> PyResult<(Vec<usize>, usize)> {
        let (needed, given) = (self.texts().len(), scores.len());
        if needed != given {
            return Err(PyValueError::new_err(format!(
                "scores must have one for each of the {needed} texts, got {given}"
            )));
        }
        let outline = self.outline.get();
        let sums = outline.sums_of(units)?;
        let most = usize::try_from(most).ok();
        run_attached(py, || {
            let outline = &outline.inner;
            Ok(self.inner.until(outline, &scores, &sums, most, spared))
        })
    }
}

impl Group {
    /// Whether it begins there, and its messages are these objects.
    fn is(&self, first: usize, raws: &[Bound<'_, PyAny>]) -> bool {
        let mut pairs = self.raws.iter().zip(raws);
        self.first == first && self.raws.len() == raws.len() && pairs.all(|(own, raw)| own.is(raw))
    }
}

/// Reads the texts of messages, with one buffer for all of them.
struct Reader<'a, 'py> {
    raws: &'a Bound<'py, PyList>,
    shown: &'a Bound<'py, PyAny>,
    rendering: Rendering,
    /// The texts of messages that were looked at and not read yet.
    said: Vec<Option<Bound<'py, PyString>>>,
}

impl<'a, 'py> Reader<'a, 'py> {
    /// A reader of the messages of an outline.
    fn of(
        outline: &Bound<'py, Outline>,
        raws: &'a Bound<'py, PyList>,
        shown: &'a Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        if raws.len() != outline.get().inner.lines().len() {
            return Err(PyValueError::new_err("raws must be those of the outline"));
        }
        Ok(Self {
            raws,
            shown,
            rendering: Rendering::default(),
            said: vec![None; raws.len()],
        })
    }

    /// Whether a message may begin with `opening`. True for a message whose text the core cannot read.
    fn may_begin(&mut self, at: usize, opening: &str) -> PyResult<bool> {
        let said = plainly_said(&self.raws.get_item(at)?);
        let text = said.as_ref().and_then(|said| said.to_str().ok());
        let may_begin = text.is_none_or(|text| begins(text, opening));
        self.said[at] = said;
        Ok(may_begin)
    }

    /// The group of the messages `raws` at the positions `members`. Its text is theirs, each on lines of its own.
    fn group(
        &mut self,
        first: usize,
        members: impl Iterator<Item = usize>,
        raws: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Group> {
        let texts = members.map(|at| self.message(at));
        let mut texts = texts.collect::<PyResult<Vec<_>>>()?;
        let text = match texts.pop() {
            Some(Text::Borrowed(text)) if texts.is_empty() => text, // most groups are one message
            last => {
                let lines: Vec<&str> = texts.iter().chain(&last).map(|text| &**text).collect();
                PyString::new(self.raws.py(), &lines.join("\n")).try_into()?
            }
        };
        Ok(Group {
            first,
            raws: raws.into_iter().map(Bound::unbind).collect(),
            is_blank: text.chars().all(is_space),
            text,
        })
    }

    /// The text of a message.
    fn message(&mut self, at: usize) -> PyResult<Text> {
        if let Some(said) = self.said[at].take() {
            return Text::from_py(&said);
        }
        let raw = self.raws.get_item(at)?;
        match plainly_said(&raw) {
            Some(said) => Text::from_py(&said),
            None => self.one(at, raw).map(Text::Repaired),
        }
    }

    /// The text of a message, without the label of its speaker.
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

/// The content of a message that has only a content, or only a role and a content, if it is a text.
fn plainly_said<'py>(raw: &Bound<'py, PyAny>) -> Option<Bound<'py, PyString>> {
    let dict = exactly::<PyDict>(raw)?;
    let field = |field| dict.get_item(name(raw.py(), field)).ok()?;
    let others = dict.len() - usize::from(dict.len() > 1 && field(Field::Role).is_some());
    if others != 1 {
        return None;
    }
    exactly::<PyString>(&field(Field::Content)?).cloned()
}

/// Whether a text begins with `opening`, space before it apart.
fn begins(text: &str, opening: &str) -> bool {
    text.trim_start_matches(is_space).starts_with(opening)
}

/// Two lists: the messages that are not at a position of `gone`, which ascends, and the others.
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
