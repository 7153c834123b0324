//! Nodes, layers and links: readers read them while one writer changes them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::hnsw::params::HnswParams;
use crate::segments::{Marks, Segments};

/// The value of a place without a link.
pub(super) const EMPTY: u32 = u32::MAX;
/// The mark of a link that may not be pruned; see [`tree`](super::tree).
pub(super) const TREE: u32 = 1 << 31;

/// Places for links in a cache line.
const SLOTS: usize = 16;

/// The node that a link leads to.
#[inline]
pub(super) fn target(link: u32) -> u32 {
    link & !TREE
}

/// A cache line of places for links. Each place changes atomically: a reader sees the old link or the new one.
#[repr(align(64))]
pub(super) struct Line([AtomicU32; SLOTS]);

impl Default for Line {
    fn default() -> Self {
        Self([const { AtomicU32::new(EMPTY) }; SLOTS])
    }
}

/// The places for the links of a node on a layer. Links may stand in any of them.
#[derive(Clone, Copy)]
pub(super) struct Slots<'a>(pub(super) &'a [Line]);

impl<'a> Slots<'a> {
    /// How many places there are.
    #[inline]
    pub(super) fn len(self) -> usize {
        self.0.len() * SLOTS
    }

    /// Every place, empty or not, by cache lines.
    #[inline]
    pub(super) fn lines(self) -> impl Iterator<Item = &'a [AtomicU32; SLOTS]> {
        self.0.iter().map(|line| &line.0)
    }

    /// Every place, empty or not.
    #[inline]
    pub(super) fn places(self) -> impl Iterator<Item = &'a AtomicU32> {
        self.lines().flatten()
    }

    /// The links, with their marks.
    #[inline]
    pub(super) fn links(self) -> impl Iterator<Item = u32> {
        let loaded = self.places().map(|place| place.load(Ordering::Relaxed));
        loaded.filter(|&link| link != EMPTY)
    }

    /// Sets the links to exactly `links`. Links that are there already keep their places, so that no reader misses
    /// them.
    pub(super) fn rewrite(self, links: &[u32]) {
        let mut rest: Vec<u32> = links.to_vec();
        let mut free = Vec::new();
        for place in self.places() {
            let link = place.load(Ordering::Relaxed);
            match rest
                .iter()
                .position(|&wanted| link != EMPTY && target(wanted) == target(link))
            {
                Some(found) => place.store(rest.swap_remove(found), Ordering::Relaxed),
                None => free.push(place),
            }
        }
        debug_assert!(rest.len() <= free.len(), "more links than places");
        let rest = rest.into_iter().chain(std::iter::repeat(EMPTY));
        for (place, link) in free.into_iter().zip(rest) {
            place.store(link, Ordering::Relaxed);
        }
    }

    /// Puts a link into an empty place; false if there is none.
    pub(super) fn put(self, link: u32) -> bool {
        let empty = self
            .places()
            .find(|place| place.load(Ordering::Relaxed) == EMPTY);
        empty
            .inspect(|place| place.store(link, Ordering::Relaxed))
            .is_some()
    }

    /// The place of the link to `node`.
    pub(super) fn find(self, node: u32) -> Option<&'a AtomicU32> {
        self.places().find(|place| {
            let link = place.load(Ordering::Relaxed);
            link != EMPTY && target(link) == node
        })
    }
}

/// The graph. Only the holder of the writer's lock changes it; readers may read at any time.
pub(super) struct Graph {
    pub(super) params: HnswParams,
    lowest: Segments<Line>,
    upper: Segments<Line>,
    /// For each node, the start of its upper layers in `upper`.
    starts: Segments<AtomicU32>,
    /// The number of nodes that readers may read; those in `hidden` are not answers.
    published: AtomicU32,
    /// The entry point in the low half, its layer in the high half; all ones if there is none.
    entry: AtomicU64,
    /// Rows that are never answers: removed rows, and rows without a direction.
    pub(super) hidden: Marks,
    /// Removed nodes that are still linked.
    pub(super) lingering: AtomicU32,
}

const NOWHERE: u64 = u64::MAX;

impl Graph {
    pub(super) fn new(params: HnswParams) -> Self {
        Self {
            params,
            lowest: Segments::new(params.m_max0().div_ceil(SLOTS)),
            upper: Segments::new(params.m().div_ceil(SLOTS)),
            starts: Segments::new(1),
            published: AtomicU32::new(0),
            entry: AtomicU64::new(NOWHERE),
            hidden: Marks::new(),
            lingering: AtomicU32::new(0),
        }
    }

    /// Makes room for node `id`, whose upper layers begin at `start`.
    pub(super) fn grow(&self, id: u32, start: u32) {
        self.lowest.grow(id + 1);
        self.starts.grow(id + 1);
        self.hidden.grow(id + 1);
        self.starts.get(id)[0].store(start, Ordering::Relaxed);
        let layers = u32::try_from(self.params.layer(id)).unwrap_or(0);
        self.upper.grow(start + layers);
    }

    /// Makes the nodes below `count` visible to readers.
    pub(super) fn publish(&self, count: u32) {
        self.published.store(count, Ordering::Release);
    }

    /// Nodes below this number may be read.
    #[inline]
    pub(super) fn published(&self) -> u32 {
        self.published.load(Ordering::Acquire)
    }

    /// The places of a node on a layer that it has.
    #[inline]
    pub(super) fn slots(&self, id: u32, layer: usize) -> Slots<'_> {
        if layer == 0 {
            return Slots(self.lowest.get(id));
        }
        let start = self.starts.get(id)[0].load(Ordering::Relaxed);
        let above = u32::try_from(layer - 1).unwrap_or(0);
        Slots(self.upper.get(start + above))
    }

    /// The most links of a node on a layer.
    pub(super) fn m_max(&self, layer: usize) -> usize {
        if layer == 0 {
            self.params.m_max0()
        } else {
            self.params.m()
        }
    }

    /// The start of a search: a node of the highest layer, and that layer.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    pub(super) fn entry(&self) -> Option<(u32, usize)> {
        match self.entry.load(Ordering::Acquire) {
            NOWHERE => None,
            entry => Some((entry as u32, (entry >> 32) as usize)),
        }
    }

    pub(super) fn enter_at(&self, entry: Option<u32>) {
        let entry = entry.map_or(NOWHERE, |id| {
            (self.params.layer(id) as u64) << 32 | u64::from(id)
        });
        self.entry.store(entry, Ordering::Release);
    }

    /// Whether a node is never an answer.
    #[inline]
    pub(super) fn is_hidden(&self, id: u32) -> bool {
        self.hidden.contains(id)
    }

    /// Whether removed nodes are still linked, so that a search has to check for hidden nodes.
    #[inline]
    pub(super) fn has_lingering(&self) -> bool {
        self.lingering.load(Ordering::Relaxed) > 0
    }
}
