//! Algorithm 1: a new node finds its neighbours and links to them, and they link back.

use crate::hnsw::graph::{Graph, TREE, target};
use crate::hnsw::search::{Near, Scratch};
use crate::hnsw::select::Selection;
use crate::hnsw::tree;
use crate::space::base::Space;

/// The state of the single writer.
pub(super) struct Writer<S: Space> {
    pub(super) rows: S::Writer,
    pub(super) scratch: Scratch<S>,
    pub(super) selection: Selection<S>,
    /// The number of upper layers in use.
    pub(super) uppers: u32,
    /// Removed nodes that are still linked.
    pub(super) lingering: Vec<u32>,
}

impl<S: Space> Writer<S> {
    pub(super) fn new(space: &S, rows: S::Writer) -> Self {
        Self {
            rows,
            scratch: Scratch::new(space),
            selection: Selection::new(space),
            uppers: 0,
            lingering: Vec::new(),
        }
    }

    /// Makes room for row `id` in the graph.
    pub(super) fn make_room(&mut self, graph: &Graph, id: u32) {
        graph.grow(id, self.uppers);
        self.uppers += u32::try_from(graph.params.layer(id)).unwrap_or(0);
    }

    /// Links row `id`, for which there is room, and publishes it; or returns the node of an equal row.
    pub(super) fn insert(&mut self, space: &S, graph: &Graph, id: u32) -> Option<u32> {
        let layer = graph.params.layer(id);
        let Some((entry, top)) = graph.entry() else {
            graph.publish(id + 1);
            graph.enter_at(Some(id));
            return None;
        };
        space.load(id, &mut self.scratch.query);
        let lowest = layer.min(top);
        let mut starts = self
            .scratch
            .approach(space, graph, (entry, top), lowest, id);
        let mut chosen = Vec::with_capacity(lowest + 1);
        for layer in (0..=lowest).rev() {
            let links;
            (starts, links) = self.neighbors(space, graph, &starts, layer, id);
            let equal = equal(space, graph, &starts, id);
            if equal.is_some() {
                return equal;
            }
            chosen.push((layer, links));
        }
        for (layer, links) in &chosen {
            graph.slots(id, *layer).rewrite(links);
        }
        graph.publish(id + 1);
        for (layer, links) in chosen {
            for link in links {
                self.link_back(space, graph, target(link), (link & TREE) | id, layer);
            }
        }
        if layer > top {
            graph.enter_at(Some(id));
        }
        None
    }

    /// Searches `layer` for the new node `id`. Returns the nodes found, where the search of the layer below begins,
    /// and the links of the new node.
    fn neighbors(
        &mut self,
        space: &S,
        graph: &Graph,
        starts: &[Near],
        layer: usize,
        id: u32,
    ) -> (Vec<Near>, Vec<u32>) {
        let params = graph.params;
        let ef = params.ef_construction();
        self.scratch
            .search_layer(space, graph, starts, ef, layer, id);
        let found: Vec<Near> = self.scratch.pool.found().collect();
        let lingering = graph.has_lingering();
        let is_candidate = |near: &&Near| !(lingering && graph.is_hidden(near.1));
        let candidates: Vec<Near> = found
            .iter()
            .filter(is_candidate)
            .take(ef)
            .copied()
            .collect();
        let mut links = self.selection.select(space, &candidates, params.m());
        if layer == 0 {
            let partner = tree::partner(graph, &found).expect("a tree has leaves, which have room");
            links.retain(|&link| link != partner);
            links.push(partner | TREE);
        }
        (found, links)
    }

    /// Adds a link to `node`; if it then has too many, its links are selected anew.
    fn link_back(&mut self, space: &S, graph: &Graph, node: u32, link: u32, layer: usize) {
        let (slots, most) = (graph.slots(node, layer), graph.m_max(layer));
        let mut links: Vec<u32> = slots.links().collect();
        if links.len() < most && slots.put(link) {
            return;
        }
        links.push(link);
        let candidates = self.selection.measure(space, node, &links);
        slots.rewrite(&self.selection.select(space, &candidates, most));
    }
}

/// More than the quick distance of equal rows.
const EQUAL: f32 = 1e-6;

/// The node among `found` of a row that is equal to row `id`.
fn equal<S: Space>(space: &S, graph: &Graph, found: &[Near], id: u32) -> Option<u32> {
    let mut near = found.iter().take_while(|near| near.0 < EQUAL).peekable();
    near.peek()?;
    let (mut own, mut other) = (Vec::new(), Vec::new());
    space.encode(id, &mut own);
    let found = near.find(|near| {
        other.clear();
        space.encode(near.1, &mut other);
        own == other && !graph.is_hidden(near.1)
    });
    found.map(|near| near.1)
}
