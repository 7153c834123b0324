//! Links that are never pruned: they form a tree over all nodes, so every node can be reached.
//!
//! On the lowest layer some links have the mark [`TREE`]. Marked links come in pairs, one in each direction, and
//! all pairs form a tree: every node is connected with every other by marked links.
//!
//! - A new node is a new leaf: one pair, to a node that was there.
//! - Pruning never drops a marked link (Algorithm 4 takes them first).
//! - When a node is removed, its partners are paired with one another until they are connected again.
//!
//! A node has at most `M` pairs and `M_max0 = 2 M` places, so there is always room for a pair, and at least half of
//! the places are left to the heuristic. A partner with fewer than `M` pairs always exists: a tree has leaves, and
//! a leaf has one pair. In practice the partner is the nearest node, whose link the heuristic takes anyway.
//!
//! So a search of the lowest layer reaches all nodes, from whichever node it begins, if `ef` is large enough.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;

use crate::hnsw::graph::{Graph, TREE, target};
use crate::hnsw::search::Near;
use crate::hnsw::select::Selection;
use crate::space::base::Space;

/// The nodes that `id` is paired with.
pub(super) fn partners(graph: &Graph, id: u32) -> impl Iterator<Item = u32> {
    let links = graph.slots(id, 0).links();
    links.filter(|link| link & TREE != 0).map(target)
}

/// Whether a node may have one more pair.
fn has_room(graph: &Graph, id: u32) -> bool {
    partners(graph, id).count() < graph.params.m()
}

/// The partner of a new node: the nearest node with room, preferably one that is not removed.
pub(super) fn partner(graph: &Graph, found: &[Near]) -> Option<u32> {
    let with_room = || {
        found
            .iter()
            .map(|&(_, id)| id)
            .filter(|&id| has_room(graph, id))
    };
    let staying = with_room().find(|&id| !graph.is_hidden(id));
    staying
        .or_else(|| with_room().next())
        .or_else(|| found.first().and_then(|&(_, id)| roomy(graph, id)))
}

/// The first node with room in breadth-first order from `from` along the tree. Every tree has one.
pub(super) fn roomy(graph: &Graph, from: u32) -> Option<u32> {
    let (mut seen, mut waiting) = (HashSet::from([from]), VecDeque::from([from]));
    while let Some(id) = waiting.pop_front() {
        if has_room(graph, id) {
            return Some(id);
        }
        waiting.extend(partners(graph, id).filter(|&id| seen.insert(id)));
    }
    None
}

/// Pairs two nodes.
pub(super) fn pair<S: Space>(
    space: &S,
    graph: &Graph,
    selection: &mut Selection<S>,
    a: u32,
    b: u32,
) {
    link(space, graph, selection, a, b);
    link(space, graph, selection, b, a);
}

/// Sets a marked link: it replaces the unmarked link to the same node, or takes an empty place, or replaces the
/// farthest unmarked link.
fn link<S: Space>(space: &S, graph: &Graph, selection: &mut Selection<S>, from: u32, to: u32) {
    let slots = graph.slots(from, 0);
    if let Some(place) = slots.find(to) {
        place.store(to | TREE, Ordering::Relaxed);
        return;
    }
    let links: Vec<u32> = slots.links().collect();
    if links.len() >= graph.m_max(0) || !slots.put(to | TREE) {
        let unmarked: Vec<u32> = links.into_iter().filter(|link| link & TREE == 0).collect();
        let measured = selection.measure(space, from, &unmarked);
        let farthest = measured
            .last()
            .and_then(|&(_, link)| slots.find(target(link)));
        let place = farthest.expect("at most half of the links are marked");
        place.store(to | TREE, Ordering::Relaxed);
    }
}
