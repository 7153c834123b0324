//! How do rows, ids and answers of an index cross the wall? As buffers and bytes.

use std::ops::Range;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use siltstone_ann::space::check_row;
use siltstone_core::index::Neighbor;
use siltstone_core::{Error, ErrorKind, Result as CoreResult, SparseRow};

/// Ids and distances.
pub(crate) type Found<'py> = (Bound<'py, PyByteArray>, Bound<'py, PyByteArray>);

/// The id where there is no row.
const NO_ID: u64 = u64::MAX;

/// What was found for each query, `k` places each.
pub(crate) struct Table {
    k: usize,
    ids: Vec<[u8; size_of::<u64>()]>,
    distances: Vec<[u8; size_of::<f32>()]>,
}

impl Table {
    pub(crate) fn new(k: usize) -> Self {
        Self {
            k,
            ids: Vec::new(),
            distances: Vec::new(),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "distances are given as float32"
    )]
    pub(crate) fn push(&mut self, found: Vec<Neighbor>) {
        let end = self.ids.len() + self.k;
        for neighbor in found.into_iter().take(self.k) {
            self.ids.push(u64::from(neighbor.id).to_ne_bytes());
            self.distances
                .push((neighbor.distance as f32).to_ne_bytes());
        }
        self.ids.resize(end, NO_ID.to_ne_bytes());
        self.distances.resize(end, f32::INFINITY.to_ne_bytes());
    }

    pub(crate) fn cross(self, py: Python<'_>) -> Found<'_> {
        (
            PyByteArray::new(py, self.ids.as_flattened()),
            PyByteArray::new(py, self.distances.as_flattened()),
        )
    }
}

/// Rows without their zeros.
pub(crate) struct Matrix {
    starts: Vec<i64>,
    buckets: Vec<i32>,
    values: Vec<f32>,
}

impl Matrix {
    pub(crate) fn of(
        py: Python<'_>,
        indptr: &PyBuffer<i64>,
        indices: &PyBuffer<i32>,
        values: &PyBuffer<f32>,
    ) -> PyResult<Self> {
        Ok(Self {
            starts: copied(py, indptr)?,
            buckets: copied(py, indices)?,
            values: copied(py, values)?,
        })
    }

    pub(crate) fn rows(&self, field: &str) -> CoreResult<Vec<SparseRow>> {
        check_row(&self.values, 0, field)?;
        let bounds = self.starts.windows(2).enumerate();
        bounds
            .map(|(row, bounds)| self.row(row, bounds[0], bounds[1]))
            .collect()
    }

    fn row(&self, row: usize, start: i64, end: i64) -> CoreResult<SparseRow> {
        let range: Option<Range<usize>> = usize::try_from(start)
            .ok()
            .zip(usize::try_from(end).ok())
            .map(|(start, end)| start..end);
        let parts = range
            .and_then(|range| Some((self.buckets.get(range.clone())?, self.values.get(range)?)));
        let Some((buckets, values)) = parts else {
            return Err(refuse(format!(
                "row {row} of the matrix reaches from {start} to {end}, out of its {} values",
                self.values.len()
            )));
        };
        SparseRow::of_weights(buckets, values)
            .map_err(|error| refuse(format!("row {row}: {error}")))
    }
}

fn copied<T: Element>(py: Python<'_>, buffer: &PyBuffer<T>) -> PyResult<Vec<T>> {
    if buffer.dimensions() == 1 {
        buffer.to_vec(py)
    } else {
        Err(PyTypeError::new_err(
            "a part of a sparse matrix has one dimension",
        ))
    }
}

/// The rows of a matrix, all of them finite.
pub(crate) fn rows<'a>(
    values: &'a [f32],
    dimension: usize,
    field: &str,
) -> CoreResult<impl Iterator<Item = &'a [f32]> + use<'a>> {
    if !values.len().is_multiple_of(dimension) {
        let count = values.len();
        return Err(refuse(format!(
            "{field} must have {dimension} numbers each, got {count} in all"
        )));
    }
    for (number, row) in values.chunks_exact(dimension).enumerate() {
        check_row(row, number, field)?;
    }
    Ok(values.chunks_exact(dimension))
}

/// Ids that a row can have.
pub(crate) fn known(ids: &[u64]) -> CoreResult<Vec<u32>> {
    let id = |&id: &u64| {
        u32::try_from(id).map_err(|_| {
            Error::new(
                ErrorKind::EntryNotFound,
                format!("the index has no row {id}"),
            )
            .with("entry_id", i64::try_from(id).unwrap_or(i64::MAX))
        })
    };
    ids.iter().map(id).collect()
}

pub(crate) fn refuse(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).with("field", "vectors")
}
