//! `word_hash`, `bucket`, `embed_batch`, `embed_sparse`: rows cross the wall as native-endian bytes.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList};
use siltstone_core::embed::hash::{self, HashRule};
use siltstone_core::embed::hashed_tf::{DIMENSION, with_embedder};
use siltstone_core::simd::prefetch::prefetch;

use crate::error::{guard, guard_attached, to_exception};
use crate::text::{Text, borrow_all, with_next};

type Bytes<'py> = Bound<'py, PyByteArray>;

const F32: usize = size_of::<f32>();

/// XXH3-64 of a word's UTF-8.
#[pyfunction]
pub(crate) fn word_hash(py: Python<'_>, word: Text) -> PyResult<u64> {
    guard_attached(py, || Ok(hash::word_hash(&word)))
}

/// The bucket of a word, 0 to 4095.
#[pyfunction]
pub(crate) fn bucket(py: Python<'_>, word: Text, hash_rule: &str) -> PyResult<u16> {
    guard_attached(py, || Ok(parse(py, hash_rule)?.bucket(&word)))
}

/// Dense rows: 4,096 float32 a text, row after row.
#[pyfunction]
pub(crate) fn embed_batch<'py>(
    texts: &Bound<'py, PyList>,
    hash_rule: &str,
) -> PyResult<Bytes<'py>> {
    let py = texts.py();
    let rule = parse(py, hash_rule)?;
    let texts = borrow_all(texts)?;
    PyByteArray::new_with(py, texts.len() * DIMENSION * F32, |rows| {
        guard(py, || {
            fill_dense(rows, &texts, rule);
            Ok(())
        })
    })
}

/// The same rows without their zeros: where each begins, its buckets, their values.
#[pyfunction]
pub(crate) fn embed_sparse<'py>(
    texts: &Bound<'py, PyList>,
    hash_rule: &str,
) -> PyResult<(Bytes<'py>, Bytes<'py>, Bytes<'py>)> {
    let py = texts.py();
    let rule = parse(py, hash_rule)?;
    let texts = borrow_all(texts)?;
    let rows = guard(py, || Ok(SparseRows::of(&texts, rule)))?;
    Ok((
        PyByteArray::new(py, rows.starts.as_flattened()),
        PyByteArray::new(py, rows.buckets.as_flattened()),
        PyByteArray::new(py, rows.values.as_flattened()),
    ))
}

fn fill_dense(rows: &mut [u8], texts: &[Text], rule: HashRule) {
    with_embedder(rule, |embedder| {
        for (row, text) in rows.chunks_exact_mut(DIMENSION * F32).zip(texts) {
            let (values, _) = row.as_chunks_mut::<F32>();
            for (bucket, value) in embedder.embed(text) {
                values[usize::from(bucket)] = value.to_ne_bytes();
            }
        }
    });
}

/// About how many buckets `texts` hit in all: room that is taken at once, and need not suffice.
pub(crate) fn likely_buckets(texts: &[Text]) -> usize {
    const BYTES: usize = 11;
    texts.iter().map(|text| text.len()).sum::<usize>() / BYTES + texts.len()
}

/// Rows without their zeros, each number as its bytes: row `i` is what lies in
/// `starts[i]..starts[i + 1]` of the other two.
struct SparseRows {
    starts: Vec<[u8; size_of::<i64>()]>,
    buckets: Vec<[u8; size_of::<i32>()]>,
    values: Vec<[u8; F32]>,
}

impl SparseRows {
    fn of(texts: &[Text], rule: HashRule) -> Self {
        let likely = likely_buckets(texts);
        let mut rows = Self {
            starts: Vec::with_capacity(texts.len() + 1),
            buckets: Vec::with_capacity(likely),
            values: Vec::with_capacity(likely),
        };
        rows.end_row();
        with_embedder(rule, |embedder| {
            for (text, next) in with_next(texts) {
                prefetch(next.as_bytes());
                let row = embedder.embed(text);
                let buckets = row.clone().map(|(bucket, _)| i32::from(bucket));
                let values = row.map(|(_, value)| value);
                rows.buckets.extend(buckets.map(i32::to_ne_bytes));
                rows.values.extend(values.map(f32::to_ne_bytes));
                rows.end_row();
            }
        });
        rows
    }

    fn end_row(&mut self) {
        let end = i64::try_from(self.buckets.len()).expect("a Vec is no longer than isize::MAX");
        self.starts.push(end.to_ne_bytes());
    }
}

fn parse(py: Python<'_>, hash_rule: &str) -> PyResult<HashRule> {
    hash_rule.parse().map_err(|error| to_exception(py, &error))
}
