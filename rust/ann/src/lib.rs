//! Nearest-neighbour search without a store: a graph over rows of floats or counts ([`Hnsw`], and [`AnyHnsw`] where
//! the storage is chosen by name). A small index is scanned.
//!
//! The store knows only a trait of this crate: [`GRAPH`] is the graph that a search of a store may ask for.
//! docs/design/hnsw.md tells which parts of the paper are kept, and which parts are added.

mod any;
mod frame;
mod growth;
mod hnsw;
mod plan;
mod rescore;
mod scan;
mod segments;
pub mod simd;
pub mod space;
mod store_graph;

pub use any::{AnyHnsw, Bounds, Rows};
pub use hnsw::{Figures, Hnsw, HnswParams, storage_of};
pub use plan::{Plan, SCANNED, SCANNED_ROWS};
pub use store_graph::GRAPH;
