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

mod cache_files;
mod catch_up;
mod entries;
mod examine;
mod explain;
mod facts;
mod find_text;
mod forget;
mod handle;
mod index_map;
mod log;
mod namespace;
mod namespace_search;
mod options;
mod rank;
mod recall;
mod search;
mod session_index;
mod store;
mod vectors;

pub use crate::sqlite::{
    Changed, Changes, Column, Compaction, CompactionBody, Counts, Derived, DerivedKind,
    EmbedderRow, Fact, Finding, Keeper, Message, NewCompaction, NewDerived, NewEntry, NewFact,
    NewMessage, Recall, SessionRow, SessionVersion, StoredEntry, Value, mirrored_tables,
    schema_version,
};
pub use entries::{Expired, Figures, Page};
pub use explain::{Explained, Explanation};
pub use forget::{Forgotten, Marks, Target};
pub use handle::{Handle, after_fork_in_child, after_fork_in_parent, before_fork};
pub use log::{Append, Committed, Rewrite, Undone, Write};
pub use namespace_search::{Across, Unread};
pub use options::{Filter, Fusion, QueryVector, Ranker, SearchIndex, SearchOptions};
pub use recall::{InContext, RecallAcross, RecallFound, RecallOptions};
pub use search::{Answer, Found, Hit, as_json};
pub use session_index::{IndexSizes, Repeated};
pub use store::Store;
