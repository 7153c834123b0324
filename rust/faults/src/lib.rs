//! A disk that fails when told to, and forgets what was not synced: what the store is tested on.
//!
//! A VFS of SQLite stands before the real one, as the default of the process, so the store is opened as it
//! is everywhere else and has no switch for tests. It counts, records and refuses what is done to files in
//! a directory that a [`Disk`] was laid over, and passes everything on. Floors: `sessions` (what a store is
//! worked with, and what it must then hold); `replay` (what a power cut leaves); `watch`; `vfs`; `disk`; `chance`.
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
