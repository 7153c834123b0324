//! BM25 over 64-bit hashes of terms: scores entries by the terms of the query that they have, and by how rare those
//! terms are.

mod buffers;
mod correction;
mod days;
mod index;
mod lexical;
mod lists;
mod max_score;
mod neighbour_links;
mod neighbours;
mod score;
mod scorer;
mod search;
mod speakers;
mod terms;

pub use index::{Bm25Index, scores};
pub use lexical::LexicalIndex;
pub use neighbours::{Neighbor, Why};
pub use score::Bm25Params;
pub use scorer::{Part, Scored, Scorer};
pub use search::Match;
pub use terms::{Document, Query, QueryTerm};
