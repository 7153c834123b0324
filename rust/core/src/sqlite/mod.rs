//! The file of a store: its rows, its transactions and its checks.
//!
//! This room knows no index and no words. Every value is bound, never spliced into SQL. Every write is one
//! `BEGIN IMMEDIATE` transaction. Every row carries a checksum, and every read of the row compares it.

pub(crate) mod allocator;
mod backup;
pub(crate) mod cached;
pub(crate) mod check;
mod check_rows;
mod check_vectors;
mod checksum;
pub(crate) mod compactions;
mod connection;
pub(crate) mod database;
pub(crate) mod departing;
pub(crate) mod derived;
pub(crate) mod entry;
mod erase;
mod exclusive;
pub(crate) mod fact;
mod failure;
pub(crate) mod figures;
pub(crate) mod forgotten;
pub(crate) mod leaving;
pub(crate) mod log;
pub(crate) mod meta;
mod migrate;
pub(crate) mod mirror;
mod mirrored;
pub(crate) mod modes;
mod pages;
mod place;
mod probe;
pub(crate) mod quarantine;
mod ranges;
mod readers;
pub(crate) mod recall;
mod repair;
mod repair_vectors;
mod reshape;
mod row;
mod schema;
pub(crate) mod session;
pub(crate) mod stage;
pub(crate) mod staged;
mod tail;
mod turns;
pub(crate) mod vectors;
mod wal;
mod writer;

pub use check::Finding;
pub use compactions::{Compaction, CompactionBody, NewCompaction};
pub(crate) use database::Database;
pub use derived::{Derived, DerivedKind, NewDerived};
pub use entry::{NewEntry, StoredEntry};
pub use fact::{Fact, NewFact};
pub use figures::Counts;
pub use log::{Message, NewMessage};
pub use mirror::{Changed, Changes, Keeper, Value};
pub use recall::{RECALLS, Recall};
pub(crate) use session::SessionRow;
pub use session::SessionVersion;
pub use stage::{Stage, State as StageState};
pub use staged::StagedEntry;
pub use vectors::EmbedderRow;
