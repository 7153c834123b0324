//! Posting lists: for each key, the entries that have it, in blocks of 4,096 entries and with two bytes a posting.
//!
//! Entries are numbered from 0 in the order they come. The newest few are stored as they came ([`Fresh`]). More of
//! them are stored in growing lists ([`BucketLists`](growing_lists::BucketLists) where keys are buckets, [`TermLists`]
//! where keys are hashes of terms), until their block has all its entries; then they become one [`Part`]. A part never
//! changes, so a reader may keep it. A [`Block`] has its parts in order: usually one, and two where the first was read
//! from a file before the block was full. Parts are made and merged a few keys with each insert (`block`), so no
//! insert waits for a whole block. Removed entries are only marked; a block is rewritten without them when they are
//! three tenths of it.
//!
//! Scores are not computed here: `index` makes cosines of the postings, and `bm25` sums of terms.

mod block;
mod dictionary;
mod growing_lists;
mod newest;
mod part;
mod part_arrays;
mod store;

pub use crate::simd::columns::BLOCK;
pub use block::{Block, Removed};
pub use dictionary::{Buckets, Dictionary, Hashes};
pub use growing_lists::TermLists;
pub use newest::Tail;
pub use part::{Overflow, Part, count, entry};
pub use store::{Postings, Rows};
