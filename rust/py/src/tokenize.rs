//! Words, terms, buckets and sizes of texts. Rows are returned as native-endian bytes.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList, PyString};
use siltstone_core::analyse::{self, LanguageChoice};
use siltstone_core::embed::hash::{self, HashRule};
use siltstone_core::embed::hashed_tf::DIMENSION;
use siltstone_core::embed::rows::{SparseRows, write_dense};
use siltstone_core::tokenize;
use siltstone_core::tokens::{Family, TextSize};

use crate::error::{run_attached, run_detached};
use crate::record::Named;
use crate::text::{Text, borrow_all, with_bytes};
use pyo3::exceptions::PyValueError;

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

/// The terms by the analyser `lexical-6`, in order: those of a query, or those of a text in its own language.
#[pyfunction]
#[pyo3(signature = (text, *, own_language = false, among = None))]
pub(crate) fn terms(
    py: Python<'_>,
    text: Text,
    own_language: bool,
    among: Option<Named<LanguageChoice>>,
) -> PyResult<Vec<String>> {
    run_detached(py, || {
        let mut terms = Vec::new();
        let language = if own_language {
            analyse::language_in(&text, choice(among))
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
pub(crate) fn language(
    py: Python<'_>,
    text: Text,
    among: Option<Named<LanguageChoice>>,
) -> PyResult<&'static str> {
    run_detached(py, || Ok(analyse::language_in(&text, choice(among)).code()))
}

fn choice(among: Option<Named<LanguageChoice>>) -> LanguageChoice {
    among.map_or(LanguageChoice::AUTO, |Named(among)| among)
}

// The function `text_size`, whose result token estimates are computed from.

/// The bytes of UTF-8 and the code points of a text.
#[pyfunction]
pub(crate) fn text_size(text: &Bound<'_, PyString>) -> PyResult<(usize, usize)> {
    run_attached(text.py(), || {
        let size = with_bytes(text, TextSize::of)?;
        Ok((size.bytes, size.code_points))
    })
}

/// The family of the rule with that name.
pub(crate) fn family_of(rule: &str) -> PyResult<Family> {
    let unknown = || PyValueError::new_err(format!("no rule by weights: {rule:?}"));
    Family::of(rule).ok_or_else(unknown)
}

/// The tokens of a text by its characters.
#[pyfunction]
#[pyo3(signature = (text, rule = "weights"))]
pub(crate) fn text_tokens(text: &Bound<'_, PyString>, rule: &str) -> PyResult<usize> {
    run_attached(text.py(), || {
        let family = family_of(rule)?;
        with_bytes(text, |bytes| family.tokens(bytes))
    })
}

// The functions `word_hash`, `bucket`, `embed_batch` and `embed_sparse`. Rows are returned as native-endian bytes.

type Bytes<'py> = Bound<'py, PyByteArray>;

/// The XXH3-64 hash of a word's UTF-8.
#[pyfunction]
pub(crate) fn word_hash(py: Python<'_>, word: Text) -> PyResult<u64> {
    run_attached(py, || Ok(hash::word_hash(&word)))
}

/// The bucket of a word, 0 to 4095.
#[pyfunction]
pub(crate) fn bucket(py: Python<'_>, word: Text, hash_rule: Named<HashRule>) -> PyResult<u16> {
    run_attached(py, || Ok(hash_rule.0.bucket(&word)))
}

/// Dense rows, one after another: 4,096 float32 for each text.
#[pyfunction]
pub(crate) fn embed_batch<'py>(
    texts: &Bound<'py, PyList>,
    hash_rule: Named<HashRule>,
) -> PyResult<Bytes<'py>> {
    let py = texts.py();
    let texts = borrow_all(texts)?;
    PyByteArray::new_with(py, texts.len() * DIMENSION * size_of::<f32>(), |rows| {
        run_detached(py, || {
            write_dense(rows, &texts, hash_rule.0);
            Ok(())
        })
    })
}

/// The same rows without their zeros: the start of each row, the buckets, and their values.
#[pyfunction]
pub(crate) fn embed_sparse<'py>(
    texts: &Bound<'py, PyList>,
    hash_rule: Named<HashRule>,
) -> PyResult<(Bytes<'py>, Bytes<'py>, Bytes<'py>)> {
    let py = texts.py();
    let texts = borrow_all(texts)?;
    let rows = run_detached(py, || Ok(SparseRows::of(&texts, hash_rule.0)))?;
    Ok((
        PyByteArray::new(py, rows.starts.as_flattened()),
        PyByteArray::new(py, rows.buckets.as_flattened()),
        PyByteArray::new(py, rows.values.as_flattened()),
    ))
}
