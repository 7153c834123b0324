//! The index: rows and the graph over them, with one writer at a time and any number of readers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::hnsw::graph::Graph;
use crate::hnsw::insert::Writer;
use crate::hnsw::params::HnswParams;
use crate::hnsw::search::{Near, Scratch};
use crate::plan::Plan;
use crate::rescore::nearest;
use crate::scan::scan;
use crate::segments::Marks;
use crate::space::base::{Space, unknown};
use crate::space::scale::check_dimension;
use siltstone_core::Result;
use siltstone_core::index::Neighbor;

/// The number of candidates whose exact distances are computed: `RESCORED` for each row that is asked for, and at
/// least `LEAST_RESCORED`. In measurements, more of them did not find more.
const RESCORED: usize = 3;
const LEAST_RESCORED: usize = 30;

/// An HNSW graph over rows of one kind. Ids are serial numbers from 0, and are never reused.
///
/// A search does not wait for writers: it searches the rows that were there when it began, while others are added
/// and removed. Writers wait for one another.
///
/// ```
/// use siltstone_ann::space::Int8;
/// use siltstone_ann::{Hnsw, HnswParams};
///
/// let index = Hnsw::<Int8>::new(2, HnswParams::default())?;
/// assert_eq!(index.add([&[1.0, 0.0][..], &[0.0, 1.0], &[3.0, 0.1]])?, 0..3);
/// let found = index.search(&[2.0, 0.0], 2, None, None);
/// assert_eq!(found.iter().map(|neighbor| neighbor.id).collect::<Vec<_>>(), [0, 2]);
/// assert!(found[0].distance.abs() < f64::EPSILON);
/// # Ok::<(), siltstone_core::Error>(())
/// ```
pub struct Hnsw<S: Space> {
    pub(super) dimension: usize,
    pub(super) space: S,
    pub(super) graph: Graph,
    pub(super) writer: Mutex<Writer<S>>,
    /// Rows that were removed.
    pub(super) removed: Marks,
    /// Rows that no search finds: removed ones, and rows of zeros.
    pub(super) silent: Marks,
    pub(super) twins: RwLock<Twins>,
    pub(super) remaining: AtomicU32,
    /// Buffers of finished searches, reused by the next ones.
    spare: Mutex<Vec<Scratch<S>>>,
}

/// Rows with equal numbers: one of them has the node of all. Many nodes at one place would keep searches from all
/// others.
#[derive(Default)]
pub(super) struct Twins {
    /// The node of each row that has none of its own.
    pub(super) of: HashMap<u32, u32>,
    /// The rows of each node that has or had several, ascending, without removed ones.
    pub(super) of_node: HashMap<u32, Vec<u32>>,
}

impl Twins {
    fn add(&mut self, node: u32, id: u32) {
        self.of.insert(id, node);
        self.of_node
            .entry(node)
            .or_insert_with(|| vec![node])
            .push(id);
    }

    /// The rows of a node, ascending.
    fn rows(&self, node: u32) -> impl Iterator<Item = u32> {
        let several = self.of_node.get(&node);
        let one = several.is_none().then_some(node);
        one.into_iter()
            .chain(several.into_iter().flatten().copied())
    }

    /// Removes rows, which ascend; returns the nodes without a row.
    fn remove(&mut self, ids: &[u32]) -> Vec<u32> {
        let node = |id: &u32| self.of.remove(id).unwrap_or(*id);
        let mut nodes: Vec<u32> = ids.iter().map(node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|node| {
            let Some(rows) = self.of_node.get_mut(node) else {
                return true;
            };
            rows.retain(|row| ids.binary_search(row).is_err());
            let is_empty = rows.is_empty();
            if is_empty {
                self.of_node.remove(node);
            }
            is_empty
        });
        nodes
    }
}

/// The figures of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Rows that were added, removed ones included.
    pub rows: usize,
    /// Rows that were added and not removed.
    pub remaining: usize,
    /// Removed rows whose nodes are still linked.
    pub lingering: usize,
    /// Layers of the graph; 0 for an empty one.
    pub layers: usize,
    /// The plan of a query that does not choose one.
    pub plan: Plan,
}

impl<S: Space> Hnsw<S> {
    /// An empty index of rows of `dimension` numbers.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidArgument` for a dimension out of 1 to 65,536.
    pub fn new(dimension: usize, params: HnswParams) -> Result<Self> {
        check_dimension(dimension)?;
        let (space, rows) = S::new(dimension);
        Ok(Self {
            dimension,
            writer: Mutex::new(Writer::new(&space, rows)),
            space,
            graph: Graph::new(params),
            removed: Marks::new(),
            silent: Marks::new(),
            twins: RwLock::default(),
            remaining: AtomicU32::new(0),
            spare: Mutex::new(Vec::new()),
        })
    }

    /// The length of a row, in numbers.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The parameters of the graph.
    #[must_use]
    pub fn params(&self) -> HnswParams {
        self.graph.params
    }

    /// Adds rows, one after another, and returns their ids. Readers find each row as soon as it is linked.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidArgument` if there is no room for more rows; the rows before the failing one are added.
    pub fn add<'a>(&self, items: impl IntoIterator<Item = &'a S::Item>) -> Result<Range<u32>>
    where
        S::Item: 'a,
    {
        let mut writer = self.writer.lock();
        let first = self.graph.published();
        for item in items {
            let (id, has_direction) = self.push(&mut writer, item)?;
            if has_direction && let Some(node) = writer.insert(&self.space, &self.graph, id) {
                self.join(node, id);
            }
            self.graph.publish(id + 1);
            self.remaining.fetch_add(1, Ordering::Relaxed);
        }
        Ok(first..self.graph.published())
    }

    /// Adds a row without linking it.
    pub(super) fn push(&self, writer: &mut Writer<S>, item: &S::Item) -> Result<(u32, bool)> {
        let (id, has_direction) = self.space.push(&mut writer.rows, item)?;
        self.removed.grow(id + 1);
        self.silent.grow(id + 1);
        writer.make_room(&self.graph, id);
        if !has_direction {
            self.graph.hidden.insert(id);
            self.silent.insert(id);
        }
        Ok((id, has_direction))
    }

    /// Adds a row to the node of an equal one.
    pub(super) fn join(&self, node: u32, id: u32) {
        self.graph.hidden.insert(id);
        self.twins.write().add(node, id);
    }

    /// Removes all of the rows, or none if there is an error. They are not found from then on; their ids are not
    /// reused.
    ///
    /// # Errors
    ///
    /// `ErrorKind::EntryNotFound` for an id that was never returned, or was removed before.
    pub fn remove(&self, ids: &[u32]) -> Result<()> {
        let mut writer = self.writer.lock();
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let count = self.graph.published();
        if let Some(&id) = ids
            .iter()
            .find(|&&id| id >= count || self.removed.contains(id))
        {
            return Err(unknown(id));
        }
        for &id in &ids {
            self.removed.insert(id);
            self.silent.insert(id);
        }
        let removed = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        self.remaining.fetch_sub(removed, Ordering::Relaxed);
        let nodes = {
            let mut twins = self.twins.write();
            // Rows of zeros were never linked.
            ids.retain(|id| !self.graph.is_hidden(*id) || twins.of.contains_key(id));
            twins.remove(&ids)
        };
        writer.remove(&self.space, &self.graph, &nodes, self.len());
        Ok(())
    }

    /// How many rows were added and not removed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.remaining.load(Ordering::Relaxed) as usize
    }

    /// Whether there are no such rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The plan of a query that does not choose one.
    #[must_use]
    pub fn plan(&self) -> Plan {
        Plan::of(self.graph.published() as usize, self.dimension)
    }

    /// The `k` rows nearest to `item`, the nearest first, ties by id.
    ///
    /// There are fewer than `k` only if the index has fewer rows with a direction; rows of zeros are never found.
    /// `ef` is raised to at least `k`; if it is at least the number of rows, the answer is that of a scan.
    #[must_use]
    pub fn search(
        &self,
        item: &S::Item,
        k: usize,
        ef: Option<usize>,
        plan: Option<Plan>,
    ) -> Vec<Neighbor> {
        // The order matters: a node is published before it becomes the entry point.
        let (entry, count) = (self.graph.entry(), self.graph.published());
        let spare = self.spare.lock().pop();
        let mut scratch = spare.unwrap_or_else(|| Scratch::new(&self.space));
        let mut found = Vec::new();
        if k > 0 && self.space.ask(item, &mut scratch.query) {
            match (plan.unwrap_or_else(|| self.plan()), entry) {
                (Plan::Scan, _) => {
                    found = scan(&self.space, &self.silent, count, &mut scratch.query, k);
                }
                (Plan::Graph, Some(entry)) => {
                    let ef = ef.unwrap_or(self.graph.params.ef_search()).max(k);
                    scratch.search(&self.space, &self.graph, entry, count, ef);
                    // If `ef` has room for all rows, all are measured exactly, as in a scan.
                    let most = if ef >= count as usize {
                        ef
                    } else {
                        k.saturating_mul(RESCORED).max(LEAST_RESCORED)
                    };
                    let candidates = scratch.pool.found();
                    let candidates = candidates
                        .filter(|&(_, id)| !self.graph.is_hidden(id))
                        .take(most);
                    let twins = self.twins.read();
                    let first = |(near, id): Near| Some((near, twins.rows(id).next()?));
                    let candidates: Vec<Near> = candidates.filter_map(first).collect();
                    found = nearest(&self.space, &scratch.query, &candidates, k);
                    if !twins.of.is_empty() {
                        let all = found.iter().flat_map(|&near| {
                            let node = twins.of.get(&near.id).copied().unwrap_or(near.id);
                            let rows = twins.rows(node).filter(|&id| id < count).take(k);
                            rows.map(move |id| Neighbor { id, ..near })
                        });
                        found = all.collect();
                        found.sort_unstable_by(|one, other| other.cmp(one));
                        found.truncate(k);
                    }
                }
                (Plan::Graph, None) => {}
            }
        }
        self.spare.lock().push(scratch);
        found
    }

    /// The figures of the index.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures {
            rows: self.graph.published() as usize,
            remaining: self.len(),
            lingering: self.graph.lingering.load(Ordering::Relaxed) as usize,
            layers: self.graph.entry().map_or(0, |(_, top)| top + 1),
            plan: self.plan(),
        }
    }
}
