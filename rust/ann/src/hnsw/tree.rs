//! Links that may not be pruned, a tree over all nodes: so no node is ever out of reach.
//!
//! On the lowest layer some links bear a mark, [`TREE`]. Marked links come in pairs, one each way, and
//! together they are a tree: every node is connected with every other by marked links alone.
//!
//! - A new node is a new leaf: one pair, to a node that was there.
//! - Pruning never drops a marked link (Algorithm 4 takes them first).
//! - Where a node leaves, those it was paired with are paired with one another, until they hang together.
//!
//! A node has at most `M` pairs and `M_max0 = 2 M` places, so there is always room, and at least half of
//! the places are left to the heuristic. A partner with less than `M` pairs is always found: a tree has
//! leaves, and a leaf has one pair. In practice the partner is the nearest node, a link that the heuristic
//! takes anyway.
//!
//! So from whichever node a search begins on the lowest layer, it reaches all of them if `ef` lets it.

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

/// The node that a new one is paired with: the nearest that has room, those that will leave last.
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

/// The first node with room on the way out from `from` along pairs. There is one in every tree.
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

/// A marked link: in the place of one without a mark, else in an empty place, else in that of the farthest
/// link that has no mark.
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
