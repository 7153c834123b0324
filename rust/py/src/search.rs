//! Searches of a `Store` and of a namespace: their options, results and explanations.

use std::str::FromStr;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyList, PyString};
use siltstone_core::fusion::Decay;
use siltstone_core::id::SessionId;
use siltstone_core::memory::{
    self, Across, Explained, Explanation, Filter, NewEntry, QueryVector, SearchIndex, as_json,
};
use siltstone_core::{Error, Result as CoreResult};

use crate::block_writer::{MeasureIn, size_rule};
use crate::error::{run_attached, run_briefly, to_exception};
use crate::highlight::Asked;
use crate::record::{Cross, In};
use crate::rows::LogRow;
use crate::store::Store;
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

/// A name of an option. A value that is no str is an error, like an unknown name.
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
    let message = format!("{field} must be a str, got {got}");
    Err(to_exception(py, &Error::refused(field, got, message)))
}

/// The index of that name. The graph is in another crate than the store.
fn index_in(name: &Text) -> CoreResult<SearchIndex> {
    match &**name {
        "exact" => Ok(SearchIndex::Exact),
        "hnsw" => Ok(SearchIndex::Graph(siltstone_ann::GRAPH)),
        name => {
            let message = format!("index must be 'exact' or 'hnsw', got {name:?}");
            Err(Error::refused("index", name, message))
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

/// How often a text was said, the first and the last time.
type RepeatedOut = (u32, i64, i64);

/// An entry that a search found: its text, score, messages, id, role, time and explanation, its session where
/// several were searched, and how often it was said. A tuple, since Python reads each of them once.
type Hit = (
    String,
    f64,
    (i64, i64),
    i64,
    String,
    i64,
    Option<Py<PyDict>>,
    Option<String>,
    Option<RepeatedOut>,
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
    let explain = hit.explanation.map(|parts| explanation_out(py, parts));
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
        hit.repeated.map(|said| (said.times, said.first, said.last)),
    ))
}

/// Little-endian float32, one after another. An incomplete last number is dropped.
pub(crate) fn numbers_in(bytes: &[u8]) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks();
    let numbers = numbers.iter();
    numbers.map(|&number| f32::from_le_bytes(number)).collect()
}

/// An explanation as a Python dict.
fn explanation_out(py: Python<'_>, explanation: Explanation) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in explanation {
        match value {
            Explained::Nothing => dict.set_item(name, py.None())?,
            Explained::Number(number) => dict.set_item(name, number)?,
            Explained::Count(count) => dict.set_item(name, count)?,
            Explained::Text(text) => dict.set_item(name, text)?,
            Explained::Parts(parts) => dict.set_item(name, explanation_out(py, parts)?)?,
            Explained::List(list) => {
                let list = list.into_iter().map(|each| explanation_out(py, each));
                dict.set_item(name, list.collect::<PyResult<Vec<_>>>()?)?;
            }
        }
    }
    Ok(dict)
}

// Searches of a namespace, the messages that the caller must read first for them, and the revision of facts.

/// Messages of a session that the caller must read before a search of its namespace.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Unread {
    inner: memory::Unread,
}

#[pymethods]
impl Unread {
    #[getter]
    fn session_id(&self) -> &str {
        &self.inner.session
    }

    /// The messages as rows of the log.
    #[getter]
    fn rows(&self) -> Vec<LogRow> {
        self.inner.messages.clone().cross()
    }
}

/// The entry of each message; None for a message without text.
type Said = Vec<Option<In<NewEntry>>>;

/// The hits in the namespace of the session; or the messages of the namespace that the caller must read first.
#[pyfunction]
pub(crate) fn search_across(
    py: Python<'_>,
    store: PyRef<'_, Store>,
    session: In<SessionId>,
    query: Text,
    options: PyRef<'_, SearchOptions>,
    vector: Option<VectorIn>,
) -> PyResult<(Option<Found>, Vec<Unread>)> {
    let options = options.inner.clone();
    let found = store.run(py, |store| {
        store.find_across(&session, &query, vector_in(vector).as_ref(), &options)
    })?;
    match found {
        Across::Found(found) => Ok((Some(Found::new(py, found)?), Vec::new())),
        Across::Unread(unread) => Ok((None, unread_out(unread))),
    }
}

pub(crate) fn unread_out(unread: Vec<memory::Unread>) -> Vec<Unread> {
    let unread = unread.into_iter();
    unread.map(|inner| Unread { inner }).collect()
}

/// A text that changes with every change of a fact in the store; None if the store cannot tell.
#[pyfunction]
pub(crate) fn facts_revision(py: Python<'_>, store: PyRef<'_, Store>) -> PyResult<Option<String>> {
    store.run(py, memory::Store::facts_revision)
}

/// Passes the texts of unread messages to the store.
#[pyfunction]
pub(crate) fn take_said(
    py: Python<'_>,
    store: PyRef<'_, Store>,
    session: In<SessionId>,
    said: Vec<(PyRef<'_, Unread>, Said)>,
) -> PyResult<()> {
    let said = said.into_iter().map(|(unread, entries)| {
        let entries = entries.into_iter().map(|entry| entry.map(|entry| entry.0));
        (unread.inner.clone(), entries.collect())
    });
    let said: Vec<_> = said.collect();
    store.run(py, |store| store.take_said(&session, said))
}

// Answers of the tool `memory_search`: a search whose hits become JSON text without a Python object for each.

/// The most tokens of an answer, the rule that counts them, and the function that writes a time.
#[derive(FromPyObject)]
pub(crate) struct AnswerLimit {
    tokens: i64,
    measure: MeasureIn,
    when: Py<PyAny>,
}

/// The answer, or where that is too long the hits; the number of damaged entries; the revision of the facts.
type AnswerOut = (Option<String>, Option<Found>, usize, Option<String>);

/// The best entries of the session as JSON, if they are within `most`.
#[pyfunction]
pub(crate) fn answer(
    py: Python<'_>,
    store: PyRef<'_, Store>,
    session: In<SessionId>,
    query: Text,
    base: PyRef<'_, SearchOptions>,
    limit: i64,
    now: i64,
    most: AnswerLimit,
) -> PyResult<AnswerOut> {
    let options = memory::SearchOptions {
        limit,
        now,
        min_score: 0.0,
        explain: false,
        filter: Filter::default(),
        ..base.inner.clone()
    };
    let (tokens, measure) = (most.tokens, size_rule(most.measure)?);
    let answer = store.run(py, |store| store.answer(&session, &query, &options))?;
    let hits = &answer.found.hits;
    let mut times = Vec::with_capacity(hits.len());
    for at in hits.iter().flat_map(memory::Hit::times) {
        times.push(most.when.call1(py, (at,))?.extract::<String>(py)?);
    }
    let text = py.detach(|| {
        let text = as_json(hits, times);
        let fits = hits.is_empty() || measure.count(&text) <= tokens;
        fits.then_some(text)
    });
    let (damaged, facts) = (answer.damaged, answer.facts);
    match text {
        Some(text) => Ok((Some(text), None, damaged, facts)),
        None => run_attached(py, || {
            Ok((None, Some(Found::new(py, answer.found)?), damaged, facts))
        }),
    }
}
