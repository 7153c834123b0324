//! Turns texts into vectors by hashed term frequencies, an embedding without a model.

pub mod hash;
pub mod hashed_tf;
pub mod rows;
