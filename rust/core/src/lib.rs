//! Text and numbers behind siltstone: tokenising, hashed embeddings, exact search, the durable log.
//!
//! The crate knows nothing of Python. Floors, each using those below it: `memory` (a store, one scope a
//! session); `index`, `bm25`, [`embed`] (what is similar); [`vector`], [`top_k`], [`postings`], [`analyse`],
//! [`recall`], [`redact`], `sqlite` (parts); [`error`], [`fork`], [`id`], [`condense`], [`documented`], [`tokens`], [`json`], [`tokenize`], [`outline`],
//! [`simd`], [`cache`], [`index_file`], `whole_file` (ground).
//!
//! ```
//! use siltstone_core::embed::hash::HashRule;
//! use siltstone_core::embed::hashed_tf::counts;
//!
//! let query = counts("where do rivers leave silt?", HashRule::Xxh3);
//! let near = counts("Rivers leave their silt where they slow down.", HashRule::Xxh3);
//! let far = counts("The kettle is on.", HashRule::Xxh3);
//! assert_eq!(query.dot(&near), 4); // where, rivers, leave, silt
//! assert_eq!(query.dot(&far), 0);
//! ```

pub mod analyse;
pub mod bm25;
pub mod cache;
pub mod condense;
pub mod documented;
pub mod embed;
pub mod error;
pub mod fork;
pub mod fusion;
pub mod grep;
pub mod id;
pub mod index;
pub mod index_file;
pub mod json;
pub mod memory;
pub mod outline;
pub mod postings;
pub mod recall;
pub mod redact;
pub mod simd;
mod sqlite;
pub mod tokenize;
pub mod tokens;
pub mod top_k;
pub mod vector;
mod whole_file;

pub use error::{Error, ErrorKind, Field, Result};
pub use top_k::TopK;
pub use vector::SparseRow;
