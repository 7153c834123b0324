//! A passage that was found, and its order among others.

use std::cmp::Ordering;

/// The number of a passage or an entry, from its place.
pub(super) fn number(place: usize) -> u32 {
    u32::try_from(place).expect("an index in memory holds fewer than 2^32 passages")
}

/// A passage that was found.
///
/// The better passage is the greater one: the higher score, and of equal scores the smaller id.
#[derive(Clone, Copy, Debug)]
pub struct Scored {
    /// Its number in the index.
    pub id: u32,
    /// Above 0, up to 1.
    pub score: f64,
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then_with(|| other.id.cmp(&self.id))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scored {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scored {}
