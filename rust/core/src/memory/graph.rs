//! The graph over the rows of one session, for searches that ask for a graph.
//!
//! The first such search builds it from the rows of the database. Later writes are added to it. When entries are
//! deleted, their rows are removed from it.

use hashbrown::HashMap;

use crate::error::Result;
use crate::id::EntryId;
use crate::index::{GraphIndex, NewGraph};
use crate::vector::SparseRow;

/// The approximate bytes of a row: some 50 counts, and its links.
const ROW_BYTES: usize = 640;

/// The rows of bucket counts, one for each entry, and the graph over them.
pub(super) struct Graph {
    kind: NewGraph,
    index: Box<dyn GraphIndex>,
    /// The entry of each row that was added.
    entries: Vec<EntryId>,
    /// The row of each entry that was not removed.
    rows: HashMap<EntryId, u32>,
}

impl Graph {
    /// An empty graph.
    pub(super) fn new(kind: NewGraph) -> Result<Self> {
        Ok(Self {
            kind,
            index: kind.make()?,
            entries: Vec::new(),
            rows: HashMap::new(),
        })
    }

    /// Its approximate bytes.
    pub(super) fn bytes(&self) -> usize {
        self.entries.len() * ROW_BYTES
    }

    /// The kind of the graph.
    pub(super) fn kind(&self) -> NewGraph {
        self.kind
    }

    /// Adds the row of an entry. An entry that the graph has already is skipped, because its text never changes.
    pub(super) fn add(&mut self, id: EntryId, row: &SparseRow) -> Result<()> {
        if !self.rows.contains_key(&id) {
            let added = self.index.add(row)?;
            self.entries.push(id);
            self.rows.insert(id, added);
        }
        Ok(())
    }

    /// Removes the rows of entries that are not in `left`, which ascends.
    pub(super) fn retain(&mut self, left: &[(EntryId, i64)]) -> Result<()> {
        let is_left = |id: EntryId| left.binary_search_by_key(&id, |&(id, _)| id).is_ok();
        let gone = self.rows.extract_if(|&id, _| !is_left(id));
        let gone: Vec<u32> = gone.map(|(_, row)| row).collect();
        self.index.remove(&gone)
    }

    /// Whether most of its rows were removed. A new graph takes less memory then.
    pub(super) fn is_mostly_gone(&self) -> bool {
        self.rows.len() < self.entries.len() / 2
    }

    /// The nearest entries that share a bucket with `row`, with their distances. It gives `limit` of them and some
    /// more, so that the caller can settle ties and the effect of age.
    pub(super) fn nearest(
        &self,
        row: &SparseRow,
        limit: usize,
    ) -> impl Iterator<Item = (EntryId, f64)> {
        let found = self.index.nearest(row, limit);
        found
            .into_iter()
            .filter(|neighbor| neighbor.distance < 1.0)
            .map(|neighbor| (self.entries[neighbor.id as usize], neighbor.distance))
    }
}
