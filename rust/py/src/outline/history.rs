//! `Outline`: what a policy asks of a history before it reads a message.

use std::collections::HashMap;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use siltstone_core::outline::{
    Keys, Line, Lines, Measure, Measured, Outline as Inner, Provenance, Role, Tie, Units, measured,
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
pub(crate) struct Outline {
    inner: Inner,
    units: Vec<Units>,
    odd: Vec<usize>,
}

#[pymethods]
impl Outline {
    #[new]
    fn new(
        raws: &Bound<'_, PyList>,
        describe: &Bound<'_, PyAny>,
        opens_turn: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        guard_attached(raws.py(), || {
            let (mut lines, mut keys) = (Lines::with_capacity(raws.len()), Keys::default());
            let (mut units, mut odd) = (Vec::with_capacity(raws.len()), Vec::new());
            let mut ties = Vec::new();
            for position in 0..raws.len() {
                ties.clear();
                let raw = Plain(raws.get_item(position)?);
                let read = measured(&raw, &mut keys, &mut ties);
                let (line, size) = if let Some(read) = read {
                    let Measured {
                        mut line, units, ..
                    } = read;
                    if read.has_words_beside_results {
                        line.opens_turn = opens_turn.call1((position,))?.extract()?;
                    }
                    (line, units)
                } else {
                    ties.clear();
                    odd.push(position);
                    let described = describe.call1((position,))?;
                    (
                        line_in(described.extract()?, &mut keys, &mut ties)?,
                        Units::default(),
                    )
                };
                lines.push(line, &ties);
                units.push(size);
            }
            let inner = Inner::new(lines, keys.count());
            Ok(Self { inner, units, odd })
        })
    }

    fn __len__(&self) -> usize {
        self.units.len()
    }

    #[getter]
    fn odd(&self) -> Vec<usize> {
        self.odd.clone()
    }

    #[getter]
    fn rules(&self) -> Vec<usize> {
        self.positions(|line| line.role.is_rule())
    }

    #[getter]
    fn summaries(&self) -> Vec<usize> {
        self.positions(|line| line.provenance == Provenance::Summary)
    }

    #[getter]
    fn unoriginal(&self) -> Vec<usize> {
        self.positions(|line| line.provenance != Provenance::Original)
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

    fn bound(&self) -> Vec<Vec<usize>> {
        let ends = (0..self.units.len()).filter_map(|at| self.inner.group_ending_at(at));
        ends.filter(|group| group.len() > 1).collect()
    }

    fn closed(&self, kept: Vec<usize>) -> Vec<(usize, usize)> {
        self.inner.closed(kept)
    }

    fn breaks(&self, spans: Vec<(usize, usize)>) -> Vec<usize> {
        self.inner.breaks(spans)
    }

    fn parts(&self, start: usize, end: usize) -> usize {
        let lines = self.inner.lines();
        let end = end.min(lines.len());
        let lines = lines.get(start..end).unwrap_or_default();
        lines.iter().map(|line| line.parts as usize).sum()
    }

    fn sums(&self, measure: &str, odd: Vec<usize>) -> PyResult<Vec<usize>> {
        let measure = measure_in(measure)?;
        if odd.len() != self.odd.len() {
            let (needed, given) = (self.odd.len(), odd.len());
            return Err(PyValueError::new_err(format!(
                "odd must have a number for each of the {needed} odd messages, got {given}"
            )));
        }
        let odd: HashMap<usize, usize> = self.odd.iter().copied().zip(odd).collect();
        let mut sums = Vec::with_capacity(self.units.len() + 1);
        let mut total = 0_usize;
        sums.push(total);
        for (position, units) in self.units.iter().enumerate() {
            let own = odd.get(&position).copied();
            total = total.saturating_add(own.unwrap_or_else(|| units.by(measure)));
            sums.push(total);
        }
        Ok(sums)
    }
}

impl Outline {
    fn positions(&self, is_wanted: impl Fn(&Line) -> bool) -> Vec<usize> {
        let lines = self.inner.lines().iter().enumerate();
        lines
            .filter(|(_, line)| is_wanted(line))
            .map(|(position, _)| position)
            .collect()
    }
}

/// The line of a message that was read in Python.
fn line_in(described: LineIn<'_>, keys: &mut Keys, ties: &mut Vec<Tie>) -> PyResult<Line> {
    let (role, provenance, is_item, is_reasoning, opens_turn, parts, described_ties) = described;
    for tie in &described_ties {
        ties.push(tie_in(tie, keys)?);
    }
    Ok(Line {
        role: role_in(role.to_str()?)?,
        provenance: match provenance.to_str()? {
            "original" | "substitute" => Provenance::Original,
            "compaction_summary" => Provenance::Summary,
            "injected_context" | "recalled_context" => Provenance::Injected,
            _ => Provenance::Other,
        },
        is_item,
        is_reasoning,
        opens_turn,
        parts,
    })
}

fn tie_in((kind, call_id, name): &TieIn<'_>, keys: &mut Keys) -> PyResult<Tie> {
    let key = match (call_id, name) {
        (Some(id), _) => with_bytes(id, |id| keys.id(id))?,
        (None, Some(name)) => with_bytes(name, |name| keys.name(Some(name)))?,
        (None, None) => keys.name(None),
    };
    Ok(match kind.to_str()? {
        "tool_call" => Tie::Call(key),
        "tool_result" => Tie::Result(key),
        "other" => Tie::Shared(key),
        "reference" => Tie::Reference,
        other => return Err(unknown("kind of a tie", other)),
    })
}

fn role_in(role: &str) -> PyResult<Role> {
    Ok(match role {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        other => return Err(unknown("role", other)),
    })
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
