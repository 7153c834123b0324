//! A graph whose storage is chosen at run time, by name or by a file.

use std::ops::Range;

use siltstone_core::index::Neighbor;
use siltstone_core::{Error, Result, SparseRow};

use crate::hnsw::{Figures, Hnsw, HnswParams, storage_of};
use crate::plan::Plan;
use crate::space::matrix::{refused, rows};
use crate::space::{Int8, Space, Sparse};

/// A graph over rows of one of the storages.
#[expect(
    clippy::large_enum_variant,
    reason = "all are large, and a program has few of them"
)]
pub enum AnyHnsw {
    /// Floats, with bytes for the quick distances.
    I8(Hnsw<Int8>),
    /// Rows of counts.
    Sparse(Hnsw<Sparse>),
}

/// Rows for an index, or queries: of one of two kinds.
#[derive(Clone, Debug, PartialEq)]
pub enum Rows {
    /// A matrix of floats, row after row.
    Floats(Vec<f32>),
    /// Rows of counts.
    Counts(Vec<SparseRow>),
}

/// The bounds of a search.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most rows that are returned for each query.
    pub k: usize,
    /// The number of candidates that the graph keeps (`ef`); None is the graph's own number.
    pub ef: Option<usize>,
    /// The plan; None is the graph's own choice.
    pub plan: Option<Plan>,
}

macro_rules! each {
    ($any:expr, $index:ident => $work:expr) => {
        match $any {
            AnyHnsw::I8($index) => $work,
            AnyHnsw::Sparse($index) => $work,
        }
    };
}

impl AnyHnsw {
    /// An empty index of rows of `dimension` numbers, in the storage of that name.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidArgument` for an unknown storage; otherwise the errors of [`Hnsw::new`].
    pub fn new(dimension: usize, storage: &str, params: HnswParams) -> Result<Self> {
        match storage {
            Int8::NAME => Hnsw::new(dimension, params).map(Self::I8),
            Sparse::NAME => Hnsw::new(dimension, params).map(Self::Sparse),
            _ => Err(unknown_storage(storage)),
        }
    }

    /// The index of a file, in the storage that the file names.
    ///
    /// # Errors
    ///
    /// The errors of [`Hnsw::from_bytes`].
    pub fn from_bytes(file: &[u8]) -> Result<Self> {
        match storage_of(file)?.as_str() {
            Int8::NAME => Hnsw::from_bytes(file).map(Self::I8),
            Sparse::NAME => Hnsw::from_bytes(file).map(Self::Sparse),
            storage => Err(unknown_storage(storage)),
        }
    }

    /// The index as a file. Removed rows are not in it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        each!(self, index => index.to_bytes())
    }

    /// Adds rows, and returns their ids.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidArgument` for rows of another kind than those of the index; otherwise the errors of [`rows`]
    /// and of [`Hnsw::add`].
    pub fn add(&self, vectors: &Rows) -> Result<Range<u32>> {
        match (self, vectors) {
            (Self::I8(index), Rows::Floats(matrix)) => {
                index.add(rows(matrix, index.dimension(), "vectors")?)
            }
            (Self::Sparse(index), Rows::Counts(rows)) => index.add(rows),
            _ => Err(wrong_kind()),
        }
    }

    /// Removes rows, as [`Hnsw::remove`].
    ///
    /// # Errors
    ///
    /// The errors of [`Hnsw::remove`].
    pub fn remove(&self, ids: &[u32]) -> Result<()> {
        each!(self, index => index.remove(ids))
    }

    /// Calls `found` for each of the queries, with the rows nearest to it.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidArgument` for queries of another kind than the rows of the index; otherwise the errors of
    /// [`rows`].
    pub fn search(
        &self,
        queries: &Rows,
        bounds: Bounds,
        found: impl FnMut(&[Neighbor]),
    ) -> Result<()> {
        match (self, queries) {
            (Self::I8(index), Rows::Floats(matrix)) => {
                let queries = rows(matrix, index.dimension(), "queries")?;
                search(index, queries, bounds, found);
            }
            (Self::Sparse(index), Rows::Counts(rows)) => search(index, rows, bounds, found),
            _ => return Err(wrong_kind()),
        }
        Ok(())
    }

    /// The number of rows that were added and not removed.
    #[must_use]
    pub fn len(&self) -> usize {
        each!(self, index => index.len())
    }

    /// Whether there are no such rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of a row, in numbers.
    #[must_use]
    pub fn dimension(&self) -> usize {
        each!(self, index => index.dimension())
    }

    /// The name of the storage.
    #[must_use]
    pub fn storage(&self) -> &'static str {
        fn name<S: Space>(_: &Hnsw<S>) -> &'static str {
            S::NAME
        }
        each!(self, index => name(index))
    }

    /// The parameters of the graph.
    #[must_use]
    pub fn params(&self) -> HnswParams {
        each!(self, index => index.params())
    }

    /// The sizes of the index.
    #[must_use]
    pub fn figures(&self) -> Figures {
        each!(self, index => index.figures())
    }
}

fn search<'a, S: Space>(
    index: &Hnsw<S>,
    queries: impl IntoIterator<Item = &'a S::Item>,
    Bounds { k, ef, plan }: Bounds,
    mut found: impl FnMut(&[Neighbor]),
) where
    S::Item: 'a,
{
    for query in queries {
        found(&index.search(query, k, ef, plan));
    }
}

fn unknown_storage(storage: &str) -> Error {
    refused(format!("storage must be 'i8' or 'sparse', got {storage:?}"))
}

fn wrong_kind() -> Error {
    refused(
        "dense vectors go into a dense index, rows of counts into one with storage='sparse'"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        k: 1,
        ef: None,
        plan: None,
    };

    fn floats(numbers: &[f32]) -> Rows {
        Rows::Floats(numbers.to_vec())
    }

    #[test]
    fn rows_of_floats_are_found_and_read_back() {
        let index = AnyHnsw::new(2, "i8", HnswParams::default()).unwrap();
        assert_eq!(index.add(&floats(&[1.0, 0.0, 0.0, 1.0])).unwrap(), 0..2);
        let again = AnyHnsw::from_bytes(&index.to_bytes()).unwrap();
        for index in [&index, &again] {
            assert_eq!(
                (index.storage(), index.dimension(), index.len()),
                ("i8", 2, 2)
            );
            let mut ids = Vec::new();
            let found = |found: &[Neighbor]| ids.push(found[0].id);
            index
                .search(&floats(&[0.0, 3.0, 2.0, 0.1]), BOUNDS, found)
                .unwrap();
            assert_eq!(ids, [1, 0]);
        }
        assert!(index.add(&Rows::Counts(Vec::new())).is_err());
        assert!(
            index
                .search(&Rows::Counts(Vec::new()), BOUNDS, |_| ())
                .is_err()
        );
    }

    #[test]
    fn rows_of_counts_go_into_an_index_of_counts_alone() {
        let index = AnyHnsw::new(4096, "sparse", HnswParams::default()).unwrap();
        let rows = Rows::Counts(vec![SparseRow::of_weights(&[7], &[1.0]).unwrap()]);
        assert_eq!(index.add(&rows).unwrap(), 0..1);
        let mut ids = Vec::new();
        let found = |found: &[Neighbor]| ids.push(found[0].id);
        index.search(&rows, BOUNDS, found).unwrap();
        assert_eq!(ids, [0]);
        index.remove(&[0]).unwrap();
        assert!(index.is_empty());
        assert!(index.add(&floats(&[1.0; 4096])).is_err());
        assert!(index.search(&floats(&[]), BOUNDS, |_| ()).is_err());
        assert!(AnyHnsw::new(2, "f8", HnswParams::default()).is_err());
    }
}
