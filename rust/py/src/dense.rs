//! The class `Hnsw`: an index over rows of floats. It takes buffers, and returns bytes.

use std::path::PathBuf;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use siltstone_ann::space::sparse_rows;
use siltstone_ann::{AnyHnsw, Bounds, HnswParams, Plan, Rows};
use siltstone_core::index::Neighbor;
use siltstone_core::index_file;

use crate::buffers::{Found, Table, known};
use crate::error::{run_detached, to_exception};
use crate::record::Named;

/// An approximate index: a graph over rows.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Hnsw(AnyHnsw);

#[pymethods]
impl Hnsw {
    #[new]
    fn new(
        py: Python<'_>,
        dim: usize,
        storage: &str,
        params: (usize, usize, usize, usize, u64),
    ) -> PyResult<Self> {
        let params = HnswParams::new(params.0, params.1, params.2, params.3, params.4)
            .map_err(|error| to_exception(py, &error))?;
        run_detached(py, || AnyHnsw::new(dim, storage, params)).map(Self)
    }

    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        run_detached(py, || index_file::load(&path, AnyHnsw::from_bytes)).map(Self)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: PyBackedBytes) -> PyResult<Self> {
        run_detached(py, || AnyHnsw::from_bytes(&file)).map(Self)
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run_detached(py, || index_file::write(&path, &self.0.to_bytes()))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let file = run_detached(py, || Ok(self.0.to_bytes()))?;
        Ok(PyBytes::new(py, &file))
    }

    fn add(&self, py: Python<'_>, vectors: RowsIn) -> PyResult<(u32, u32)> {
        let rows = vectors.read(py, "vectors")?;
        let ids = run_detached(py, || self.0.add(&rows))?;
        Ok((ids.start, ids.end))
    }

    fn remove(&self, py: Python<'_>, ids: Vec<u64>) -> PyResult<()> {
        run_detached(py, || self.0.remove(&known(&ids, "row", |_| true)?))
    }

    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: RowsIn,
        k: usize,
        ef: Option<usize>,
        plan: Option<Named<Plan>>,
    ) -> PyResult<Found<'py>> {
        let (queries, plan) = (queries.read(py, "queries")?, plan.map(|Named(plan)| plan));
        let k = k.min(self.0.len());
        let found = run_detached(py, || {
            let mut table = Table::new(k, f32::INFINITY.to_ne_bytes());
            self.0.search(&queries, Bounds { k, ef, plan }, |found| {
                table.push(found.iter().map(pair));
            })?;
            Ok(table)
        })?;
        Ok(found.cross(py))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[getter]
    fn dim(&self) -> usize {
        self.0.dimension()
    }

    #[getter]
    fn storage(&self) -> &'static str {
        self.0.storage()
    }

    #[getter]
    fn params(&self) -> (usize, usize, usize, usize, u64) {
        let params = self.0.params();
        (
            params.m(),
            params.ef_construction(),
            params.ef_search(),
            params.max_layer(),
            params.seed(),
        )
    }

    /// The numbers of all rows ever added, of removed rows that are still linked, and of layers; and the plan.
    fn figures(&self) -> (usize, usize, usize, &'static str) {
        let figures = self.0.figures();
        (
            figures.rows,
            figures.lingering,
            figures.layers,
            figures.plan.name(),
        )
    }
}

/// Rows as Python has them: a matrix of floats, or the three arrays of a sparse matrix of counts.
#[derive(FromPyObject)]
enum RowsIn {
    Sparse(PyBuffer<i64>, PyBuffer<i32>, PyBuffer<f32>),
    Dense(PyBuffer<f32>),
}

impl RowsIn {
    /// The rows. `field` is their name in messages.
    fn read(&self, py: Python<'_>, field: &str) -> PyResult<Rows> {
        match self {
            Self::Dense(matrix) => matrix.to_vec(py).map(Rows::Floats),
            Self::Sparse(starts, buckets, values) => {
                let starts = copied(py, starts)?;
                let (buckets, values) = (copied(py, buckets)?, copied(py, values)?);
                let rows = run_detached(py, || sparse_rows(&starts, &buckets, &values, field))?;
                Ok(Rows::Counts(rows))
            }
        }
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

#[expect(
    clippy::cast_possible_truncation,
    reason = "distances are given as float32"
)]
fn pair(near: &Neighbor) -> (u32, [u8; 4]) {
    (near.id, (near.distance as f32).to_ne_bytes())
}
