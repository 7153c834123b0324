//! BM25 over 64-bit hashes of words: which texts have the query's words, and how telling those are.

mod index;
mod params;
mod score;
mod terms;

pub use index::{Bm25Index, Match, Part};
pub use params::Bm25Params;
pub use terms::{Document, Query, QueryTerm};
