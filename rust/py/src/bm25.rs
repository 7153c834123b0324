//! The classes `Bm25Index` and `DocumentedBm25`. The first finds texts by the terms of a query. Arrays are returned as
//! native-endian bytes.

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyList};
use siltstone_core::bm25::{Bm25Index as Index, Bm25Params, Document, Query, Scored};
use siltstone_core::documented::Documents;
use siltstone_core::{Result as CoreResult, Result, analyse, index_file};

use crate::buffers::{Found, Table, check_room, known, row_to_bytes};
use crate::error::run_detached;
use crate::text::{Text, borrow_all};

/// Texts in a BM25 index. It is safe to use from many threads.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Bm25Index(Locked<Index>);

#[pymethods]
impl Bm25Index {
    #[new]
    fn new(py: Python<'_>, k1: f64, b: f64) -> PyResult<Self> {
        let index = run_detached(py, || Ok(Index::new(Bm25Params::new(k1, b)?)))?;
        Ok(Self(Locked::new(index)))
    }

    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let index = run_detached(py, || index_file::load(&path, open))?;
        Ok(Self(Locked::new(index)))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: PyBackedBytes) -> PyResult<Self> {
        let index = run_detached(py, || open(&file))?;
        Ok(Self(Locked::new(index)))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let file = run_detached(py, || self.0.read(|index| index.to_bytes(analyse::ID)))?;
        Ok(PyBytes::new(py, &file))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run_detached(py, || {
            let file = self.0.read(|index| index.to_bytes(analyse::ID))?;
            index_file::write(&path, &file)
        })
    }

    fn params(&self, py: Python<'_>) -> PyResult<(f64, f64)> {
        let params = run_detached(py, || self.0.read(|index| Ok(index.params())))?;
        Ok((params.k1(), params.b()))
    }

    fn add(&self, texts: &Bound<'_, PyList>) -> PyResult<u64> {
        let (py, texts) = (texts.py(), borrow_all(texts)?);
        run_detached(py, || {
            let documents: Vec<Document> = texts.iter().map(|text| Document::of(text)).collect();
            self.0.write(|index| {
                let first = check_room(index.len(), documents.len())?;
                for document in &documents {
                    index.add(document);
                }
                Ok(first)
            })
        })
    }

    /// The ids and scores of the best texts for one query: at most `k`, without padding.
    fn search_one<'py>(
        &self,
        py: Python<'py>,
        query: Text,
        k: usize,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let found = run_detached(py, || {
            let query = Query::of(&query);
            self.0.read(|index| {
                let limit = k.min(index.len() - index.removed());
                Ok(index.search(&query, limit))
            })
        })?;
        row_to_bytes(py, found.iter().map(pair))
    }

    fn search<'py>(&self, queries: &Bound<'py, PyList>, k: usize) -> PyResult<Found<'py>> {
        let (py, queries) = (queries.py(), borrow_all(queries)?);
        let found = run_detached(py, || {
            let queries: Vec<Query> = queries.iter().map(|query| Query::of(query)).collect();
            self.0.read(|index| {
                let columns = k.min(index.len() - index.removed());
                let mut table = Table::new(columns, 0.0_f64.to_ne_bytes());
                for query in &queries {
                    let best = index.search(query, table.columns());
                    table.push(best.iter().map(pair));
                }
                Ok(table)
            })
        })?;
        Ok(found.cross(py))
    }

    /// The number of texts that were not removed.
    fn len(&self, py: Python<'_>) -> PyResult<usize> {
        run_detached(py, || {
            self.0.read(|index| Ok(index.len() - index.removed()))
        })
    }

    fn remove(&self, py: Python<'_>, ids: Vec<u64>) -> PyResult<()> {
        run_detached(py, || {
            self.0.write(|index| {
                for id in known(&ids, "text", |id| index.has(id))? {
                    index.remove(id);
                }
                Ok(())
            })
        })
    }

    /// The numbers of added texts, removed texts, different terms and postings, and the bytes.
    fn stats(&self, py: Python<'_>) -> PyResult<(usize, usize, usize, usize, usize)> {
        run_detached(py, || {
            self.0.read(|index| {
                let (terms, postings) = (index.terms(), index.postings());
                Ok((index.len(), index.removed(), terms, postings, index.bytes()))
            })
        })
    }
}

fn pair(best: &Scored) -> (u32, [u8; 8]) {
    (best.id, best.score.to_ne_bytes())
}

fn open(file: &[u8]) -> CoreResult<Index> {
    Index::from_bytes(file, analyse::ID)
}

// The documented BM25 over lists of words.

/// The documented BM25 over texts that are lists of words.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct DocumentedBm25(Locked<Documents>);

#[pymethods]
impl DocumentedBm25 {
    #[new]
    fn new(py: Python<'_>, texts: Vec<Vec<Text>>) -> PyResult<Self> {
        run_detached(py, || {
            let mut documents = Documents::default();
            for words in &texts {
                documents.add(words.iter().map(|word| &**word));
            }
            Ok(Self(Locked::new(documents)))
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        run_detached(py, || self.0.read(|texts| Ok(texts.len())))
    }

    /// Adds a text, its words with spaces between them.
    fn add(&self, py: Python<'_>, words: Text) -> PyResult<()> {
        run_detached(py, || {
            self.0.write(|texts| {
                texts.add(words.split_ascii_whitespace());
                Ok(())
            })
        })
    }

    /// The score of each text for the query; of `chosen` ones, as if there were no others.
    #[pyo3(signature = (query, chosen=None))]
    fn scores(
        &self,
        py: Python<'_>,
        query: Vec<Text>,
        chosen: Option<Vec<u32>>,
    ) -> PyResult<Vec<f64>> {
        let query = words_of(&query);
        run_detached(py, || {
            self.0.read(|texts| {
                Ok(match &chosen {
                    Some(chosen) => texts.scores_of(&query, chosen),
                    None => texts.scores(&query),
                })
            })
        })
    }

    /// The `limit` best texts with at least `least` different words of the query, as pairs of number and score.
    fn best(
        &self,
        py: Python<'_>,
        query: Vec<Text>,
        least: usize,
        limit: usize,
    ) -> PyResult<Vec<(u32, f64)>> {
        run_detached(py, || {
            self.0
                .read(|texts| Ok(texts.best(&words_of(&query), least, limit)))
        })
    }
}

fn words_of(query: &[Text]) -> Vec<&str> {
    query.iter().map(|word| &**word).collect()
}

// A value of a Python class that many threads read, and one writes.

/// A value behind a lock. A call that panicked leaves the value readable: an index is whole after each of its steps.
pub(crate) struct Locked<T>(RwLock<T>);

impl<T> Locked<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    pub(crate) fn read<R>(&self, work: impl FnOnce(&T) -> Result<R>) -> Result<R> {
        work(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn write<R>(&self, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        work(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}
