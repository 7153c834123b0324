//! Searches of a `Store`, and the vectors that an embedder makes for them.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use siltstone_core::fusion::Decay;
use siltstone_core::id::EntryId;
use siltstone_core::memory::{Handle, QueryVector, SearchOptions};

use crate::error::guard;
use crate::explain::hit_out;
use crate::rows::{FoundOut, MissingOut, session_id};
use crate::text::Text;

/// What may be asked of a search.
pub(crate) struct OptionsIn {
    pub(crate) limit: i64,
    pub(crate) ranker: Text,
    pub(crate) index: Text,
    pub(crate) min_score: f64,
    pub(crate) explain: bool,
    pub(crate) decay: Option<(f64, f64)>,
    pub(crate) now: i64,
    pub(crate) fusion: Text,
}

pub(crate) fn search<'py>(
    py: Python<'py>,
    handle: &Handle,
    session: &Text,
    query: &Text,
    options: &OptionsIn,
    vector: Option<(i64, PyBackedBytes)>,
) -> PyResult<FoundOut<'py>> {
    let found = guard(py, || {
        let decay = options
            .decay
            .map(|(per_day, floor)| Decay::new(per_day, floor));
        let options = SearchOptions {
            limit: options.limit,
            ranker: options.ranker.parse()?,
            index: options.index.parse()?,
            min_score: options.min_score,
            explain: options.explain,
            decay: decay.transpose()?,
            now: options.now,
            fusion: options.fusion.parse()?,
        };
        let vector = vector.map(|(embedder, numbers)| QueryVector {
            embedder,
            numbers: numbers_in(&numbers),
        });
        let session = session_id(session)?;
        handle
            .store()?
            .find(&session, query, vector.as_ref(), &options)
    })?;
    let hits = found.hits.into_iter().map(|hit| hit_out(py, hit));
    Ok((
        hits.collect::<PyResult<_>>()?,
        found.ranker.name(),
        found.lacking,
    ))
}

pub(crate) fn missing(
    py: Python<'_>,
    handle: &Handle,
    after: i64,
    limit: usize,
) -> PyResult<(Vec<MissingOut>, i64)> {
    let (entries, looked) = guard(py, || {
        handle.store()?.missing_vectors(EntryId(after), limit)
    })?;
    let rows = entries.into_iter();
    let rows = rows.map(|each| (each.id.0, each.entry.text, each.entry.role, each.entry.name));
    Ok((rows.collect(), looked.0))
}

pub(crate) fn store(
    py: Python<'_>,
    handle: &Handle,
    embedder: i64,
    rows: &[(i64, PyBackedBytes)],
) -> PyResult<usize> {
    guard(py, || {
        let rows = rows.iter();
        let rows = rows.map(|(id, numbers)| (EntryId(*id), numbers_in(numbers)));
        let rows: Vec<_> = rows.collect();
        handle.store()?.store_vectors(embedder, &rows)
    })
}

/// float32, little-endian, one after another; what is left of the last one is dropped.
fn numbers_in(bytes: &[u8]) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks();
    numbers
        .iter()
        .map(|&number| f32::from_le_bytes(number))
        .collect()
}
