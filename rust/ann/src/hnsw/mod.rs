//! HNSW: hierarchical navigable small world graphs, with the names of the paper.
//!
//! Yu. A. Malkov and D. A. Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical
//! Navigable Small World graphs", 2018. The paper does not cover deletion, nor nodes that pruning would cut off:
//! these are in [`tree`] and [`remove`]; docs/design/hnsw.md describes them, with a proof.

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
