//! Answers of the tool `memory_search`: a search whose hits become JSON text without a Python object for each.

use pyo3::prelude::*;
use siltstone_core::memory::{self, Filter, as_json};
use siltstone_core::recall::SizeRule;

use crate::error::run_attached;
use crate::recall::{MeasureIn, size_rule};
use crate::search::{Found, SearchOptions};
use crate::store::Store;
use crate::text::Text;

/// The most tokens of an answer, and the rule that counts them.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct AnswerLimit {
    tokens: i64,
    measure: SizeRule,
}

#[pymethods]
impl AnswerLimit {
    #[new]
    fn new(tokens: i64, measure: MeasureIn) -> PyResult<Self> {
        let measure = size_rule(measure)?;
        Ok(Self { tokens, measure })
    }
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
    most: PyRef<'_, AnswerLimit>,
) -> PyResult<AnswerOut> {
    let options = memory::SearchOptions {
        limit,
        now,
        min_score: 0.0,
        explain: false,
        filter: Filter::default(),
        ..base.inner.clone()
    };
    let (tokens, measure) = (most.tokens, most.measure);
    let (text, answer) = store.run_of(py, &session, |store, session| {
        let answer = store.answer(session, &query, &options)?;
        let text = as_json(&answer.found.hits);
        let fits = answer.found.hits.is_empty() || measure.count(&text) <= tokens;
        Ok((fits.then_some(text), answer))
    })?;
    let (damaged, facts) = (answer.damaged, answer.facts);
    match text {
        Some(text) => Ok((Some(text), None, damaged, facts)),
        None => run_attached(py, || {
            Ok((None, Some(Found::new(py, answer.found)?), damaged, facts))
        }),
    }
}
