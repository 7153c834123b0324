//! Orders the parts of a history that may be trimmed: the least relevant to a question leave first.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
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
    /// The texts of the groups that have one.
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
        held: Held<'_>,
    ) -> PyResult<Self> {
        run_attached(raws.py(), || {
            let (history, (opening, is_held)) = (&outline.get().inner, held);
            let mut reader = Reader::of(outline, raws, shown)?;
            let groups = history.without_held(history.loose(fixed), |request| {
                Ok::<_, PyErr>(
                    reader.may_begin(request, &opening)? && is_held.call1((request,))?.extract()?,
                )
            })?;
            let (mut inner, mut texts) = (InnerLoose::default(), Vec::with_capacity(groups.len()));
            for first in groups {
                interpreter::at_step(raws.py(), inner.len())?;
                let text = reader.group(history.members(first))?;
                let is_blank = text.chars().all(is_space);
                inner.push(first, is_blank);
                if !is_blank {
                    texts.push(text);
                }
            }
            Ok(Self {
                outline: outline.clone().unbind(),
                inner,
                texts,
            })
        })
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(|text| &**text).collect()
    }

    fn relevance(&self, py: Python<'_>, query: Text, k1: f64, b: f64) -> PyResult<Vec<f64>> {
        run_detached(py, || {
            let (params, query) = (Bm25Params::new(k1, b)?, Query::of(&query));
            Ok(scores(&self.texts, &query, params))
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
        let (needed, given) = (self.texts.len(), scores.len());
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

    /// The text of a group: the texts of its messages, each on lines of its own.
    fn group(&mut self, mut members: impl Iterator<Item = usize>) -> PyResult<Text> {
        let text = match members.next() {
            Some(first) => self.message(first)?,
            None => Text::Repaired(String::new()),
        };
        let mut rest = members.peekable();
        if rest.peek().is_none() {
            return Ok(text); // most groups are one message
        }
        let mut text = String::from(text);
        for at in rest {
            text.push('\n');
            text.push_str(&self.message(at)?);
        }
        Ok(Text::Repaired(text))
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
