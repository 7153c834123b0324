//! `Flat` and `Hnsw`: indexes over rows of floats. Arrays cross the wall as buffers, answers as bytes.

use std::path::PathBuf;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use siltstone_ann::space::{Float16, Float32, Int8, Space, Sparse};
use siltstone_ann::{FlatRows, Hnsw as Graph, HnswParams, Plan, storage_of};
use siltstone_core::index::Neighbor;
use siltstone_core::index_file;
use siltstone_core::{Error, Result as CoreResult};

use crate::arrays::{Found, Matrix, Table, known, refuse, rows};
use crate::error::{guard, to_exception};

/// All rows, scanned.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Flat(FlatRows);

#[pymethods]
impl Flat {
    #[new]
    fn new(py: Python<'_>, dim: usize) -> PyResult<Self> {
        guard(py, || FlatRows::new(dim)).map(Self)
    }

    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        guard(py, || index_file::load(&path, FlatRows::from_bytes)).map(Self)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: PyBackedBytes) -> PyResult<Self> {
        guard(py, || FlatRows::from_bytes(&file)).map(Self)
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        guard(py, || index_file::write(&path, &self.0.to_bytes()))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let file = guard(py, || Ok(self.0.to_bytes()))?;
        Ok(PyBytes::new(py, &file))
    }

    fn add(&self, py: Python<'_>, vectors: PyBuffer<f32>) -> PyResult<(u32, u32)> {
        let values = vectors.to_vec(py)?;
        let ids = guard(py, || {
            let rows = rows(&values, self.0.dimension(), "vectors")?;
            self.0.add(rows)
        })?;
        Ok((ids.start, ids.end))
    }

    fn remove(&self, py: Python<'_>, ids: Vec<u64>) -> PyResult<()> {
        guard(py, || self.0.remove(&known(&ids, "row", |_| true)?))
    }

    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: PyBuffer<f32>,
        k: usize,
    ) -> PyResult<Found<'py>> {
        let values = queries.to_vec(py)?;
        let k = k.min(self.0.len());
        let found = guard(py, || {
            let mut table = table(k);
            for query in rows(&values, self.0.dimension(), "queries")? {
                table.push(self.0.search(query, k).iter().map(pair));
            }
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
    fn rows(&self) -> u32 {
        self.0.rows()
    }
}

/// Rows of one storage and the graph over them.
#[expect(
    clippy::large_enum_variant,
    reason = "all are large, and each lies in a Python object of its own"
)]
enum Any {
    I8(Graph<Int8>),
    F16(Graph<Float16>),
    F32(Graph<Float32>),
    Sparse(Graph<Sparse>),
}

macro_rules! each {
    ($any:expr, $index:ident => $work:expr) => {
        match $any {
            Any::I8($index) => $work,
            Any::F16($index) => $work,
            Any::F32($index) => $work,
            Any::Sparse($index) => $work,
        }
    };
}

/// A graph over rows.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Hnsw(Any);

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
        guard(py, || Any::new(dim, storage, params)).map(Self)
    }

    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        guard(py, || index_file::load(&path, Any::read)).map(Self)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: PyBackedBytes) -> PyResult<Self> {
        guard(py, || Any::read(&file)).map(Self)
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        guard(py, || {
            index_file::write(&path, &each!(&self.0, index => index.to_bytes()))
        })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let file = guard(py, || Ok(each!(&self.0, index => index.to_bytes())))?;
        Ok(PyBytes::new(py, &file))
    }

    fn add(&self, py: Python<'_>, vectors: PyBuffer<f32>) -> PyResult<(u32, u32)> {
        let values = vectors.to_vec(py)?;
        let ids = guard(py, || match &self.0 {
            Any::I8(index) => index.add(rows(&values, index.dimension(), "vectors")?),
            Any::F16(index) => index.add(rows(&values, index.dimension(), "vectors")?),
            Any::F32(index) => index.add(rows(&values, index.dimension(), "vectors")?),
            Any::Sparse(_) => Err(wrong_kind()),
        })?;
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
        let ids = guard(py, || self.0.sparse()?.add(&matrix.rows("vectors")?))?;
        Ok((ids.start, ids.end))
    }

    fn remove(&self, py: Python<'_>, ids: Vec<u64>) -> PyResult<()> {
        guard(py, || {
            let ids = known(&ids, "row", |_| true)?;
            each!(&self.0, index => index.remove(&ids))
        })
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
        let plan = parse(py, plan)?;
        let found = guard(py, || match &self.0 {
            Any::I8(index) => {
                let queries = rows(&values, index.dimension(), "queries")?;
                Ok(search(index, queries, k, ef, plan))
            }
            Any::F16(index) => {
                let queries = rows(&values, index.dimension(), "queries")?;
                Ok(search(index, queries, k, ef, plan))
            }
            Any::F32(index) => {
                let queries = rows(&values, index.dimension(), "queries")?;
                Ok(search(index, queries, k, ef, plan))
            }
            Any::Sparse(_) => Err(wrong_kind()),
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
        let plan = parse(py, plan)?;
        let found = guard(py, || {
            Ok(search(
                self.0.sparse()?,
                matrix.rows("queries")?.iter(),
                k,
                ef,
                plan,
            ))
        })?;
        Ok(found.cross(py))
    }

    fn __len__(&self) -> usize {
        each!(&self.0, index => index.len())
    }

    #[getter]
    fn dim(&self) -> usize {
        each!(&self.0, index => index.dimension())
    }

    #[getter]
    fn storage(&self) -> &'static str {
        match &self.0 {
            Any::I8(_) => Int8::NAME,
            Any::F16(_) => Float16::NAME,
            Any::F32(_) => Float32::NAME,
            Any::Sparse(_) => Sparse::NAME,
        }
    }

    #[getter]
    fn params(&self) -> (usize, usize, usize, usize, u64) {
        let params = each!(&self.0, index => index.params());
        (
            params.m(),
            params.ef_construction(),
            params.ef_search(),
            params.max_layer(),
            params.seed(),
        )
    }

    /// Rows ever added, removed rows that are still linked, layers, the plan.
    fn figures(&self) -> (usize, usize, usize, &'static str) {
        let figures = each!(&self.0, index => index.figures());
        (
            figures.rows,
            figures.lingering,
            figures.layers,
            figures.plan.name(),
        )
    }
}

impl Any {
    fn new(dimension: usize, storage: &str, params: HnswParams) -> CoreResult<Self> {
        match storage {
            "i8" => Graph::new(dimension, params).map(Self::I8),
            "f16" => Graph::new(dimension, params).map(Self::F16),
            "f32" => Graph::new(dimension, params).map(Self::F32),
            "sparse" => Graph::new(dimension, params).map(Self::Sparse),
            _ => Err(unknown_storage(storage)),
        }
    }

    fn read(file: &[u8]) -> CoreResult<Self> {
        match storage_of(file)?.as_str() {
            "i8" => Graph::from_bytes(file).map(Self::I8),
            "f16" => Graph::from_bytes(file).map(Self::F16),
            "f32" => Graph::from_bytes(file).map(Self::F32),
            "sparse" => Graph::from_bytes(file).map(Self::Sparse),
            storage => Err(unknown_storage(storage)),
        }
    }

    fn sparse(&self) -> CoreResult<&Graph<Sparse>> {
        match self {
            Self::Sparse(index) => Ok(index),
            _ => Err(wrong_kind()),
        }
    }
}

fn search<'a, S: Space>(
    index: &Graph<S>,
    queries: impl Iterator<Item = &'a S::Item>,
    k: usize,
    ef: Option<usize>,
    plan: Option<Plan>,
) -> Table<4>
where
    S::Item: 'a,
{
    let k = k.min(index.len());
    let mut table = table(k);
    for query in queries {
        table.push(index.search(query, k, ef, plan).iter().map(pair));
    }
    table
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

fn parse(py: Python<'_>, plan: Option<&str>) -> PyResult<Option<Plan>> {
    let plan = plan.map(str::parse).transpose();
    plan.map_err(|error| to_exception(py, &error))
}

fn unknown_storage(storage: &str) -> Error {
    refuse(format!(
        "storage must be 'auto', 'i8', 'f16', 'f32' or 'sparse', got {storage:?}"
    ))
}

fn wrong_kind() -> Error {
    refuse(
        "dense vectors go into a dense index, rows of counts into one with storage='sparse'"
            .to_owned(),
    )
}
