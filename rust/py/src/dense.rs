//! The class `Hnsw`: an index over rows of floats. It takes buffers, and returns bytes.

use std::path::PathBuf;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use siltstone_ann::{AnyHnsw, Bounds, HnswParams};
use siltstone_core::index::Neighbor;
use siltstone_core::index_file;

use crate::buffers::{Found, Matrix, Table, known};
use crate::error::{run_detached, to_exception};

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

    fn add(&self, py: Python<'_>, vectors: PyBuffer<f32>) -> PyResult<(u32, u32)> {
        let values = vectors.to_vec(py)?;
        let ids = run_detached(py, || self.0.add(&values))?;
        Ok((ids.start, ids.end))
    }

    fn add_sparse(
        &self,
        py: Python<'_>,
        indptr: PyBuffer<i64>,
        indices: PyBuffer<i32>,
        values: PyBuffer<f32>,
    ) -> PyResult<(u32, u32)> {
        let matrix = Matrix::of(py, &indptr, &indices, &values)?;
        let ids = run_detached(py, || self.0.add_sparse(&matrix.rows("vectors")?))?;
        Ok((ids.start, ids.end))
    }

    fn remove(&self, py: Python<'_>, ids: Vec<u64>) -> PyResult<()> {
        run_detached(py, || self.0.remove(&known(&ids, "row", |_| true)?))
    }

    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: PyBuffer<f32>,
        k: usize,
        ef: Option<usize>,
        plan: Option<&str>,
    ) -> PyResult<Found<'py>> {
        let values = queries.to_vec(py)?;
        let bounds = self.bounds(py, k, ef, plan)?;
        let found = run_detached(py, || {
            let mut table = table(bounds.k);
            self.0
                .search(&values, bounds, |found| table.push(found.iter().map(pair)))?;
            Ok(table)
        })?;
        Ok(found.cross(py))
    }

    fn search_sparse<'py>(
        &self,
        py: Python<'py>,
        indptr: PyBuffer<i64>,
        indices: PyBuffer<i32>,
        values: PyBuffer<f32>,
        k: usize,
        ef: Option<usize>,
        plan: Option<&str>,
    ) -> PyResult<Found<'py>> {
        let matrix = Matrix::of(py, &indptr, &indices, &values)?;
        let bounds = self.bounds(py, k, ef, plan)?;
        let found = run_detached(py, || {
            let (queries, mut table) = (matrix.rows("queries")?, table(bounds.k));
            self.0
                .search_sparse(&queries, bounds, |found| table.push(found.iter().map(pair)))?;
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

impl Hnsw {
    /// The bounds of a search. `k` is at most the number of rows.
    fn bounds(
        &self,
        py: Python<'_>,
        k: usize,
        ef: Option<usize>,
        plan: Option<&str>,
    ) -> PyResult<Bounds> {
        let plan = plan.map(str::parse).transpose();
        let plan = plan.map_err(|error| to_exception(py, &error))?;
        let k = k.min(self.0.len());
        Ok(Bounds { k, ef, plan })
    }
}

fn table(columns: usize) -> Table<4> {
    Table::new(columns, f32::INFINITY.to_ne_bytes())
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "distances are given as float32"
)]
fn pair(near: &Neighbor) -> (u32, [u8; 4]) {
    (near.id, (near.distance as f32).to_ne_bytes())
}
