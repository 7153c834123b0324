//! The graph over the rows of one session, for searches that ask for one.
//!
//! It is made from the rows of the database when a search first asks for it, follows what is written, and
//! stays when entries leave: their rows are removed, not the graph.

use hashbrown::HashMap;

use crate::error::Result;
use crate::id::EntryId;
use crate::index::{GraphIndex, NewGraph};
use crate::vector::SparseRow;

/// Bytes of a row, about: some 50 counts, and its links.
const ROW_BYTES: usize = 640;

/// Rows of counts, each of an entry, and the graph over them.
pub(super) struct Graph {
    kind: NewGraph,
    index: Box<dyn GraphIndex>,
    /// The entry of each row that was added.
    entries: Vec<EntryId>,
    /// The row of each entry that is left.
    rows: HashMap<EntryId, u32>,
}

impl Graph {
    /// No rows yet.
    pub(super) fn new(kind: NewGraph) -> Result<Self> {
        Ok(Self {
            kind,
            index: kind.make()?,
            entries: Vec::new(),
            rows: HashMap::new(),
        })
    }

    /// Bytes that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.entries.len() * ROW_BYTES
    }

    /// What kind of graph it is.
    pub(super) fn kind(&self) -> NewGraph {
        self.kind
    }

    /// Adds the row of an entry; nothing where it has that one already. An entry's text never changes.
    pub(super) fn add(&mut self, id: EntryId, row: &SparseRow) -> Result<()> {
        if !self.rows.contains_key(&id) {
            let added = self.index.add(row)?;
            self.entries.push(id);
            self.rows.insert(id, added);
        }
        Ok(())
    }

    /// Removes the rows of entries that are not among `left`, which ascend.
    pub(super) fn keep(&mut self, left: &[(EntryId, i64)]) -> Result<()> {
        let is_left = |id: EntryId| left.binary_search_by_key(&id, |&(id, _)| id).is_ok();
        let gone = self.rows.extract_if(|&id, _| !is_left(id));
        let gone: Vec<u32> = gone.map(|(_, row)| row).collect();
        self.index.remove(&gone)
    }

    /// Whether most of its rows are of entries that left: one that is made anew takes less memory.
    pub(super) fn is_mostly_gone(&self) -> bool {
        self.rows.len() < self.entries.len() / 2
    }

    /// Entries that share a bucket with `row`, the nearest that the graph leads to, with their distances:
    /// `limit` of them, and more, so that ties and what age takes are the caller's to settle.
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
