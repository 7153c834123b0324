//! Rows and ids of an index as Python buffers, and its answers as bytes.

use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use siltstone_core::{Error, ErrorKind, Result as CoreResult};

/// The ids and values of the best hits of each query, row after row.
pub(crate) type Found<'py> = (Bound<'py, PyByteArray>, Bound<'py, PyByteArray>);

/// The id that pads a row.
const NO_ID: u64 = u64::MAX;

/// The answers to queries, one row for each: ids, and values of `WIDTH` bytes.
pub(crate) struct Table<const WIDTH: usize> {
    columns: usize,
    /// The value that pads a row.
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

    /// Adds a row of at most as many hits as there are columns, and pads it.
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

/// The answer to one query as bytes: first all ids, then all values.
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

/// `ids` as numbers of rows or texts. The error names the first id that the index lacks, and calls it `what`.
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

/// The number of the first of `more` new texts. It is an error if the index has no room for all of them.
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
