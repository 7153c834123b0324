//! `words`, `whitespace_words` and `terms`.

use pyo3::prelude::*;
use siltstone_core::{analyse, tokenize};

use crate::error::guard;
use crate::text::Text;

/// The words of `words-1`, in order.
#[pyfunction]
pub(crate) fn words(py: Python<'_>, text: Text) -> PyResult<Vec<String>> {
    guard(py, || {
        let mut words = Vec::new();
        tokenize::words::for_each_word(&text, |word| words.push(word.to_owned()));
        Ok(words)
    })
}

/// What stands between white space, its ASCII letters in lower case.
#[pyfunction]
pub(crate) fn whitespace_words(py: Python<'_>, text: Text) -> PyResult<Vec<String>> {
    guard(py, || Ok(tokenize::whitespace::words(&text).collect()))
}

/// The terms of `lexical-3`, in order.
#[pyfunction]
pub(crate) fn terms(py: Python<'_>, text: Text) -> PyResult<Vec<String>> {
    guard(py, || {
        let mut terms = Vec::new();
        analyse::for_each_term(&text, |term| terms.push(term.to_owned()));
        Ok(terms)
    })
}
