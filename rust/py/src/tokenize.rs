//! The functions `words`, `whitespace_words`, `terms` and `language`.

use pyo3::prelude::*;
use siltstone_core::analyse::LanguageChoice;
use siltstone_core::{Result as CoreResult, analyse, tokenize};

use crate::error::run_detached;
use crate::text::Text;

/// The words of a text by the tokenizer `words-1`, in order.
#[pyfunction]
pub(crate) fn words(py: Python<'_>, text: Text) -> PyResult<Vec<String>> {
    run_detached(py, || {
        let mut words = Vec::new();
        tokenize::words::for_each_word(&text, |word| words.push(word.to_owned()));
        Ok(words)
    })
}

/// The words between white space, with ASCII letters in lower case.
#[pyfunction]
pub(crate) fn whitespace_words(py: Python<'_>, text: Text) -> PyResult<Vec<String>> {
    run_detached(py, || Ok(tokenize::whitespace::words(&text).collect()))
}

/// The terms by the analyser `lexical-4`, in order: those of a query, or those of a text in its own language.
#[pyfunction]
#[pyo3(signature = (text, *, own_language = false, among = None))]
pub(crate) fn terms(
    py: Python<'_>,
    text: Text,
    own_language: bool,
    among: Option<Text>,
) -> PyResult<Vec<String>> {
    run_detached(py, || {
        let mut terms = Vec::new();
        let language = if own_language {
            analyse::language_in(&text, choice(among)?)
        } else {
            analyse::Language::default()
        };
        analyse::for_each_term_in(&text, language, |term| terms.push(term.to_owned()));
        Ok(terms)
    })
}

/// The code of the language in which a text is read, among the languages of a choice.
#[pyfunction]
#[pyo3(signature = (text, among = None))]
pub(crate) fn language(py: Python<'_>, text: Text, among: Option<Text>) -> PyResult<&'static str> {
    run_detached(
        py,
        || Ok(analyse::language_in(&text, choice(among)?).code()),
    )
}

fn choice(among: Option<Text>) -> CoreResult<LanguageChoice> {
    among.map_or(Ok(LanguageChoice::AUTO), |among| among.parse())
}
