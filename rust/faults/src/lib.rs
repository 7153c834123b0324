//! A disk for tests of the store: it fails on demand, and loses writes that were not synced.
//!
//! A VFS of SQLite wraps the real one, and is the default of the process. So the tests open the store in the usual
//! way, and the store needs no switch for tests. The VFS counts, records and refuses calls on files in
//! a directory with a [`Disk`], and passes all other calls on.
//!
//! The modules: `sessions` has the steps of a test and the expected state after each; `judge` compares a store with
//! that state; `replay` computes the files after a loss of power; `disk` is the disk that a test controls; `watch` is
//! its state; `vfs` is the VFS; `place` is a directory with a disk; `chance` gives random numbers.
#![cfg(unix)]

pub mod chance;
pub mod disk;
pub mod judge;
pub mod place;
pub mod replay;
pub mod sessions;
mod vfs;
pub mod watch;

pub use chance::Chance;
pub use disk::Disk;
pub use judge::{Flaw, Found, judge};
pub use place::Place;
pub use replay::{Image, Recording};
pub use sessions::{State, Step};
pub use watch::{Call, Fault, Lie, Trouble};
