//! BM25 over 64-bit hashes of terms: which entries have the query's terms, and how telling those are.

mod best;
mod cached;
mod chain;
mod days;
mod index;
mod lexical;
mod lists;
mod neighbours;
mod norms;
mod params;
mod removal;
mod score;
mod scorer;
mod scratch;
mod search;
mod spare;
mod terms;

pub use index::{Bm25Index, Scored};
pub use lexical::{LexicalIndex, Match};
pub use neighbours::{Neighbor, Why};
pub use params::Bm25Params;
pub use scorer::{Part, Scorer};
pub use terms::{Document, Query, QueryTerm};
