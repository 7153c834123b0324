//! The file of a store: its rows, its transactions and its checks.
//!
//! This room knows no index and no words. Every value is bound, never spliced into SQL. Every write is one
//! `BEGIN IMMEDIATE` transaction, or a savepoint of one. Every row carries a checksum, and every read of the row compares it.

mod backup;
pub(crate) mod check;
mod chunked_writes;
pub(crate) mod compactions;
mod connection;
pub(crate) mod database;
pub(crate) mod deletion;
pub(crate) mod derived;
pub(crate) mod entry;
mod erase;
pub(crate) mod fact;
mod file_identity;
pub(crate) mod files;
pub(crate) mod forgotten;
pub(crate) mod group_commit;
pub(crate) mod log;
pub(crate) mod meta;
pub(crate) mod mirror;
mod probe;
mod readers;
pub(crate) mod recall_log;
pub(crate) mod repair;
mod row;
mod schema;
pub(crate) mod session;
mod transaction;
pub(crate) mod vectors;
mod wal;
mod writer;

pub use check::Finding;
pub use compactions::{Compaction, CompactionBody, NewCompaction};
pub(crate) use database::Database;
pub use derived::{Derived, DerivedKind, NewDerived};
pub use entry::{NewEntry, StoredEntry};
pub use fact::{Fact, NewFact};
pub use log::{Message, NewMessage};
pub use mirror::{Changed, Changes, Column, Keeper, Value, mirrored_tables};
pub use recall_log::Recall;
pub use schema::version as schema_version;
pub use session::{Counts, SessionRow, SessionVersion};
pub(crate) use transaction::Transaction;
pub use vectors::EmbedderRow;
