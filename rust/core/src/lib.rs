//! The core of siltstone: tokenising, hashed embeddings, exact search, and the durable log.
//!
//! The crate knows nothing of Python. Its modules form floors, and a module uses modules of lower floors only. From the
//! top:
//!
//! - [`memory`]: a store, with the indexes of each session;
//! - [`index`];
//! - [`embed`], [`bm25`], [`outline`];
//! - [`json`], [`vector`], `top_k`, [`fusion`], `postings`, `sqlite`, [`analyse`], [`extract`], [`redact`],
//!   [`recall_block`];
//! - [`id`], [`condense`], [`documented`], [`grep`], [`tokens`], [`tokenize`], [`index_file`];
//! - `error`, [`fork`], [`simd`], [`cache`], `whole_file`.
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
mod error;
pub mod extract;
pub mod fork;
pub mod fusion;
pub mod grep;
pub mod id;
pub mod index;
pub mod index_file;
pub mod json;
pub mod memory;
pub mod outline;
mod postings;
pub mod recall_block;
pub mod redact;
pub mod simd;
mod sqlite;
pub mod tokenize;
pub mod tokens;
mod top_k;
pub mod vector;
mod whole_file;

pub use error::{Error, ErrorKind, Field, Result, check_memory};
pub use top_k::TopK;
pub use vector::SparseRow;
