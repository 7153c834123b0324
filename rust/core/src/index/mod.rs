//! Search among rows of counts and of floats: `exact` over inverted lists, `hnsw` over a graph, `scan` over
//! all rows, and `flat`, the oracle they are held against.

mod base;
mod exact;
mod flat;
mod flat_rows;
mod frame;
mod hnsw;
mod plan;
mod rescore;
mod scan;
mod segments;
pub mod space;

pub use base::{Neighbor, VectorIndex, cosine_distance, distance};
pub use exact::ExactIndex;
pub use flat::FlatIndex;
pub use flat_rows::FlatRows;
pub use frame::{read_file, write_file};
pub use hnsw::{Figures, Hnsw, HnswParams, storage_of};
pub use plan::{Plan, SCANNED};
