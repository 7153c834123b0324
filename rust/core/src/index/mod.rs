//! Search among rows of counts: `exact` over inverted lists, and `flat`, the oracle it is held against.

mod base;
mod exact;
mod flat;

pub use base::{Neighbor, VectorIndex, distance};
pub use exact::ExactIndex;
pub use flat::FlatIndex;
