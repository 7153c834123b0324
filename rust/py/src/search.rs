//! Searches of a `Store` and of a namespace: their options, results and explanations.

use std::str::FromStr;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{IntoPyDict, PyDict, PyList, PyString};
use siltstone_core::fusion::Decay;
use siltstone_core::index::Near;
use siltstone_core::memory::{
    self, Across, ExplainedNeighbor, ExplainedTerm, Explanation, Filter, FusedBy, FusedExplanation,
    LexicalExplanation, NewEntry, QueryVector, SearchIndex, as_json,
};
use siltstone_core::{Error, ErrorKind, Result as CoreResult};

use crate::block_writer::{MeasureIn, size_rule};
use crate::error::{run_attached, run_briefly, to_exception};
use crate::highlight::Asked;
use crate::record::In;
use crate::rows::{LogRow, rows_out};
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

fn hit_out(py: Python<'_>, mut hit: memory::Hit) -> PyResult<Hit> {
    let explain = hit.explanation.take();
    let explain = explain.map(|parts| explanation_out(py, parts, &hit));
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

// Explanations of scores as Python dicts.

fn explanation_out<'py>(
    py: Python<'py>,
    explanation: Explanation,
    hit: &memory::Hit,
) -> PyResult<Bound<'py, PyDict>> {
    let explain = PyDict::new(py);
    match explanation {
        Explanation::Lexical(lexical) => {
            explain.set_item("own", lexical.own)?;
            explain.set_item("neighbors", neighbors_out(py, &lexical.neighbors)?)?;
            explain.set_item("day", lexical.day)?;
            explain.set_item("speaker", lexical.speaker)?;
            set_terms(&explain, lexical)?;
        }
        Explanation::Cosine { distance } => {
            explain.set_item("cosine", 1.0 - distance)?;
            explain.set_item("distance", distance)?;
        }
        Explanation::Hybrid {
            cosine,
            share,
            lexical,
        } => {
            explain.set_item("cosine", cosine)?;
            explain.set_item("bm25", share)?;
            set_terms(&explain, lexical)?;
        }
        Explanation::Dense(near) => set_near(&explain, Some(near))?,
        Explanation::Fused(fused) => set_fused(&explain, fused)?,
    }
    explain.set_item("decay", hit.decay)?;
    if hit.asks < 1.0 {
        explain.set_item("asks", hit.asks)?;
    }
    explain.set_item("score", hit.score)?;
    Ok(explain)
}

fn set_near(explain: &Bound<'_, PyDict>, near: Option<Near>) -> PyResult<()> {
    explain.set_item("cosine", near.map(|near| near.cosine))?;
    explain.set_item("distance", near.map(|near| 1.0 - near.cosine))?;
    explain.set_item("vector", near.map(|near| near.passage))?;
    explain.set_item("vectors", near.map(|near| near.passages))
}

fn set_fused(explain: &Bound<'_, PyDict>, fused: FusedExplanation) -> PyResult<()> {
    let py = explain.py();
    set_near(explain, fused.near)?;
    explain.set_item("lexical", fused.words)?;
    set_terms(explain, fused.lexical)?;
    match fused.how {
        FusedBy::ZScore {
            z,
            weights,
            own,
            neighbors,
        } => {
            explain.set_item("z", sides(z).into_py_dict(py)?)?;
            explain.set_item("weights", sides(weights).into_py_dict(py)?)?;
            explain.set_item("own", own)?;
            explain.set_item("neighbors", neighbors_out(py, &neighbors)?)
        }
        FusedBy::Ranks(ranks) => explain.set_item("ranks", sides(ranks).into_py_dict(py)?),
    }
}

fn sides<T: Copy>(values: [T; 2]) -> [(&'static str, T); 2] {
    [("lexical", values[0]), ("dense", values[1])]
}

/// Sets the terms, the language, and the number of their passage among the passages of the entry.
fn set_terms(explain: &Bound<'_, PyDict>, lexical: LexicalExplanation) -> PyResult<()> {
    let py = explain.py();
    let mut terms = Vec::with_capacity(lexical.terms.len());
    for ExplainedTerm { part, fields } in lexical.terms {
        let term = PyDict::new(py);
        term.set_item("term", part.term)?;
        if let Some(word) = part.instead_of {
            term.set_item("instead_of", word)?;
        }
        term.set_item("tf", part.tf)?;
        term.set_item("idf", part.idf)?;
        term.set_item("score", part.score)?;
        term.set_item("fields", fields.into_py_dict(py)?)?;
        terms.push(term);
    }
    explain.set_item("terms", terms)?;
    explain.set_item("language", lexical.language.code())?;
    explain.set_item("passage", lexical.passage)?;
    explain.set_item("passages", lexical.passages)
}

fn neighbors_out<'py>(
    py: Python<'py>,
    explained: &[ExplainedNeighbor],
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let mut neighbors = Vec::with_capacity(explained.len());
    for each in explained {
        let neighbor = PyDict::new(py);
        neighbor.set_item("entry_id", each.id.0)?;
        neighbor.set_item("place", each.place)?;
        neighbor.set_item("score", each.score)?;
        neighbors.push(neighbor);
    }
    Ok(neighbors)
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
        rows_out(self.inner.messages.clone())
    }
}

/// The entry of each message; None for a message without text.
type Said = Vec<Option<In<NewEntry>>>;

/// The hits in the namespace of the session; or the messages of the namespace that the caller must read first.
#[pyfunction]
pub(crate) fn search_across(
    py: Python<'_>,
    store: PyRef<'_, Store>,
    session: Text,
    query: Text,
    options: PyRef<'_, SearchOptions>,
    vector: Option<VectorIn>,
) -> PyResult<(Option<Found>, Vec<Unread>)> {
    let options = options.inner.clone();
    let found = store.run_of(py, &session, |store, session| {
        store.find_across(session, &query, vector_in(vector).as_ref(), &options)
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
    session: Text,
    said: Vec<(PyRef<'_, Unread>, Said)>,
) -> PyResult<()> {
    let said = said.into_iter().map(|(unread, entries)| {
        let entries = entries.into_iter().map(|entry| entry.map(|entry| entry.0));
        (unread.inner.clone(), entries.collect())
    });
    let said: Vec<_> = said.collect();
    store.run_of(py, &session, |store, session| {
        store.take_said(session, said)
    })
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
    session: Text,
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
    let answer = store.run_of(py, &session, |store, session| {
        store.answer(session, &query, &options)
    })?;
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
