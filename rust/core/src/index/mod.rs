//! Search among rows of counts and of floats: `exact` over inverted lists, `dense` over the vectors of entries,
//! and `flat`, which the others are compared with. `graph` says what a store asks of a graph over rows of
//! counts; the graph itself is in the crate `siltstone-ann`, as is all search among rows without a store.

mod arrays;
mod base;
mod dense;
mod exact;
mod exact_search;
mod flat;
mod graph;
mod removal;

pub use base::{Neighbor, VectorIndex, distance};
pub use dense::{DenseIndex, DenseScan, Near};
pub use exact::HashedTfIndex;
pub use flat::FlatIndex;
pub use graph::{GraphIndex, NewGraph};
