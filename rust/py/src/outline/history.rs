//! `Outline`: what a policy asks of a history before it reads a message.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use siltstone_core::outline::{
    Keys, Line, Measure, Other, Outline as Inner, Provenance, Role, Tie,
};

use super::value::Plain;
use crate::error::guard_attached;
use crate::text::with_bytes;

/// kind, call id, name of a part that ties its message to others.
type TieIn<'py> = (
    Bound<'py, PyString>,
    Option<Bound<'py, PyString>>,
    Option<Bound<'py, PyString>>,
);
/// role, provenance, whether it is an item, is nothing but reasoning, opens a turn; parts, ties.
type LineIn<'py> = (
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    bool,
    bool,
    bool,
    u32,
    Vec<TieIn<'py>>,
);

#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Outline(pub(super) Inner);

#[pymethods]
impl Outline {
    #[new]
    fn new(
        raws: &Bound<'_, PyList>,
        describe: &Bound<'_, PyAny>,
        opens_turn: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        guard_attached(raws.py(), || {
            let messages = (0..raws.len()).map(|position| raws.get_item(position).map(Plain));
            let mut other = Described {
                describe,
                opens_turn,
            };
            Inner::read(messages, &mut other).map(Self)
        })
    }

    fn __len__(&self) -> usize {
        self.0.lines().len()
    }

    #[getter]
    fn odd(&self) -> Vec<usize> {
        self.0.others().to_vec()
    }

    #[getter]
    fn rules(&self) -> Vec<usize> {
        self.0.positions(|line| line.role.is_rule())
    }

    #[getter]
    fn summaries(&self) -> Vec<usize> {
        self.0
            .positions(|line| line.provenance == Provenance::Summary)
    }

    #[getter]
    fn unoriginal(&self) -> Vec<usize> {
        self.0
            .positions(|line| line.provenance != Provenance::Original)
    }

    #[getter]
    fn requests(&self) -> Vec<usize> {
        self.0.turns().iter().map(|turn| turn.request).collect()
    }

    #[getter]
    fn turn_count(&self) -> usize {
        self.0.turns().len()
    }

    fn turn(&self, number: usize) -> PyResult<(usize, usize, usize)> {
        let turns = self.0.turns();
        let turn = turns.get(number).ok_or_else(|| {
            let count = turns.len();
            PyValueError::new_err(format!("turn must be < {count}, got {number}"))
        })?;
        Ok((turn.start, turn.end, turn.request))
    }

    #[getter]
    fn in_flight(&self) -> bool {
        self.0.in_flight()
    }

    #[getter]
    fn pending(&self) -> Vec<usize> {
        self.0.pending()
    }

    fn group_ending_at(&self, position: usize) -> Option<Vec<usize>> {
        self.0.group_ending_at(position)
    }

    fn last_bound(&self) -> Vec<usize> {
        self.0.last_bound()
    }

    fn closed(&self, kept: Vec<usize>) -> Vec<(usize, usize)> {
        self.0.closed(kept)
    }

    fn breaks(&self, spans: Vec<(usize, usize)>) -> Vec<usize> {
        self.0.breaks(spans)
    }

    fn parts(&self, start: usize, end: usize) -> usize {
        self.0.parts(start, end)
    }

    fn sums(&self, measure: &str, odd: Vec<usize>) -> PyResult<Vec<usize>> {
        let (needed, given) = (self.0.others().len(), odd.len());
        if given != needed {
            return Err(PyValueError::new_err(format!(
                "odd must have a number for each of the {needed} odd messages, got {given}"
            )));
        }
        Ok(self.0.sums(measure_in(measure)?, &odd))
    }
}

/// Messages that are read in Python.
struct Described<'a, 'py> {
    describe: &'a Bound<'py, PyAny>,
    opens_turn: &'a Bound<'py, PyAny>,
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

    fn opens_turn(&mut self, position: usize) -> PyResult<bool> {
        self.opens_turn.call1((position,))?.extract()
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
