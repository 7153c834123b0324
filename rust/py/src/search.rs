//! Searches of a `Store`: their options and their results.

use std::str::FromStr;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyList, PyString};
use siltstone_core::fusion::Decay;
use siltstone_core::memory::{self, Filter, QueryVector, SearchIndex};
use siltstone_core::{Error, ErrorKind, Result as CoreResult};

use crate::asked::Asked;
use crate::error::{run_briefly, to_exception};
use crate::explain::explanation_out;
use crate::text::Text;

/// The options of a search. A store has default options, and each search may override them.
#[pyclass(frozen, module = "siltstone._native")]
#[derive(Clone)]
pub(crate) struct SearchOptions {
    pub(crate) inner: memory::SearchOptions,
}

/// `siltstone.memory.Decay`, read by its attributes.
#[derive(FromPyObject)]
pub(crate) struct DecayIn {
    per_day: f64,
    floor: f64,
}

#[pymethods]
impl SearchOptions {
    #[new]
    #[pyo3(signature = (base=None, *, limit=None, ranker=None, index=None, min_score=None, explain=None,
                        decay=None, now=None, fusion=None, since=None, until=None, role=None, kind=None,
                        name=None))]
    fn new(
        py: Python<'_>,
        base: Option<PyRef<'_, Self>>,
        limit: Option<i64>,
        ranker: Option<Bound<'_, PyAny>>,
        index: Option<Bound<'_, PyAny>>,
        min_score: Option<f64>,
        explain: Option<bool>,
        decay: Option<DecayIn>,
        now: Option<i64>,
        fusion: Option<Bound<'_, PyAny>>,
        since: Option<i64>,
        until: Option<i64>,
        role: Option<Text>,
        kind: Option<Text>,
        name: Option<Text>,
    ) -> PyResult<Self> {
        let base = base.map_or_else(memory::SearchOptions::default, |base| base.inner.clone());
        let ranker = name_in(py, "ranker", ranker.as_ref())?;
        let index = name_in(py, "index", index.as_ref())?;
        let fusion = name_in(py, "fusion", fusion.as_ref())?;
        run_briefly(py, || {
            let decay = decay.map(|decay| Decay::new(decay.per_day, decay.floor));
            let inner = memory::SearchOptions {
                limit: limit.unwrap_or(base.limit),
                ranker: parsed(ranker, base.ranker)?,
                index: index.as_ref().map_or(Ok(base.index), index_in)?,
                min_score: min_score.unwrap_or(base.min_score),
                explain: explain.unwrap_or(base.explain),
                decay: decay.transpose()?.or(base.decay),
                now: now.unwrap_or(base.now),
                fusion: parsed(fusion, base.fusion)?,
                filter: Filter {
                    since,
                    until,
                    role: role.map(|text| text.to_string()),
                    kind: kind.map(|text| text.to_string()),
                    name: name.map(|text| text.to_string()),
                },
            };
            Ok(Self { inner })
        })
    }

    #[getter]
    fn ranker(&self) -> &'static str {
        self.inner.ranker.name()
    }

    #[getter]
    fn wants_vector(&self) -> bool {
        self.inner.ranker.is_dense() && self.inner.limit > 0
    }
}

/// A name of an option. A value that is no str is a [`ErrorKind::InvalidArgument`], like an unknown name.
fn name_in(
    py: Python<'_>,
    field: &'static str,
    name: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Text>> {
    let Some(name) = name else {
        return Ok(None);
    };
    if let Ok(text) = name.cast::<PyString>() {
        return Text::from_py(text).map(Some);
    }
    let got = name.repr()?.to_string_lossy().into_owned();
    let error = Error::new(
        ErrorKind::InvalidArgument,
        format!("{field} must be a str, got {got}"),
    );
    Err(to_exception(
        py,
        &error.with("field", field).with("value", got),
    ))
}

/// The index of that name. The graph is in another crate than the store.
fn index_in(name: &Text) -> CoreResult<SearchIndex> {
    match &**name {
        "exact" => Ok(SearchIndex::Exact),
        "hnsw" => Ok(SearchIndex::Graph(siltstone_ann::GRAPH)),
        name => {
            let message = format!("index must be 'exact' or 'hnsw', got {name:?}");
            Err(Error::new(ErrorKind::InvalidArgument, message)
                .with("field", "index")
                .with("value", name))
        }
    }
}

fn parsed<T: FromStr<Err = Error>>(name: Option<Text>, default: T) -> CoreResult<T> {
    name.map_or(Ok(default), |name| name.parse())
}

/// The key of an embedder, and the vector of the query.
pub(crate) type VectorIn = (i64, PyBackedBytes);

pub(crate) fn vector_in(vector: Option<VectorIn>) -> Option<QueryVector> {
    vector.map(|(embedder, numbers)| QueryVector {
        embedder,
        numbers: numbers_in(&numbers),
    })
}

/// An entry that a search found: its text, score, messages, id, role, time and explanation, and its session where
/// several were searched. A tuple, since Python reads each of them once.
type Hit = (
    String,
    f64,
    (i64, i64),
    i64,
    String,
    i64,
    Option<Py<PyDict>>,
    Option<String>,
);

/// The result of a search.
#[pyclass(frozen, get_all, module = "siltstone._native")]
pub(crate) struct Found {
    /// A list of [`Hit`]s.
    hits: Py<PyList>,
    ranker: &'static str,
    lacking: usize,
    asked: Py<Asked>,
}

impl Found {
    pub(crate) fn new(py: Python<'_>, found: memory::Found) -> PyResult<Self> {
        let hits = found.hits.into_iter();
        let hits = hits
            .map(|hit| hit_out(py, hit))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(Self {
            hits: PyList::new(py, hits)?.unbind(),
            ranker: found.ranker.name(),
            lacking: found.lacking,
            asked: Py::new(py, Asked { inner: found.asked })?,
        })
    }
}

fn hit_out(py: Python<'_>, hit: memory::Hit) -> PyResult<Hit> {
    let explain = hit.explanation;
    let explain = explain.map(|parts| explanation_out(py, parts, hit.score, hit.decay));
    let entry = hit.stored.entry;
    Ok((
        entry.text,
        hit.score,
        (entry.start, entry.end),
        hit.stored.id.0,
        entry.role,
        entry.created_at,
        explain.transpose()?.map(Bound::unbind),
        hit.session,
    ))
}

/// Little-endian float32, one after another. An incomplete last number is dropped.
pub(crate) fn numbers_in(bytes: &[u8]) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks();
    let numbers = numbers.iter();
    numbers.map(|&number| f32::from_le_bytes(number)).collect()
}
