//! The functions `word_hash`, `bucket`, `embed_batch` and `embed_sparse`. Rows are returned as native-endian bytes.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList};
use siltstone_core::embed::hash::{self, HashRule};
use siltstone_core::embed::hashed_tf::DIMENSION;
use siltstone_core::embed::rows::{SparseRows, write_dense};

use crate::error::{run_attached, run_detached, to_exception};
use crate::text::{Text, borrow_all};

type Bytes<'py> = Bound<'py, PyByteArray>;

/// The XXH3-64 hash of a word's UTF-8.
#[pyfunction]
pub(crate) fn word_hash(py: Python<'_>, word: Text) -> PyResult<u64> {
    run_attached(py, || Ok(hash::word_hash(&word)))
}

/// The bucket of a word, 0 to 4095.
#[pyfunction]
pub(crate) fn bucket(py: Python<'_>, word: Text, hash_rule: &str) -> PyResult<u16> {
    run_attached(py, || Ok(parse(py, hash_rule)?.bucket(&word)))
}

/// Dense rows, one after another: 4,096 float32 for each text.
#[pyfunction]
pub(crate) fn embed_batch<'py>(
    texts: &Bound<'py, PyList>,
    hash_rule: &str,
) -> PyResult<Bytes<'py>> {
    let py = texts.py();
    let rule = parse(py, hash_rule)?;
    let texts = borrow_all(texts)?;
    PyByteArray::new_with(py, texts.len() * DIMENSION * size_of::<f32>(), |rows| {
        run_detached(py, || {
            write_dense(rows, &texts, rule);
            Ok(())
        })
    })
}

/// The same rows without their zeros: the start of each row, the buckets, and their values.
#[pyfunction]
pub(crate) fn embed_sparse<'py>(
    texts: &Bound<'py, PyList>,
    hash_rule: &str,
) -> PyResult<(Bytes<'py>, Bytes<'py>, Bytes<'py>)> {
    let py = texts.py();
    let rule = parse(py, hash_rule)?;
    let texts = borrow_all(texts)?;
    let rows = run_detached(py, || Ok(SparseRows::of(&texts, rule)))?;
    Ok((
        PyByteArray::new(py, rows.starts.as_flattened()),
        PyByteArray::new(py, rows.buckets.as_flattened()),
        PyByteArray::new(py, rows.values.as_flattened()),
    ))
}

fn parse(py: Python<'_>, hash_rule: &str) -> PyResult<HashRule> {
    hash_rule.parse().map_err(|error| to_exception(py, &error))
}
