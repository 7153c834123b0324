//! Kernels that use the instructions of the current processor: one kernel in each file, beside its scalar
//! counterpart.
//!
//! [`level`] detects the processor and selects the path. A kernel is a safe function that takes a [`Level`] and
//! returns the same result on every level. All unsafe code of the crate is here, except the mapping of files in
//! `cache`. Each unsafe block says why it is sound, and a test compares it with the scalar counterpart at every
//! level.

pub mod classify;
pub mod columns;
pub mod level;
pub mod prefetch;
pub mod reach;

pub use level::{Level, Path, Unsupported};
