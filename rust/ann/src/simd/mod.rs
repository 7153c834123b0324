//! Kernels for rows of floats, of bytes and of counts, and the memory that they read while a writer appends.
//!
//! A kernel is a safe function that takes a [`Level`](siltstone_core::simd::Level) and gives the same on every
//! level. The unsafe code of the crate is here, each piece with the reason why it is sound and a test at every
//! level against a scalar form.

pub mod dot_f32;
pub mod dot_i8;
pub mod gather;
mod halve;
pub mod packed_i8;
pub mod rows;
