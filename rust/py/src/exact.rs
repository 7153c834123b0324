//! `HashedTfIndex`: texts by the cosine of their hashed embeddings. Arrays cross the wall as native-endian bytes.

use std::iter;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyList};
use siltstone_core::embed::hash::HashRule;
use siltstone_core::embed::hashed_tf::{with_counts, with_embedder};
use siltstone_core::index::{HashedTfIndex as Index, Neighbor, VectorIndex};
use siltstone_core::index_file;
use siltstone_core::simd::Level;
use siltstone_core::simd::prefetch::prefetch;
use siltstone_core::{Error, ErrorKind, Result as CoreResult};

use crate::embed::likely_buckets;
use crate::error::{guard, guard_short, to_exception};
use crate::text::{Text, borrow_all, with_next};

/// Ids and values of the best of each query, row after row.
pub(crate) type Found<'py> = (Bound<'py, PyByteArray>, Bound<'py, PyByteArray>);

/// A search in so few texts, for so few of them, with a query of so few bytes, is over within about ten
/// microseconds: it keeps the interpreter, which takes a tenth of a microsecond to let go and get back.
const SMALL: usize = 16_384;
const FEW: usize = 32;
const SHORT: usize = 1_000;

/// Stands where a query found fewer than others.
const NO_ID: u64 = u64::MAX;

/// Texts by cosine; safe to use from many threads.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct HashedTfIndex {
    rule: HashRule,
    index: RwLock<Index>,
}

#[pymethods]
impl HashedTfIndex {
    #[new]
    fn new(py: Python<'_>, hash_rule: &str) -> PyResult<Self> {
        let rule = hash_rule
            .parse()
            .map_err(|error| to_exception(py, &error))?;
        let index = guard(py, || Ok(Index::default()))?;
        Ok(Self {
            rule,
            index: RwLock::new(index),
        })
    }

    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        guard(py, || index_file::load(&path, Self::open))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: PyBackedBytes) -> PyResult<Self> {
        guard(py, || Self::open(&file))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let file = guard(py, || self.file())?;
        Ok(PyBytes::new(py, &file))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        guard(py, || index_file::write(&path, &self.file()?))
    }

    #[getter]
    fn hash_rule(&self) -> &'static str {
        self.rule.name()
    }

    fn add(&self, texts: &Bound<'_, PyList>) -> PyResult<u64> {
        let (py, texts) = (texts.py(), borrow_all(texts)?);
        guard(py, || {
            let rows = Rows::of(&texts, self.rule);
            self.write(|index| {
                let first = check_room(index.len(), texts.len())?;
                for row in rows.iter() {
                    index.add_counts(row);
                }
                Ok(first)
            })
        })
    }

    /// Ids and distances of the nearest to one query, as many as there are.
    fn search_one<'py>(
        &self,
        py: Python<'py>,
        query: Text,
        k: usize,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        if query.len() <= SHORT
            && k <= FEW
            && let Ok(index) = self.index.try_read()
            && index.len() <= SMALL
        {
            let found = guard_short(py, || Ok(near(&index, self.rule, &query, k)))?;
            drop(index);
            return row_to_bytes(py, found.iter().map(pair));
        }
        let found = guard(py, || {
            self.read(|index| Ok(near(index, self.rule, &query, k)))
        })?;
        row_to_bytes(py, found.iter().map(pair))
    }

    fn search<'py>(&self, queries: &Bound<'py, PyList>, k: usize) -> PyResult<Found<'py>> {
        let py = queries.py();
        let queries = borrow_all(queries)?;
        let found = guard(py, || {
            let rows = Rows::of(&queries, self.rule);
            self.read(|index| {
                let mut table = Table::new(
                    queries.len(),
                    k.min(index.len() - index.removed()),
                    f64::INFINITY,
                );
                for row in rows.iter() {
                    let near = index.search_counts(row, table.columns());
                    table.push(near.iter().map(pair));
                }
                Ok(table)
            })
        })?;
        Ok(found.to_bytes(py))
    }

    /// Texts that were not removed.
    fn len(&self, py: Python<'_>) -> PyResult<usize> {
        guard(py, || self.read(|index| Ok(index.len() - index.removed())))
    }

    fn remove(&self, py: Python<'_>, ids: Vec<u64>) -> PyResult<()> {
        guard(py, || {
            self.write(|index| {
                let ids = check_ids(&ids, |id| index.has(id))?;
                for id in ids {
                    index.remove(id);
                }
                Ok(())
            })
        })
    }

    /// Texts that were added, those that were removed, postings, bytes, and the path of the kernels.
    fn stats(&self, py: Python<'_>) -> PyResult<(usize, usize, usize, usize, &'static str)> {
        guard(py, || {
            self.read(|index| {
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
            index: RwLock::new(index),
        })
    }

    fn file(&self) -> CoreResult<Vec<u8>> {
        self.read(|index| index.to_bytes(self.rule.name()))
    }

    fn read<T>(&self, work: impl FnOnce(&Index) -> CoreResult<T>) -> CoreResult<T> {
        work(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, work: impl FnOnce(&mut Index) -> CoreResult<T>) -> CoreResult<T> {
        work(&mut self.index.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The counts of texts, one after another.
struct Rows {
    counts: Vec<(u16, u32)>,
    /// Where those of each text end.
    ends: Vec<usize>,
}

impl Rows {
    fn of(texts: &[Text], rule: HashRule) -> Self {
        let mut rows = Self {
            counts: Vec::with_capacity(likely_buckets(texts)),
            ends: Vec::with_capacity(texts.len()),
        };
        with_embedder(rule, |embedder| {
            for (text, next) in with_next(texts) {
                prefetch(next.as_bytes());
                rows.counts.extend_from_slice(embedder.pairs(text));
                rows.ends.push(rows.counts.len());
            }
        });
        rows
    }

    fn iter(&self) -> impl Iterator<Item = &[(u16, u32)]> {
        let starts = iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.counts[start..end])
    }
}

fn near(index: &Index, rule: HashRule, query: &str, k: usize) -> Vec<Neighbor> {
    let limit = k.min(index.len() - index.removed());
    with_counts(query, rule, |counts| index.search_counts(counts, limit))
}

fn pair(near: &Neighbor) -> (u32, f64) {
    (near.id, near.distance)
}

/// What one query found, as many as there are, as bytes: ids, and values behind them.
pub(crate) fn row_to_bytes(
    py: Python<'_>,
    found: impl ExactSizeIterator<Item = (u32, f64)>,
) -> PyResult<Bound<'_, PyByteArray>> {
    const WIDE: usize = size_of::<u64>();
    let len = found.len();
    PyByteArray::new_with(py, 2 * len * WIDE, |bytes| {
        let (ids, values) = bytes.as_chunks_mut::<WIDE>().0.split_at_mut(len);
        for ((id, value), found) in ids.iter_mut().zip(values).zip(found) {
            *id = u64::from(found.0).to_ne_bytes();
            *value = found.1.to_ne_bytes();
        }
        Ok(())
    })
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

/// The numbers to be removed, if there are such texts: all of them, each once.
pub(crate) fn check_ids(ids: &[u64], has: impl Fn(u32) -> bool) -> CoreResult<Vec<u32>> {
    let mut known = Vec::with_capacity(ids.len());
    for &id in ids {
        let Some(id) = u32::try_from(id).ok().filter(|&id| has(id)) else {
            let message = format!("the index has no text {id}");
            let error = Error::new(ErrorKind::EntryNotFound, message);
            return Err(error.with("entry_id", i64::try_from(id).unwrap_or(i64::MAX)));
        };
        known.push(id);
    }
    known.sort_unstable();
    known.dedup();
    Ok(known)
}

/// What queries found, a row each, as bytes.
pub(crate) struct Table {
    columns: usize,
    /// What stands for the value of nothing.
    nothing: f64,
    ids: Vec<[u8; 8]>,
    values: Vec<[u8; 8]>,
}

impl Table {
    pub(crate) fn new(rows: usize, columns: usize, nothing: f64) -> Self {
        Self {
            columns,
            nothing,
            ids: Vec::with_capacity(rows.saturating_mul(columns)),
            values: Vec::with_capacity(rows.saturating_mul(columns)),
        }
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// A row of at most as many as there are columns; the rest of it is filled up.
    pub(crate) fn push(&mut self, found: impl Iterator<Item = (u32, f64)>) {
        let end = self.ids.len() + self.columns;
        for (id, value) in found {
            self.ids.push(u64::from(id).to_ne_bytes());
            self.values.push(value.to_ne_bytes());
        }
        self.ids.resize(end, NO_ID.to_ne_bytes());
        self.values.resize(end, self.nothing.to_ne_bytes());
    }

    pub(crate) fn to_bytes<'py>(&self, py: Python<'py>) -> Found<'py> {
        (
            PyByteArray::new(py, self.ids.as_flattened()),
            PyByteArray::new(py, self.values.as_flattened()),
        )
    }
}
