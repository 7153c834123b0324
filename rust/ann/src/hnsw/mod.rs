//! HNSW: hierarchical navigable small world graphs, beside the paper and with its letters.
//!
//! Yu. A. Malkov and D. A. Yashunin, "Efficient and robust approximate nearest neighbor search using
//! Hierarchical Navigable Small World graphs", 2018. What the paper leaves open, deletion and points that
//! pruning would cut off, is in [`tree`] and [`remove`]; docs/design/hnsw.md tells it with its proof.

mod file;
mod graph;
pub(crate) mod index;
mod insert;
pub(crate) mod params;
mod pool;
mod remove;
mod search;
mod select;
mod tree;
mod visited;

pub use file::storage_of;
pub use index::{Figures, Hnsw};
pub use params::HnswParams;
