//! The forms of rows in memory, and the distance of a query from them: `base` is the contract, with one
//! implementation in each file.

pub(crate) mod base;
pub(crate) mod int8;
pub(crate) mod matrix;
pub(crate) mod scale;
pub(crate) mod sparse;

pub use base::{Bytes, Space, cosine_distance};
pub use int8::Int8;
pub use matrix::{rows, sparse_rows};
pub use scale::{MAX_DIMENSION, check_dimension, check_row};
pub use sparse::Sparse;
