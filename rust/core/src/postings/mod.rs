//! For each key the entries that have it: blocks of 4,096 entries, two bytes a posting.
//!
//! Entries are numbered from 0 in the order they come. The newest few lie as they came ([`Fresh`]), and more
//! of them in lists that grow ([`BucketLists`] where keys are buckets, [`TermLists`] where they are hashes of
//! terms) until their block has all of its entries, and become one [`Part`] then. A part never changes once it is
//! made, so a reader may keep it; a [`Block`] is the parts that lie in it, in order: two where the first was
//! read from a file before the block was whole. Parts are made and put together a few keys an insert
//! (`merge`), so that no insert waits for a whole block. Removed entries are marked, and leave their block
//! when they are three tenths of it.
//!
//! What the entries score is not known here: `index` makes cosines of it, and `bm25` sums of terms.

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
pub use bucket_lists::{BucketLists, GrowingList};
pub use dictionary::{Buckets, Dictionary, Hashes};
pub use fresh::Fresh;
pub use part::{List, Overflow, Part, count, entry};
pub use rows::Rows;
pub use store::Postings;
pub use tail::{Growing, Lists, Tail};
pub use term_lists::TermLists;

pub use crate::simd::columns::BLOCK;
