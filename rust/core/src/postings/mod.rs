//! Posting lists: for each key, the entries that have it, in blocks of 4,096 entries and with two bytes a posting.
//!
//! Entries are numbered from 0 in the order they come. The newest few are stored as they came ([`Fresh`]). More of
//! them are stored in growing lists ([`BucketLists`](bucket_lists::BucketLists) where keys are buckets, [`TermLists`] where keys are hashes of
//! terms), until their block has all its entries; then they become one [`Part`]. A part never changes, so a reader
//! may keep it. A [`Block`] has its parts in order: usually one, and two where the first was read from a file
//! before the block was full. Parts are made and merged a few keys with each insert (`merge`), so no insert waits
//! for a whole block. Removed entries are only marked; a block is rewritten without them when they are three tenths
//! of it.
//!
//! Scores are not computed here: `index` makes cosines of the postings, and `bm25` sums of terms.

mod arrays;
mod block;
mod bucket_lists;
mod dictionary;
mod fresh;
mod merge;
mod part;
mod pool;
mod rows;
mod store;
mod tail;
mod term_lists;

pub use block::{Block, Removed};
pub use dictionary::{Buckets, Dictionary, Hashes};
pub use fresh::Fresh;
pub use part::{Overflow, Part, count, entry};
pub use rows::Rows;
pub use store::Postings;
pub use tail::Tail;
pub use term_lists::TermLists;

pub use crate::simd::columns::BLOCK;
