//! What rows look like in memory, and how far a query is from them: `base` is the contract, one member a
//! file.

mod base;
mod float;
mod int8;
mod scale;
mod sparse;

pub(crate) use base::corrupt;
pub use base::{Bytes, Space};
pub use float::{Float16, Float32};
pub use int8::Int8;
pub use scale::{MAX_DIMENSION, check_dimension, check_row};
pub use sparse::Sparse;
