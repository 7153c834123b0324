//! Algorithm 4: a candidate becomes a link if it is nearer to the node than to the links before it.

use crate::hnsw::graph::{TREE, target};
use crate::hnsw::search::Near;
use crate::space::base::Space;

/// Candidates in the first group; each further group is twice as large.
const FIRST_GROUP: usize = 32;
/// Selected nodes that a candidate is compared with at once.
const COMPARED: usize = 8;

/// The buffers of a selection.
pub(super) struct Selection<S: Space> {
    query: S::Query,
    distances: Vec<f32>,
    ids: Vec<u32>,
    /// Candidates of a group that no selected node is nearer to.
    open: Vec<Near>,
}

impl<S: Space> Selection<S> {
    pub(super) fn new(space: &S) -> Self {
        Self {
            query: space.blank(),
            distances: Vec::new(),
            ids: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Selects at most `m` of `candidates`, which are links by ascending distance from their node.
    ///
    /// Links of the tree are always taken. Another candidate is left out if a taken link is nearer to it than the
    /// node is: that link leads to it. `extendCandidates` and `keepPrunedConnections` of the paper are not used:
    /// they cost more than they find.
    ///
    /// The paper compares each candidate with all taken links. Here each taken link is compared with the candidates
    /// that are still open, one group at a time: the selection is the same, with one query for many distances.
    /// Groups grow, since the links may be full long before the last candidate.
    pub(super) fn select(&mut self, space: &S, candidates: &[Near], m: usize) -> Vec<u32> {
        let is_of_tree = |near: &&Near| near.1 & TREE != 0;
        let mut of_tree = candidates.iter().filter(is_of_tree).count();
        let mut selected: Vec<u32> = Vec::with_capacity(m);
        let (mut rest, mut size) = (candidates, FIRST_GROUP);
        while selected.len() < m && !rest.is_empty() {
            let (group, others) = rest.split_at(size.min(rest.len()));
            (rest, size) = (others, 2 * size);
            self.open.clear();
            self.open.extend_from_slice(group);
            for &link in &selected {
                if selected.len() + of_tree >= m {
                    break; // links of the tree alone are taken from here on
                }
                self.close(space, 0, target(link));
            }
            let mut place = 0;
            while let Some(&(_, link)) = self.open.get(place).filter(|_| selected.len() < m) {
                place += 1;
                if link & TREE != 0 {
                    of_tree -= 1;
                } else if selected.len() + of_tree >= m {
                    continue;
                }
                selected.push(link);
                if selected.len() + of_tree < m {
                    self.close(space, place, target(link));
                }
            }
        }
        selected
    }

    /// Removes the open candidates from `first` on that are nearer to `taken` than to the node, except links of the
    /// tree.
    fn close(&mut self, space: &S, first: usize, taken: u32) {
        let Some(open) = self.open.get(first..).filter(|open| !open.is_empty()) else {
            return;
        };
        space.load(taken, &mut self.query);
        self.ids.clear();
        self.ids.extend(open.iter().map(|&(_, link)| target(link)));
        space.distances(&mut self.query, &self.ids, &mut self.distances);
        let mut kept = first;
        for (place, &other) in (first..).zip(&self.distances) {
            let near = self.open[place];
            self.open[kept] = near;
            kept += usize::from(near.1 & TREE != 0 || other >= near.0);
        }
        self.open.truncate(kept);
    }

    /// Adds candidates (nodes by ascending distance) to `links` until there are `most`: first those that no link
    /// leads to, then the nearest of the others.
    pub(super) fn extend(
        &mut self,
        space: &S,
        candidates: &[Near],
        most: usize,
        links: &mut Vec<u32>,
    ) {
        self.ids.clear();
        self.ids.extend(links.iter().map(|&link| target(link)));
        let mut rest = Vec::new();
        for &(distance, node) in candidates {
            if links.len() >= most {
                return;
            }
            if self.is_led_to(space, node, distance) {
                rest.push(node);
            } else {
                links.push(node);
                self.ids.push(node);
            }
        }
        let room = most.saturating_sub(links.len());
        links.extend(rest.into_iter().take(room));
    }

    /// Whether a selected node is nearer to `id` than `distance`.
    fn is_led_to(&mut self, space: &S, id: u32, distance: f32) -> bool {
        if self.ids.is_empty() {
            return false;
        }
        space.load(id, &mut self.query);
        self.ids.chunks(COMPARED).any(|ids| {
            space.distances(&mut self.query, ids, &mut self.distances);
            self.distances.iter().any(|&other| other < distance)
        })
    }

    /// `links` and their distances from `node`, by ascending distance, ties by id.
    pub(super) fn measure(&mut self, space: &S, node: u32, links: &[u32]) -> Vec<Near> {
        space.load(node, &mut self.query);
        self.ids.clear();
        self.ids.extend(links.iter().map(|&link| target(link)));
        space.distances(&mut self.query, &self.ids, &mut self.distances);
        let mut measured: Vec<Near> = self
            .distances
            .iter()
            .copied()
            .zip(links.iter().copied())
            .collect();
        measured.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(target(a.1).cmp(&target(b.1))));
        measured
    }
}
