//! Writes the recalled block of a session. Python functions make its texts harmless.

use std::fmt::Write as _;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use siltstone_core::id::{EntryId, SessionId};
use siltstone_core::memory::{InContext, RecallAcross, RecallOptions};
use siltstone_core::recall_block::{
    Block, Budget, Characters, Considered, Detail, Hand, SizeRule, Unit, write,
};

use crate::error::run_attached;
use crate::record::In;
use crate::search::{SearchOptions, Unread, VectorIn, unread_out, vector_in};
use crate::store::Store;
use crate::text::Text;

/// content, score, role, `created_at`, `entry_id`: `siltstone.recall.Detail`.
type DetailIn = (Text, f64, Text, i64, i64);
/// The unit, the divisor, whether to round up, and the least number of tokens.
pub(crate) type MeasureIn = (String, i64, bool, i64);

/// What the context of a session does not show: messages that have left it, and messages that are shown in part.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct RecallContext(InContext);

#[pymethods]
impl RecallContext {
    #[new]
    fn new(left: Vec<(i64, i64)>, mut cut: Vec<i64>) -> Self {
        cut.sort_unstable();
        Self(InContext { end: 0, left, cut })
    }
}

/// A block of recalled context, and figures of its search.
#[pyclass(frozen, get_all, module = "siltstone._native")]
pub(crate) struct Recalled {
    text: String,
    tokens: i64,
    /// The number of facts in the block.
    facts: usize,
    /// The number of details in the block.
    details: usize,
    /// Whether there was any fact or detail to write.
    is_any: bool,
    /// The outcome of every detail, as `considered_out` writes it.
    considered: String,
    /// The number of hits whose score is too low.
    below: usize,
    ranker: &'static str,
    /// Whether the search had any hit. `Found` of a search has the hits themselves under this name.
    hits: bool,
    lacking: usize,
    damaged: usize,
}

/// The limits and the form of a block.
#[derive(FromPyObject)]
pub(crate) struct BlockOptions {
    cap: i64,
    known: i64,
    count: Py<PyAny>,
    measure: Option<MeasureIn>,
    /// A function of the query, a text and a number of tokens. It returns the part of the text that fits the query
    /// best.
    excerpt: Option<Py<PyAny>>,
    is_framed: bool,
    cut: bool,
}

/// The conditions on the entries of a recall.
#[derive(FromPyObject)]
pub(crate) struct RecallConditions {
    /// The least score of the best hit, the share of it that other hits need, and the share that each step away costs.
    scores: (f64, f64, f64),
    distance: i64,
    context: Py<RecallContext>,
    end: i64,
    /// Whether all sessions of the namespace are searched.
    is_across: bool,
}

/// Writes blocks. Its Python functions make a text harmless, turn a role into a word, and give the sentence before a
/// block.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct BlockWriter {
    /// The characters with which a text could do harm.
    special: Characters,
    safe: Py<PyAny>,
    word: Py<PyAny>,
    framed: Py<PyAny>,
}

#[pymethods]
impl BlockWriter {
    #[new]
    fn new(special: Text, safe: Py<PyAny>, word: Py<PyAny>, framed: Py<PyAny>) -> Self {
        Self {
            special: Characters::of(&special),
            safe,
            word,
            framed,
        }
    }

    /// The block, its tokens, the numbers of its facts and details, and the outcome of every detail.
    fn write(
        &self,
        py: Python<'_>,
        query: Text,
        facts: Vec<Text>,
        details: Vec<DetailIn>,
        options: BlockOptions,
    ) -> PyResult<(String, i64, usize, usize, String)> {
        let details = details.into_iter().map(|detail| {
            let (text, score, role, created_at, id) = detail;
            Detail {
                id: EntryId(id),
                text: text.to_string(),
                role: role.to_string(),
                created_at,
                score,
                asked: 0,
            }
        });
        let block = self.block(py, &[&query], &facts, details.collect(), &options)?;
        let considered = considered_out(&block.considered);
        Ok((
            block.text,
            block.tokens,
            block.known,
            block.said,
            considered,
        ))
    }

    /// The block of stored texts that fit one of the queries well enough and are not in context; or, first, the
    /// messages of the namespace that the caller must read.
    #[expect(
        clippy::too_many_arguments,
        reason = "those of a search and of a block"
    )]
    fn recall(
        &self,
        py: Python<'_>,
        store: PyRef<'_, Store>,
        session: In<SessionId>,
        queries: Vec<(Text, Option<VectorIn>)>,
        conditions: RecallConditions,
        search: PyRef<'_, SearchOptions>,
        facts: Vec<Text>,
        options: BlockOptions,
    ) -> PyResult<(Option<Recalled>, Vec<Unread>)> {
        let (least, share, step) = conditions.scores;
        let recall = RecallOptions {
            search: search.inner.clone(),
            least,
            share,
            distance: conditions.distance,
            step,
            context: InContext {
                end: conditions.end,
                ..conditions.context.get().0.clone()
            },
            is_across: conditions.is_across,
        };
        let (queries, vectors): (Vec<Text>, Vec<_>) = queries.into_iter().unzip();
        let queries: Vec<&str> = queries.iter().map(|query| &**query).collect();
        let found = store.run(py, |store| {
            let vectors = vectors.into_iter().map(vector_in);
            let asked: Vec<_> = queries.iter().copied().zip(vectors).collect();
            store.recall(&session, &asked, &recall)
        })?;
        let found = match found {
            RecallAcross::Found(found) => found,
            RecallAcross::Unread(unread) => return Ok((None, unread_out(unread))),
        };
        let is_any = !(facts.is_empty() && found.details.is_empty());
        let (hits, ranker, lacking) = (found.is_any, found.ranker.name(), found.lacking);
        let (below, damaged) = (found.below, found.damaged);
        let block = self.block(py, &queries, &facts, found.details, &options)?;
        let recalled = Recalled {
            text: block.text,
            tokens: block.tokens,
            facts: block.known,
            details: block.said,
            is_any,
            considered: considered_out(&block.considered),
            below,
            ranker,
            hits,
            lacking,
            damaged,
        };
        Ok((Some(recalled), Vec::new()))
    }
}

impl BlockWriter {
    fn block(
        &self,
        py: Python<'_>,
        queries: &[&str],
        facts: &[Text],
        details: Vec<Detail>,
        options: &BlockOptions,
    ) -> PyResult<Block> {
        run_attached(py, || {
            let facts: Vec<String> = facts.iter().map(|line| line.to_string()).collect();
            let budget = Budget {
                cap: options.cap,
                known: options.known,
                cut: options.cut,
                fit: options.excerpt.is_some(),
            };
            let mut hand = PythonHand {
                py,
                writer: self,
                options,
                measure: options.measure.clone().map(size_rule).transpose()?,
                queries,
            };
            write(&facts, details, budget, &mut hand)
        })
    }
}

/// The outcomes of details as a JSON list. Each has its id, its score in millionths, its tokens (null where they were
/// not counted), and the number of its fate.
fn considered_out(considered: &[Considered]) -> String {
    let mut text = String::with_capacity(2 + 32 * considered.len());
    text.push('[');
    for (place, each) in considered.iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        let (id, fate) = (each.id.0, each.fate.number());
        #[expect(clippy::cast_possible_truncation, reason = "scores are 0 to 1")]
        let score = (each.score * 1e6).round() as i64;
        // A write into a text cannot fail.
        let _ = match each.tokens {
            Some(tokens) => write!(text, "{comma}[{id},{score},{tokens},{fate}]"),
            None => write!(text, "{comma}[{id},{score},null,{fate}]"),
        };
    }
    text.push(']');
    text
}

pub(crate) fn size_rule((unit, divisor, rounds_up, least): MeasureIn) -> PyResult<SizeRule> {
    let unknown = || PyTypeError::new_err(format!("no unit of a text: {unit:?}"));
    Ok(SizeRule {
        unit: Unit::of(&unit).ok_or_else(unknown)?,
        divisor,
        rounds_up,
        least,
    })
}

struct PythonHand<'a, 'py> {
    py: Python<'py>,
    writer: &'a BlockWriter,
    options: &'a BlockOptions,
    measure: Option<SizeRule>,
    queries: &'a [&'a str],
}

impl PythonHand<'_, '_> {
    fn ask(&self, function: &Py<PyAny>, text: &str) -> PyResult<String> {
        text_of(&function.bind(self.py).call1((text,))?)
    }
}

impl Hand for PythonHand<'_, '_> {
    type Error = PyErr;

    fn count(&mut self, text: &str) -> PyResult<i64> {
        match self.measure {
            Some(measure) => Ok(measure.count(text)),
            None => self.options.count.bind(self.py).call1((text,))?.extract(),
        }
    }

    fn safe(&mut self, text: &str) -> PyResult<Option<String>> {
        let is_special = self.writer.special.are_in(text);
        is_special
            .then(|| self.ask(&self.writer.safe, text))
            .transpose()
    }

    fn word(&mut self, name: &str) -> PyResult<String> {
        self.ask(&self.writer.word, name)
    }

    fn excerpt(&mut self, detail: &Detail, tokens: i64) -> PyResult<String> {
        let (query, text) = (self.queries[detail.asked], detail.text.as_str());
        match &self.options.excerpt {
            Some(excerpt) => text_of(&excerpt.bind(self.py).call1((query, text, tokens))?),
            None => Ok(text.to_owned()),
        }
    }

    fn framed(&mut self, block: String) -> PyResult<String> {
        if self.options.is_framed {
            let mut before = self.ask(&self.writer.framed, &block)?;
            before.push_str(&block);
            return Ok(before);
        }
        Ok(block)
    }
}

fn text_of(text: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(Text::from_py(text.cast::<PyString>()?)?.to_string())
}
