//! Files of arrays that are mapped into memory: disposable, and checked before use.
//!
//! The contents of such a file can be computed again from a store. So a damaged file is no error, and counts as
//! missing. [`Writer`] writes arrays one after another, and [`Reader`] returns them in that order. An [`Array`] is
//! either memory of its own or a part of a mapped file.

mod array;
mod file;

pub(crate) use array::are_bounds;
pub use array::{Array, Number};
pub(crate) use file::give_back_freed;
#[cfg(test)]
pub(crate) use file::renew;
pub use file::{Reader, VERSION, Writer, version};
