//! Nodes, layers and links, as readers see them while one writer changes them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::hnsw::params::HnswParams;
use crate::segments::{Marks, Segments};

/// A place for a link without one.
pub(super) const EMPTY: u32 = u32::MAX;
/// The mark of a link that may not be pruned; see [`tree`](super::tree).
pub(super) const TREE: u32 = 1 << 31;

/// Places for links in a line of the cache.
const SLOTS: usize = 16;

/// The node that a link leads to.
#[inline]
pub(super) fn target(link: u32) -> u32 {
    link & !TREE
}

/// A line of places for links, each changed by itself: a reader sees the old link or the new one.
#[repr(align(64))]
pub(super) struct Line([AtomicU32; SLOTS]);

impl Default for Line {
    fn default() -> Self {
        Self([const { AtomicU32::new(EMPTY) }; SLOTS])
    }
}

/// The places for the links of a node on a layer. Links stand anywhere among them.
#[derive(Clone, Copy)]
pub(super) struct Slots<'a>(pub(super) &'a [Line]);

impl<'a> Slots<'a> {
    /// How many places there are.
    #[inline]
    pub(super) fn len(self) -> usize {
        self.0.len() * SLOTS
    }

    /// Every place, empty or not, by lines of the cache.
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

    /// Has exactly `links`. Those that are there already keep their places, so that no reader misses them.
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

    /// Puts a link into a place that is empty; says whether there was one.
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

/// The graph. Whoever holds the writer's lock changes it; readers look at it meanwhile.
pub(super) struct Graph {
    pub(super) params: HnswParams,
    lowest: Segments<Line>,
    upper: Segments<Line>,
    /// Where the upper layers of a node begin among `upper`.
    starts: Segments<AtomicU32>,
    /// Nodes that readers may look at: all rows below this, but those in `hidden`.
    published: AtomicU32,
    /// The entry point, and its layer above; all ones where there is none.
    entry: AtomicU64,
    /// Rows that are no answers: removed, or without a direction.
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

    /// Lets readers look at the nodes below `count`.
    pub(super) fn publish(&self, count: u32) {
        self.published.store(count, Ordering::Release);
    }

    /// Nodes below this may be looked at.
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

    /// Links of a node on a layer, at most.
    pub(super) fn m_max(&self, layer: usize) -> usize {
        if layer == 0 {
            self.params.m_max0()
        } else {
            self.params.m()
        }
    }

    /// Where a search begins: a node of the highest layer, and that layer.
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

    /// Whether a node is no answer.
    #[inline]
    pub(super) fn is_hidden(&self, id: u32) -> bool {
        self.hidden.contains(id)
    }

    /// Whether a search has to ask which nodes are hidden.
    #[inline]
    pub(super) fn has_lingering(&self) -> bool {
        self.lingering.load(Ordering::Relaxed) > 0
    }
}
