//! How do rows, ids and answers of an index cross the wall? As buffers and bytes.

use std::ops::Range;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use siltstone_ann::space::check_row;
use siltstone_core::{Error, ErrorKind, Result as CoreResult, SparseRow};

/// Ids and values of the best of each query, row after row.
pub(crate) type Found<'py> = (Bound<'py, PyByteArray>, Bound<'py, PyByteArray>);

/// The id where there is no row.
const NO_ID: u64 = u64::MAX;

/// What was found for each query, a row each: ids, and values of `WIDTH` bytes.
pub(crate) struct Table<const WIDTH: usize> {
    columns: usize,
    /// What stands for the value of nothing.
    nothing: [u8; WIDTH],
    ids: Vec<[u8; size_of::<u64>()]>,
    values: Vec<[u8; WIDTH]>,
}

impl<const WIDTH: usize> Table<WIDTH> {
    pub(crate) fn new(columns: usize, nothing: [u8; WIDTH]) -> Self {
        Self {
            columns,
            nothing,
            ids: Vec::new(),
            values: Vec::new(),
        }
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// A row of at most as many as there are columns; the rest of it is filled up.
    pub(crate) fn push(&mut self, found: impl Iterator<Item = (u32, [u8; WIDTH])>) {
        let end = self.ids.len() + self.columns;
        for (id, value) in found.take(self.columns) {
            self.ids.push(u64::from(id).to_ne_bytes());
            self.values.push(value);
        }
        self.ids.resize(end, NO_ID.to_ne_bytes());
        self.values.resize(end, self.nothing);
    }

    pub(crate) fn cross(self, py: Python<'_>) -> Found<'_> {
        (
            PyByteArray::new(py, self.ids.as_flattened()),
            PyByteArray::new(py, self.values.as_flattened()),
        )
    }
}

/// What one query found, as many as there are, as bytes: ids, and values behind them.
pub(crate) fn row_to_bytes(
    py: Python<'_>,
    found: impl ExactSizeIterator<Item = (u32, [u8; 8])>,
) -> PyResult<Bound<'_, PyByteArray>> {
    const WIDE: usize = size_of::<u64>();
    let len = found.len();
    PyByteArray::new_with(py, 2 * len * WIDE, |bytes| {
        let (ids, values) = bytes.as_chunks_mut::<WIDE>().0.split_at_mut(len);
        for ((id, value), found) in ids.iter_mut().zip(values).zip(found) {
            *id = u64::from(found.0).to_ne_bytes();
            *value = found.1;
        }
        Ok(())
    })
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

/// The numbers of what is there, as `what` is called: all of them, or the first that is not there.
pub(crate) fn known(ids: &[u64], what: &str, has: impl Fn(u32) -> bool) -> CoreResult<Vec<u32>> {
    let id = |&id: &u64| {
        let known = u32::try_from(id).ok().filter(|&id| has(id));
        known.ok_or_else(|| {
            let message = format!("the index has no {what} {id}");
            Error::new(ErrorKind::EntryNotFound, message)
                .with("entry_id", i64::try_from(id).unwrap_or(i64::MAX))
        })
    };
    ids.iter().map(id).collect()
}

/// The number of the first of `more` texts, if all of them get one.
pub(crate) fn check_room(len: usize, more: usize) -> CoreResult<u64> {
    let end = len as u64 + more as u64;
    if end < u64::from(u32::MAX) {
        return Ok(len as u64);
    }
    let message = format!(
        "an index holds at most {} texts, and this would be {end}",
        u32::MAX
    );
    Err(Error::new(ErrorKind::InvalidArgument, message).with("field", "texts"))
}

pub(crate) fn refuse(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).with("field", "vectors")
}
