//! Cuts texts into words: `words-1` (Unicode words) and `whitespace` (stretches between white space).
//!
//! A rule never changes once data is stored under its name: a new rule gets a new name.

mod class;
pub mod whitespace;
pub mod words;

pub(crate) use class::fold;
pub use class::{Class, classify, lower};
