//! The nodes that a search has seen: one bit each, cleared when the next search begins.

use std::sync::atomic::Ordering;

use crate::hnsw::graph::{Slots, target};

/// The set of seen nodes; `seen` has them in order.
#[derive(Debug, Default)]
pub(super) struct Visited {
    words: Vec<u64>,
    seen: Vec<u32>,
    /// A buffer for the nodes of one list.
    room: Vec<u32>,
    /// Nodes from this number on do not belong to this search, and count as seen.
    count: u32,
}

impl Visited {
    /// Forgets all nodes, and makes room for those below `count`.
    pub(super) fn reset(&mut self, count: u32) {
        if self.seen.len() < self.words.len() {
            for id in self.seen.drain(..) {
                self.words[word(id)] = 0;
            }
            // The bit that represents all nodes that are too new.
            if let Some(word) = self.words.get_mut(word(self.count)) {
                *word = 0;
            }
        } else {
            self.words.fill(0);
            self.seen.clear();
        }
        if self.words.len() <= word(count) {
            self.words.resize(word(count) + 1, 0);
        }
        self.count = count;
        self.words[word(count)] |= bit(count);
    }

    /// Marks a node that was not seen yet.
    pub(super) fn insert(&mut self, id: u32) {
        self.words[word(id)] |= bit(id);
        self.seen.push(id);
    }

    /// The targets of links that were not seen yet; they are marked as seen.
    ///
    /// Whether a node is new cannot be predicted by the processor, so there is no branch on it. Marks are set after
    /// all have been read: a read after a write to the same word would wait for it.
    #[inline]
    pub(super) fn take_new(&mut self, slots: Slots<'_>) -> &[u32] {
        if self.room.len() < slots.len() {
            self.room.resize(slots.len(), 0);
        }
        let (room, mut taken) = (&mut self.room[..], 0);
        for line in slots.lines() {
            for place in line {
                // A node that is too new may be incomplete; it is treated as the node `count`, which counts as
                // seen.
                let id = target(place.load(Ordering::Relaxed)).min(self.count);
                room[taken] = id;
                taken += usize::from(self.words[word(id)] & bit(id) == 0);
            }
        }
        // A reader may find one node at two places, while the writer changes links.
        let mut kept = 0;
        for place in 0..taken {
            let id = room[place];
            let word = &mut self.words[word(id)];
            room[kept] = id;
            kept += usize::from(*word & bit(id) == 0);
            *word |= bit(id);
        }
        self.seen.extend_from_slice(&room[..kept]);
        &room[..kept]
    }
}

#[inline]
fn word(id: u32) -> usize {
    (id / u64::BITS) as usize
}

#[inline]
fn bit(id: u32) -> u64 {
    1 << (id % u64::BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hnsw::graph::{EMPTY, Line, TREE};

    #[test]
    fn a_node_is_new_once_until_the_next_search() {
        let mut visited = Visited::default();
        // Few of many, many of few, and a search of fewer nodes than the one before.
        for count in [10_u32, 100_000, 70, 64, 1_000] {
            for _ in 0..2 {
                visited.reset(count);
                visited.insert(3);
                let wanted = [5, 3, 9 | TREE, EMPTY, 5, count, count - 1, count + 1, 0];
                let lines = [Line::default()];
                for link in wanted.into_iter().filter(|&link| link != EMPTY) {
                    Slots(&lines).put(link);
                }
                let taken = visited.take_new(Slots(&lines));
                let expected = if count == 10 {
                    vec![5, 9, 0]
                } else {
                    vec![5, 9, count - 1, 0]
                };
                assert_eq!(taken, expected, "{count}");
                assert!(visited.take_new(Slots(&lines)).is_empty());
            }
        }
    }
}
