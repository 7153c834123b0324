//! Search among rows of counts and of floats: `exact` over inverted lists, `hnsw` over a graph, `scan` over
//! all rows, `dense` over the vectors of entries, and `flat`, the oracle the others are held against.

mod arrays;
mod base;
mod dense;
mod exact;
mod exact_search;
mod flat;
mod flat_rows;
mod frame;
mod hnsw;
mod plan;
mod removal;
mod rescore;
mod scan;
mod segments;
pub mod space;

pub use base::{Neighbor, VectorIndex, cosine_distance, distance};
pub use dense::{DenseIndex, DenseScan, Near};
pub use exact::HashedTfIndex;
pub use flat::FlatIndex;
pub use flat_rows::FlatRows;
pub use hnsw::{Figures, Hnsw, HnswParams, storage_of};
pub use plan::{Plan, SCANNED, SCANNED_ROWS};
