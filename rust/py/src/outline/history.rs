//! The class `Outline`: the structure of a history, which policies use before they read any message.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use siltstone_core::outline::{
    Keys, Line, Measure, Other, Outline as Inner, Provenance, Role, Tie,
};

use super::value::Plain;
use crate::error::run_attached;
use crate::interpreter;
use crate::text::with_bytes;

/// The kind, the call id and the name of a part that ties its message to others.
type TieIn<'py> = (
    Bound<'py, PyString>,
    Option<Bound<'py, PyString>>,
    Option<Bound<'py, PyString>>,
);
/// The role; the provenance; whether it is an item, is only reasoning, and opens a turn; the number of parts; the ties.
type LineIn<'py> = (
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    bool,
    bool,
    bool,
    u32,
    Vec<TieIn<'py>>,
);

/// The structure of a history: of each message its dialect, its speaker and its ties, but no text.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Outline {
    pub(super) inner: Inner,
}

#[pymethods]
impl Outline {
    #[new]
    #[pyo3(signature = (raws, describe, is_request, before = None))]
    fn new(
        raws: &Bound<'_, PyList>,
        describe: &Bound<'_, PyAny>,
        is_request: &Bound<'_, PyAny>,
        before: Option<&Self>,
    ) -> PyResult<Self> {
        run_attached(raws.py(), || {
            let mut other = Described {
                describe,
                is_request,
            };
            let messages = (0..raws.len()).map(|position| {
                interpreter::at_step(raws.py(), position)?;
                raws.get_item(position).map(Plain)
            });
            let inner = Inner::read(before.map(|known| &known.inner), messages, &mut other)?;
            Ok(Self { inner })
        })
    }

    fn __len__(&self) -> usize {
        self.inner.lines().len()
    }

    #[getter]
    fn others(&self) -> Vec<usize> {
        self.inner.others().to_vec()
    }

    #[getter]
    fn rules(&self) -> Vec<usize> {
        self.inner.positions(|line| line.role.is_rule())
    }

    #[getter]
    fn summaries(&self) -> Vec<usize> {
        self.inner
            .positions(|line| line.provenance == Provenance::Summary)
    }

    #[getter]
    fn unoriginal(&self) -> Vec<usize> {
        self.inner
            .positions(|line| line.provenance != Provenance::Original)
    }

    #[getter]
    fn requests(&self) -> Vec<usize> {
        self.inner.turns().iter().map(|turn| turn.request).collect()
    }

    #[getter]
    fn turn_count(&self) -> usize {
        self.inner.turns().len()
    }

    fn turn(&self, number: usize) -> PyResult<(usize, usize, usize)> {
        let turns = self.inner.turns();
        let turn = turns.get(number).ok_or_else(|| {
            let count = turns.len();
            PyValueError::new_err(format!("turn must be < {count}, got {number}"))
        })?;
        Ok((turn.start, turn.end, turn.request))
    }

    #[getter]
    fn in_flight(&self) -> bool {
        self.inner.in_flight()
    }

    #[getter]
    fn pending(&self) -> Vec<usize> {
        self.inner.pending()
    }

    fn group_ending_at(&self, position: usize) -> Option<Vec<usize>> {
        self.inner.group_ending_at(position)
    }

    fn last_bound(&self) -> Vec<usize> {
        self.inner.last_bound()
    }

    fn closed(&self, kept: Vec<usize>) -> Vec<(usize, usize)> {
        self.inner.closed(kept)
    }

    fn breaks(&self, spans: Vec<(usize, usize)>) -> Vec<usize> {
        self.inner.breaks(spans)
    }

    fn parts(&self, start: usize, end: usize) -> usize {
        self.inner.parts(start, end)
    }

    fn sums(&self, measure: &str, others: Vec<usize>) -> PyResult<Vec<usize>> {
        self.checked(measure, &others)
            .map(|measure| self.inner.sums(measure, &others))
    }

    fn total(&self, measure: &str, others: Vec<usize>) -> PyResult<usize> {
        self.checked(measure, &others)
            .map(|measure| self.inner.total(measure, &others))
    }

    fn largest(&self, measure: &str, others: Vec<usize>) -> PyResult<usize> {
        self.checked(measure, &others)
            .map(|measure| self.inner.largest(measure, &others))
    }
}

impl Outline {
    /// The measure of that name. `others` must have the units of every message that the core cannot read.
    fn checked(&self, measure: &str, others: &[usize]) -> PyResult<Measure> {
        let (needed, given) = (self.inner.others().len(), others.len());
        if given != needed {
            return Err(PyValueError::new_err(format!(
                "others must have a number for each of the {needed} other messages, got {given}"
            )));
        }
        measure_in(measure)
    }

    /// The sums of the units of the first 0, 1, 2 … messages.
    pub(super) fn sums_of(&self, units: UnitsIn) -> PyResult<Vec<usize>> {
        let sums = match units {
            UnitsIn::Measured(measure, others) => self.sums(&measure, others)?,
            UnitsIn::Sums(sums) => sums,
        };
        if sums.len() == self.inner.lines().len() + 1 {
            Ok(sums)
        } else {
            Err(PyValueError::new_err("units must be those of the outline"))
        }
    }
}

/// The units of messages: a measure, with the units of the other messages; or the sums of all units.
#[derive(FromPyObject)]
pub(super) enum UnitsIn {
    Measured(String, Vec<usize>),
    Sums(Vec<usize>),
}

/// Reads the other messages with functions of Python.
struct Described<'a, 'py> {
    describe: &'a Bound<'py, PyAny>,
    is_request: &'a Bound<'py, PyAny>,
}

impl Other for Described<'_, '_> {
    type Error = PyErr;

    fn describe(
        &mut self,
        position: usize,
        keys: &mut Keys,
        ties: &mut Vec<Tie>,
    ) -> PyResult<Line> {
        let described = self.describe.call1((position,))?;
        let (role, provenance, is_item, is_reasoning, opens_turn, parts, described_ties): LineIn<
            '_,
        > = described.extract()?;
        for tie in &described_ties {
            ties.push(tie_in(tie, keys)?);
        }
        let role = role.to_str()?;
        Ok(Line {
            role: Role::of(role).ok_or_else(|| unknown("role", role))?,
            provenance: Provenance::of(provenance.to_str()?),
            is_item,
            is_reasoning,
            opens_turn,
            parts,
        })
    }

    fn is_request(&mut self, text: &str) -> PyResult<bool> {
        self.is_request.call1((text,))?.extract()
    }
}

fn tie_in((kind, call_id, name): &TieIn<'_>, keys: &mut Keys) -> PyResult<Tie> {
    let key = match (call_id, name) {
        (Some(id), _) => with_bytes(id, |id| keys.id(id))?,
        (None, Some(name)) => with_bytes(name, |name| keys.name(Some(name)))?,
        (None, None) => keys.name(None),
    };
    let kind = kind.to_str()?;
    Tie::of(kind, key).ok_or_else(|| unknown("kind of a tie", kind))
}

pub(super) fn measure_in(name: &str) -> PyResult<Measure> {
    Measure::of(name).ok_or_else(|| {
        PyValueError::new_err(format!(
            "measure must be 'bytes', 'code_points' or 'blocks', got {name:?}"
        ))
    })
}

fn unknown(what: &str, got: &str) -> PyErr {
    PyTypeError::new_err(format!("the {what} is unknown: {got:?}"))
}
