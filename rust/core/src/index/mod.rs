//! Search among rows of counts and of floats. `exact` uses inverted lists, `dense` scans the vectors of
//! entries. `graph` is the interface of a store to a graph over rows of
//! counts; the graph itself is in the crate `siltstone-ann`, like all search among rows without a store.

mod dense;
mod exact;
mod exact_search;
mod neighbor;

pub use dense::{DenseIndex, DenseScan, Near};
pub use exact::HashedTfIndex;
pub use neighbor::{GraphIndex, Neighbor, NewGraph, distance};
