//! A row that was found, its distance, and the graph that may find it.

use std::cmp::Ordering;
use std::fmt;

use crate::error::Result;
use crate::vector::SparseRow;

/// A row that was found, and its distance from the query.
///
/// The better neighbour is greater: the nearer one, and of equally near ones the one with the smaller id.
#[derive(Clone, Copy, Debug)]
pub struct Neighbor {
    /// Its number in the index.
    pub id: u32,
    /// Its cosine distance: 0 for the same direction, 1 for nothing in common.
    pub distance: f64,
}

impl Ord for Neighbor {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .distance
            .total_cmp(&self.distance)
            .then_with(|| other.id.cmp(&self.id))
    }
}

impl PartialOrd for Neighbor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Neighbor {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Neighbor {}

/// `1 - dot / sqrt(|a|^2 * |b|^2)`: one division and one root of exact integers. So it is the same on every
/// machine, and 0 for equal rows.
#[expect(
    clippy::cast_precision_loss,
    reason = "a sum of squares above 2^53 needs 2^26 words at least"
)]
#[must_use]
pub fn distance(dot: u64, squared_norm: u64, other_squared_norm: u64) -> f64 {
    distance_of(dot as f64, squared_norm as f64, other_squared_norm as f64)
}

/// The same for integers that are floats already.
#[inline]
pub(super) fn distance_of(dot: f64, squared_norm: f64, other_squared_norm: f64) -> f64 {
    1.0 - dot / (squared_norm * other_squared_norm).sqrt()
}

// The interface of a graph over rows of counts, as a store uses it.

/// An approximate index over rows of counts, numbered from 0 in the order they were added.
pub trait GraphIndex: Send + Sync {
    /// Adds a row and gives its number.
    ///
    /// # Errors
    ///
    /// An error where there is no room for more rows.
    fn add(&mut self, row: &SparseRow) -> Result<u32>;

    /// Removes all of these rows, or none.
    ///
    /// # Errors
    ///
    /// An error where one of these rows does not exist.
    fn remove(&mut self, rows: &[u32]) -> Result<()>;

    /// The nearest rows that the graph leads to, nearest first: at least `limit`, if the graph has as many.
    fn nearest(&self, row: &SparseRow, limit: usize) -> Vec<Neighbor>;
}

/// A kind of graph: its name, and a function that makes an empty one.
#[derive(Clone, Copy)]
pub struct NewGraph {
    name: &'static str,
    make: fn() -> Result<Box<dyn GraphIndex>>,
}

impl NewGraph {
    /// The kind of that name. Two kinds of one name are the same kind.
    #[must_use]
    pub const fn new(name: &'static str, make: fn() -> Result<Box<dyn GraphIndex>>) -> Self {
        Self { name, make }
    }

    /// A graph without rows.
    ///
    /// # Errors
    ///
    /// The errors of the kind.
    pub fn make(self) -> Result<Box<dyn GraphIndex>> {
        (self.make)()
    }
}

impl fmt::Debug for NewGraph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NewGraph({})", self.name)
    }
}

impl PartialEq for NewGraph {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for NewGraph {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_worked_by_hand() {
        // (2, 1) and (1, 0): dot 2, squared norms 5 and 1; 1 - 2 / sqrt(5)
        assert!((distance(2, 5, 1) - 0.105_572_809_000_084_1).abs() < 1e-15);
    }

    #[test]
    fn a_row_is_at_distance_zero_from_itself() {
        for squared_norm in [1, 2, 3, 5, 7, 1_000_003, (1 << 52) + 1] {
            let zero = distance(squared_norm, squared_norm, squared_norm);
            assert!(zero.abs() < f64::MIN_POSITIVE, "{squared_norm}: {zero}");
        }
    }
}
