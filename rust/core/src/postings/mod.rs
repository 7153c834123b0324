//! For each key the entries that have it: blocks of 4,096 entries, two bytes a posting.
//!
//! Entries are numbered from 0 in the order they come. The newest few lie as they came (`fresh`); 32 of
//! them become a small [`Part`], 16 of those one of 512, and all of a block one that is final. A part never
//! changes once it is made, so a reader may keep it; a [`Block`] is the parts that lie in it, in order.
//! Parts are put together a few keys an insert (`merge`), so that no insert waits for a whole block.
//! Removed entries are marked, and leave their block when they are three tenths of it.
//!
//! What the entries score is not known here: `index` makes cosines of it, and `bm25` sums of terms.

mod block;
mod dictionary;
mod file;
mod fresh;
mod merge;
mod part;
mod store;

pub use block::{Block, Removed};
pub use dictionary::{Buckets, Dictionary, Hashes};
pub use file::{load, save};
pub use fresh::Fresh;
pub use part::{List, Overflow, Part, count, entry};
pub use store::Postings;

pub use crate::simd::columns::BLOCK;
