//! Algorithms 2 and 5: finds the nearest nodes on a layer, and the way down to it.

use crate::hnsw::graph::{Graph, target};
use crate::hnsw::pool::Pool;
use crate::hnsw::visited::Visited;
use crate::space::base::Space;
use siltstone_core::simd::prefetch::prefetch;

/// The number of nodes of a layer from which the search of the layer below begins.
const BEGINNINGS: usize = 16;

/// A node and its quick distance.
pub(super) type Near = (f32, u32);

/// The buffers of a search, and its query; each search has its own.
pub(super) struct Scratch<S: Space> {
    pub(super) query: S::Query,
    pub(super) pool: Pool,
    visited: Visited,
    ids: Vec<u32>,
    distances: Vec<f32>,
}

impl<S: Space> Scratch<S> {
    pub(super) fn new(space: &S) -> Self {
        Self {
            query: space.blank(),
            pool: Pool::default(),
            visited: Visited::default(),
            ids: Vec::new(),
            distances: Vec::new(),
        }
    }

    /// Collects the `ef` nearest nodes that can be reached in the pool. This is Algorithm 5 without its last step,
    /// the choice of the best, which the caller does. Only nodes below `count` are read; `entry` is one of them.
    pub(super) fn search(
        &mut self,
        space: &S,
        graph: &Graph,
        entry: (u32, usize),
        count: u32,
        ef: usize,
    ) {
        let starts = self.approach(space, graph, entry, 0, count);
        self.search_layer(space, graph, &starts, ef, 0, count);
    }

    /// The nodes from which to search `layer`: the search goes down from the entry point to the nearest node of
    /// each layer, as in the paper, but on the layer just above `layer` it takes the nearest few.
    ///
    /// A single node leads into one cluster, and if that has `ef` nodes or more, the search never leaves it.
    pub(super) fn approach(
        &mut self,
        space: &S,
        graph: &Graph,
        (entry, top): (u32, usize),
        layer: usize,
        count: u32,
    ) -> Vec<Near> {
        space.distances(&mut self.query, &[entry], &mut self.distances);
        let mut nearest = (self.distances[0], entry);
        for layer in (layer + 2..=top).rev() {
            nearest = self.climb(space, graph, nearest, layer, count);
        }
        if layer < top {
            self.search_layer(space, graph, &[nearest], BEGINNINGS, layer + 1, count);
            return self.pool.found().collect();
        }
        vec![nearest]
    }

    /// Algorithm 2 with `ef = 1`: moves to a nearer neighbour as long as there is one.
    fn climb(&mut self, space: &S, graph: &Graph, start: Near, layer: usize, count: u32) -> Near {
        let mut nearest = start;
        loop {
            let links = graph.slots(nearest.1, layer).links().map(target);
            self.ids.clear();
            self.ids.extend(links.filter(|&id| id < count));
            space.distances(&mut self.query, &self.ids, &mut self.distances);
            let found = self.distances.iter().copied().zip(self.ids.iter().copied());
            let best = found.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            match best {
                // Ties are broken by id, so that the loop ends.
                Some(best) if (best.0, best.1) < nearest => nearest = best,
                _ => return nearest,
            }
        }
    }

    /// Algorithm 2: collects the `ef` nearest nodes of a layer in the pool.
    pub(super) fn search_layer(
        &mut self,
        space: &S,
        graph: &Graph,
        starts: &[Near],
        ef: usize,
        layer: usize,
        count: u32,
    ) {
        let lingering = graph.has_lingering();
        let is_gone = |id: u32| lingering && graph.is_hidden(id);
        self.visited.reset(count);
        self.pool.reset(ef);
        for &(distance, id) in starts {
            self.visited.insert(id);
            self.pool.offer(id, distance, is_gone);
        }
        while let Some(node) = self.pool.look() {
            let ids = self.visited.take_new(graph.slots(node, layer));
            space.distances(&mut self.query, ids, &mut self.distances);
            let mut limit = self.pool.limit();
            for (&id, &distance) in ids.iter().zip(&self.distances) {
                if distance <= limit {
                    // A node that is near enough is most likely expanded later.
                    prefetch(graph.slots(id, layer).0);
                    self.pool.offer(id, distance, is_gone);
                    limit = self.pool.limit();
                }
            }
        }
    }
}
