//! The documented BM25 over lists of words.

use pyo3::prelude::*;
use siltstone_core::documented::Documents;

use crate::error::run_detached;
use crate::text::Text;

/// The documented BM25 over texts that are lists of words. Its texts never change.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct DocumentedBm25(Documents);

#[pymethods]
impl DocumentedBm25 {
    #[new]
    fn new(py: Python<'_>, texts: Vec<Vec<Text>>) -> PyResult<Self> {
        run_detached(py, || {
            let mut documents = Documents::default();
            for words in &texts {
                documents.add(words.iter().map(|word| &**word));
            }
            Ok(Self(documents))
        })
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The score of each text for the query.
    fn scores(&self, py: Python<'_>, query: Vec<Text>) -> PyResult<Vec<f64>> {
        run_detached(py, || Ok(self.0.scores(&words(&query))))
    }

    /// The `limit` best texts with at least `least` different words of the query, as pairs of number and score.
    fn best(
        &self,
        py: Python<'_>,
        query: Vec<Text>,
        least: usize,
        limit: usize,
    ) -> PyResult<Vec<(u32, f64)>> {
        run_detached(py, || Ok(self.0.best(&words(&query), least, limit)))
    }
}

fn words(query: &[Text]) -> Vec<&str> {
    query.iter().map(|word| &**word).collect()
}
