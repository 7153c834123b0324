//! Kernels for rows of floats and bytes, and the memory of rows that they read while a writer appends.
//!
//! A kernel is a safe function that takes a [`Level`](siltstone_core::simd::Level) and returns the same result on
//! every level. All unsafe code of the crate is here. Each unsafe block says why it is sound, and a test compares
//! it with a scalar form at every level.

pub mod dot_f32;
pub mod dot_i8;
pub mod packed_i8;
pub mod rows;
