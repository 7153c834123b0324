//! Kernels for the instructions that the processor at hand has: one kernel a file, beside its scalar twin.
//!
//! [`level`] says what the processor has and which path is taken. A kernel is a safe function that takes
//! a [`Level`], and that gives the same on every level. Unsafe code is here, each piece with the reason why
//! it is sound and a test at every level against the twin, and where `cache` maps a file; nowhere else.

pub mod classify;
pub mod clusters;
pub mod columns;
pub mod edges;
pub mod lanes;
pub mod level;
pub mod prefetch;
pub mod reach;
pub mod scan;
pub mod words;
pub mod xxh3;

pub use level::{Level, Path, Unsupported};
