//! What rows look like in memory, and how far a query is from them: `base` is the contract, one member a
//! file.

pub(crate) mod base;
mod float;
pub(crate) mod int8;
pub(crate) mod matrix;
pub(crate) mod scale;
pub(crate) mod sparse;

pub use base::{Bytes, Space, cosine_distance};
pub use float::{Float16, Float32};
pub use int8::Int8;
pub use matrix::{rows, sparse_rows};
pub use scale::{MAX_DIMENSION, check_dimension, check_row};
pub use sparse::Sparse;
