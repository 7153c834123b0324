//! A file of arrays that is mapped instead of read: disposable, checked before use, never trusted.
//!
//! Its contents follow from the rest of a store. So a damaged one is no error, but as good as none. [`Writer`] puts arrays one after another, [`Reader`] hands them out in that order, and
//! an [`Array`] is either memory of its own or a part of the mapped file.

mod array;
mod file;
mod map;

pub use array::{Array, Number, are_bounds};
pub use file::{Reader, VERSION, Writer, version};

#[cfg(test)]
pub(crate) use file::renew;
