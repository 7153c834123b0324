//! Which entries stand beside which? The order of a conversation, whatever the order of insertion.

use std::collections::BTreeSet;

/// How many neighbours an entry has at most, on either side.
pub const REACH: usize = 4;

/// Messages that may be missing between neighbours.
const MAX_GAP: i64 = 2;

/// Stands for no neighbour.
const NONE: u32 = u32::MAX;

/// Entries in the order of the messages they came from, each linked to those before and after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    order: BTreeSet<(i64, u32)>,
    ranges: Vec<(i64, i64)>,
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Chain {
    /// Adds the next entry, which came from the messages `start..end`; from none if that is empty, and
    /// then it has no neighbours.
    pub(super) fn add(&mut self, (start, end): (i64, i64)) {
        let id = u32::try_from(self.ranges.len()).unwrap_or(NONE);
        self.ranges.push((start, end));
        self.before.push(NONE);
        self.after.push(NONE);
        if start >= end {
            return;
        }
        let place = (start, id);
        let before = self.order.range(..place).next_back().map(|&(_, id)| id);
        let after = self.order.range(place..).next().map(|&(_, id)| id);
        self.order.insert(place);
        if let Some(before) = before {
            self.link(before, id);
        }
        if let Some(after) = after {
            self.link(id, after);
        }
    }

    /// The nearest before `id`, and the nearest after it, the nearest first.
    pub(super) fn neighbors(&self, id: u32) -> [[Option<u32>; REACH]; 2] {
        [&self.before, &self.after].map(|links| {
            let mut at = Some(id);
            std::array::from_fn(|_| {
                at = at.map(|id| links[id as usize]).filter(|&id| id != NONE);
                at
            })
        })
    }

    /// Makes two that follow each other neighbours, unless too much is missing between them.
    fn link(&mut self, one: u32, next: u32) {
        let gap = self.ranges[next as usize].0 - self.ranges[one as usize].1;
        let near = gap <= MAX_GAP;
        self.after[one as usize] = if near { next } else { NONE };
        self.before[next as usize] = if near { one } else { NONE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(ranges: &[(i64, i64)]) -> Chain {
        let mut chain = Chain::default();
        for &range in ranges {
            chain.add(range);
        }
        chain
    }

    #[test]
    fn neighbours_follow_the_messages_not_the_insertion() {
        let chain = chain(&[(4, 5), (0, 1), (2, 3), (0, 0), (1, 2)]);
        assert_eq!(
            chain.neighbors(2),
            [[Some(4), Some(1), None, None], [Some(0), None, None, None]]
        );
        assert_eq!(chain.neighbors(3), [[None; REACH]; 2]); // it came from no message
    }

    #[test]
    fn a_gap_of_three_messages_parts() {
        let chain = chain(&[(0, 1), (3, 4), (7, 8)]);
        assert_eq!(chain.neighbors(1)[0], [Some(0), None, None, None]);
        assert_eq!(chain.neighbors(1)[1], [None; REACH]);
    }

    #[test]
    fn what_comes_in_between_closes_a_gap() {
        let chain = chain(&[(0, 1), (5, 6), (3, 4)]);
        assert_eq!(chain.neighbors(0)[1], [Some(2), Some(1), None, None]);
        assert_eq!(chain.neighbors(1)[0], [Some(2), Some(0), None, None]);
    }

    #[test]
    fn the_fifth_is_out_of_reach() {
        let chain = chain(&[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]);
        assert_eq!(chain.neighbors(0)[1], [1, 2, 3, 4].map(Some));
    }
}
