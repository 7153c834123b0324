//! The class `HashedTfIndex`: finds texts by the cosine of hashed embeddings. Arrays are returned as native-endian
//! bytes.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyList};
use siltstone_core::Result as CoreResult;
use siltstone_core::embed::hash::HashRule;
use siltstone_core::embed::hashed_tf::bucket_counts;
use siltstone_core::index::{HashedTfIndex as Index, Neighbor};
use siltstone_core::index_file;
use siltstone_core::simd::Level;

use crate::bm25::Locked;
use crate::buffers::{Found, Table, check_room, known, row_to_bytes};
use crate::error::run_detached;
use crate::record::Named;
use crate::text::{Text, borrow_all};

/// Texts in an index by cosine. It is safe to use from many threads.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct HashedTfIndex {
    rule: HashRule,
    index: Locked<Index>,
}

#[pymethods]
impl HashedTfIndex {
    #[new]
    fn new(hash_rule: Named<HashRule>) -> Self {
        Self {
            rule: hash_rule.0,
            index: Locked::new(Index::default()),
        }
    }

    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        run_detached(py, || index_file::load(&path, Self::open))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: PyBackedBytes) -> PyResult<Self> {
        run_detached(py, || Self::open(&file))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let file = run_detached(py, || self.file())?;
        Ok(PyBytes::new(py, &file))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run_detached(py, || index_file::write(&path, &self.file()?))
    }

    #[getter]
    fn hash_rule(&self) -> &'static str {
        self.rule.name()
    }

    fn add(&self, texts: &Bound<'_, PyList>) -> PyResult<u64> {
        let (py, texts) = (texts.py(), borrow_all(texts)?);
        run_detached(py, || {
            let rows: Vec<_> = texts
                .iter()
                .map(|text| bucket_counts(text, self.rule))
                .collect();
            self.index.write(|index| {
                let first = check_room(index.len(), texts.len())?;
                for row in &rows {
                    index.add_counts(row);
                }
                Ok(first)
            })
        })
    }

    /// The ids and distances of the nearest texts to one query: at most `k`, without padding.
    fn search_one<'py>(
        &self,
        py: Python<'py>,
        query: Text,
        k: usize,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let found = run_detached(py, || {
            self.index
                .read(|index| Ok(nearest(index, self.rule, &query, k)))
        })?;
        row_to_bytes(py, found.iter().map(pair))
    }

    fn search<'py>(&self, queries: &Bound<'py, PyList>, k: usize) -> PyResult<Found<'py>> {
        let py = queries.py();
        let queries = borrow_all(queries)?;
        let found = run_detached(py, || {
            self.index.read(|index| {
                let columns = k.min(index.len() - index.removed());
                let mut table = Table::new(columns, f64::INFINITY.to_ne_bytes());
                for query in &queries {
                    let near = nearest(index, self.rule, query, k);
                    table.push(near.iter().map(pair));
                }
                Ok(table)
            })
        })?;
        Ok(found.cross(py))
    }

    /// The number of texts that were not removed.
    fn len(&self, py: Python<'_>) -> PyResult<usize> {
        run_detached(py, || {
            self.index.read(|index| Ok(index.len() - index.removed()))
        })
    }

    fn remove(&self, py: Python<'_>, ids: Vec<u64>) -> PyResult<()> {
        run_detached(py, || {
            self.index.write(|index| {
                for id in known(&ids, "text", |id| index.has(id))? {
                    index.remove(id);
                }
                Ok(())
            })
        })
    }

    /// The numbers of added texts, removed texts and postings, the bytes, and the name of the kernels' level.
    fn stats(&self, py: Python<'_>) -> PyResult<(usize, usize, usize, usize, &'static str)> {
        run_detached(py, || {
            self.index.read(|index| {
                let (postings, bytes) = (index.postings(), index.bytes());
                Ok((
                    index.len(),
                    index.removed(),
                    postings,
                    bytes,
                    Level::current().name(),
                ))
            })
        })
    }
}

impl HashedTfIndex {
    fn open(file: &[u8]) -> CoreResult<Self> {
        let (index, rule) = Index::from_bytes(file, |rule| rule.parse().ok())?;
        Ok(Self {
            rule,
            index: Locked::new(index),
        })
    }

    fn file(&self) -> CoreResult<Vec<u8>> {
        self.index.read(|index| index.to_bytes(self.rule.name()))
    }
}

fn nearest(index: &Index, rule: HashRule, query: &str, k: usize) -> Vec<Neighbor> {
    let limit = k.min(index.len() - index.removed());
    index.search_counts(&bucket_counts(query, rule), limit)
}

fn pair(near: &Neighbor) -> (u32, [u8; 8]) {
    (near.id, near.distance.to_ne_bytes())
}
