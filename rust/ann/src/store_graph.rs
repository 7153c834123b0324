//! The graph that a store searches with: rows of counts, with the documented parameters.

use siltstone_core::index::{GraphIndex, Neighbor, NewGraph};
use siltstone_core::vector::BUCKETS;
use siltstone_core::{Result, SparseRow};

use crate::hnsw::index::Hnsw;
use crate::hnsw::params::HnswParams;
use crate::plan::Plan;
use crate::space::sparse::Sparse;

/// The graph that a search of a store gets by the name `hnsw`.
pub const GRAPH: NewGraph = NewGraph::new("hnsw", || {
    Ok(Box::new(Hnsw::<Sparse>::new(
        BUCKETS,
        HnswParams::default(),
    )?))
});

impl GraphIndex for Hnsw<Sparse> {
    fn add(&mut self, row: &SparseRow) -> Result<u32> {
        Ok(Self::add(self, [row])?.start)
    }

    fn remove(&mut self, rows: &[u32]) -> Result<()> {
        Self::remove(self, rows)
    }

    fn nearest(&self, row: &SparseRow, limit: usize) -> Vec<Neighbor> {
        let ef = limit.max(self.params().ef_search());
        self.search(row, ef, Some(ef), Some(Plan::Graph))
    }
}
