//! BM25 over 64-bit hashes of terms: scores entries by the terms of the query that they have, and by how rare those
//! terms are.

mod arrays;
mod best;
mod chain;
mod correct;
mod days;
mod index;
mod languages;
mod lexical;
mod lists;
mod neighbours;
mod norms;
mod params;
mod removal;
mod score;
mod scored;
mod scorer;
mod scratch;
mod search;
mod spare;
mod speakers;
mod terms;
mod vocabulary;

pub use index::{Bm25Index, scores};
pub use lexical::LexicalIndex;
pub use neighbours::{Neighbor, Why};
pub use params::Bm25Params;
pub use scored::Scored;
pub use scorer::{Part, Scorer};
pub use search::Match;
pub use terms::{Document, Query, QueryTerm};
