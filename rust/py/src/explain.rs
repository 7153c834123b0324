//! Explanations of scores as Python dicts.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use siltstone_core::index::Near;
use siltstone_core::memory::{
    ExplainedNeighbor, ExplainedTerm, Explanation, FusedBy, FusedExplanation, LexicalExplanation,
};

pub(crate) fn explanation_out(
    py: Python<'_>,
    explanation: Explanation,
    score: f64,
    decay: f64,
) -> PyResult<Bound<'_, PyDict>> {
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
    explain.set_item("decay", decay)?;
    explain.set_item("score", score)?;
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
