//! Text to numbers: hashed term frequencies, the embedding that needs no model.

mod counter;
pub mod hash;
pub mod hashed_tf;
pub mod rows;
