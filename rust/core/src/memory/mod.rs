//! A store: rows in SQLite, the indexes of each session (its scope), and the log of messages.
//!
//! Only this room joins rows and indexes. Locks are taken in one order: the right to write,
//! the map of scopes, a scope. A reader takes its connection last.
//!
//! Every read may fail with `StoreIo`, `StoreCorrupt` or `StoreBusy`; every write may also fail with
//! `ReadOnlyStore`. A failed write leaves nothing behind.
//!
//! ```
//! use siltstone_core::id::SessionId;
//! use siltstone_core::memory::{Handle, NewEntry, SearchOptions};
//!
//! # fn main() -> siltstone_core::Result<()> {
//! let directory = tempfile::tempdir().unwrap();
//! let handle = Handle::open(directory.path(), false, None, None)?;
//! let (store, session) = (handle.store()?, SessionId::new("delta")?);
//! let entry = NewEntry {
//!     text: "Silt settles where the water is slow.".to_owned(),
//!     repaired: false,
//!     start: 3,
//!     end: 4,
//!     role: "user".to_owned(),
//!     name: None,
//!     kind: "message".to_owned(),
//!     created_at: 0,
//!     ..NewEntry::default()
//! };
//! store.insert(&session, &[entry])?;
//! let hits = store.find(&session, "where does silt settle?", None, &SearchOptions::default())?.hits;
//! assert_eq!((hits[0].stored.entry.start, hits[0].stored.entry.end), (3, 4));
//! # Ok(())
//! # }
//! ```

mod across;
mod analysed;
mod answer;
mod cache_writer;
mod cached;
mod caches;
mod catch_up;
mod check;
mod contexts;
mod entries;
mod examine;
mod expiry;
mod explain;
mod facts;
mod filter;
mod forget;
mod fused;
mod graph;
mod handle;
mod holding;
mod listing;
mod log;
mod mirror;
mod namespace;
mod options;
mod rank;
mod reading;
mod recall;
mod registry;
mod required_indexes;
mod restore;
mod rewrite;
mod scope;
mod scope_map;
mod search;
mod store;
mod store_path;
mod vectors;

pub use across::Across;
pub use answer::{Answer, as_json};
pub use check::MAX_TEXT_BYTES;
pub use contexts::Unread;
pub use entries::{Figures, Page};
pub use explain::{
    ExplainedNeighbor, ExplainedTerm, Explanation, FusedBy, FusedExplanation, LexicalExplanation,
};
pub use filter::Filter;
pub use forget::{Forgotten, Target};
pub use handle::Handle;
pub use listing::SessionFigures;
pub use log::{Append, Committed, LogState, Undone, Write};
pub use options::{
    Fusion, MAX_LIMIT, MAX_QUERY_BYTES, QueryVector, Ranker, SearchIndex, SearchOptions,
};
pub use recall::{InContext, RecallAcross, RecallFound, RecallOptions};
pub use registry::{after_fork_in_child, after_fork_in_parent, before_fork};
pub use restore::Marks;
pub use rewrite::Rewrite;
pub use scope::IndexSizes;
pub use search::{Found, Hit};
pub use store::Store;
pub use vectors::Embedded;

pub use crate::sqlite::{
    Changed, Changes, Column, Compaction, CompactionBody, Counts, Derived, DerivedKind,
    EmbedderRow, Fact, Finding, Keeper, Message, NewCompaction, NewDerived, NewEntry, NewFact,
    NewMessage, RECALLS, Recall, SessionVersion, StoredEntry, Value, mirrored_tables,
    schema_version,
};
