//! Removes nodes from the graph: nodes that linked to a removed one get links to its neighbours.
//!
//! A removed row is never found from then on, but its node stays linked, as a way to others. When there are many
//! such nodes, they are unlinked together: first the tree of [`tree`](super::tree) is mended, node by node; then
//! every list with a link to one of them gets new links, selected from its other links and from the neighbours of
//! the removed nodes (as in `FreshDiskANN`, Singh et al. 2021, with Algorithm 4 of HNSW for the selection).

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use crate::hnsw::graph::{EMPTY, Graph, TREE, target};
use crate::hnsw::insert::Writer;
use crate::hnsw::tree;
use crate::space::base::Space;

/// Up to so many removed nodes may always stay linked.
const FEW: usize = 64;
/// One removed node may stay linked for so many others.
const SHARE: usize = 8;

impl<S: Space> Writer<S> {
    /// Hides rows from answers. They must be linked, and not hidden yet.
    pub(super) fn remove(&mut self, space: &S, graph: &Graph, ids: &[u32], staying: usize) {
        for &id in ids {
            graph.hidden.insert(id);
        }
        self.lingering.extend_from_slice(ids);
        self.tell(graph);
        if staying == 0 || self.lingering.len() > FEW.max(staying / SHARE) {
            self.unlink(space, graph);
        }
    }

    /// Unlinks all removed nodes.
    pub(super) fn unlink(&mut self, space: &S, graph: &Graph) {
        if self.lingering.is_empty() {
            return;
        }
        let leaving = std::mem::take(&mut self.lingering);
        let left: HashSet<u32> = leaving.iter().copied().collect();
        for &id in &leaving {
            self.leave_tree(space, graph, id);
        }
        let staying = || (0..graph.published()).filter(|&id| !graph.is_hidden(id));
        if graph.entry().is_some_and(|(id, _)| left.contains(&id)) {
            // The first node of the highest layer.
            let layer = |id: u32| graph.params.layer(id);
            graph.enter_at(staying().max_by_key(|&id| (layer(id), std::cmp::Reverse(id))));
        }
        for id in staying() {
            for layer in 0..=graph.params.layer(id) {
                self.mend(space, graph, id, layer, &left);
            }
        }
        self.tell(graph);
    }

    fn tell(&self, graph: &Graph) {
        let count = u32::try_from(self.lingering.len()).unwrap_or(u32::MAX);
        graph.lingering.store(count, Ordering::Relaxed);
    }

    /// Takes a node out of the tree of marked links; its partners are paired with one another.
    fn leave_tree(&mut self, space: &S, graph: &Graph, id: u32) {
        let partners: Vec<u32> = tree::partners(graph, id).collect();
        for &partner in &partners {
            if let Some(place) = graph.slots(partner, 0).find(id) {
                place.store(EMPTY, Ordering::Relaxed);
            }
            // The removed node keeps an unmarked link, for searches that are under way.
            if let Some(place) = graph.slots(id, 0).find(partner) {
                place.store(partner, Ordering::Relaxed);
            }
        }
        // Each partner lost a pair, so it has room for one; the growing part of the tree always has a node with
        // room.
        if let Some((&first, others)) = partners.split_first() {
            for &other in others {
                let nearest =
                    tree::roomy(graph, first).expect("a tree has leaves, which have room");
                tree::pair(space, graph, &mut self.selection, nearest, other);
            }
        }
    }

    /// Replaces a node's links to removed nodes: it gets at most as many new links, from the neighbours of the
    /// removed nodes.
    ///
    /// The other links are kept as they are. Selecting all anew would drop links that no pruning has dropped yet,
    /// and with them paths between clusters.
    fn mend(&mut self, space: &S, graph: &Graph, id: u32, layer: usize, left: &HashSet<u32>) {
        let slots = graph.slots(id, layer);
        let (lost, mut links): (Vec<u32>, Vec<u32>) = slots
            .links()
            .partition(|&link| left.contains(&target(link)));
        if lost.is_empty() {
            return;
        }
        let mut known: HashSet<u32> = links.iter().map(|&link| target(link)).collect();
        known.insert(id);
        let mut candidates = Vec::new();
        for &link in &lost {
            debug_assert_eq!(link & TREE, 0, "it left the tree");
            let beyond = graph.slots(target(link), layer).links().map(target);
            let staying = beyond.filter(|&node| !graph.is_hidden(node));
            candidates.extend(staying.filter(|&node| known.insert(node)));
        }
        let candidates = self.selection.measure(space, id, &candidates);
        let most = graph.m_max(layer).min(links.len() + lost.len());
        self.selection.extend(space, &candidates, most, &mut links);
        slots.rewrite(&links);
    }
}
