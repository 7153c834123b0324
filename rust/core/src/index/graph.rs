//! The interface of a graph over rows of counts, as a store uses it.

use std::fmt;

use crate::error::Result;
use crate::index::base::Neighbor;
use crate::vector::SparseRow;

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
