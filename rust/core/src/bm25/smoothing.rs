//! Sums lifted by those of neighbours: a group of 64 entries at a time, and only where it can matter.
//!
//! The entries of a group are lifted by at most the largest sum of the groups beside it, if they stand in
//! the order of their numbers, as nearly all do. So most groups are left out on the word of three numbers.

use crate::bm25::chain::{Chain, GROUP};

/// More than the sums of a handful of floats lose by rounding.
const ROOM: f64 = 1e-12;
/// How far a neighbour is at most.
const REACH: usize = 2;

/// The sums of all entries, and who stands beside whom.
pub(super) struct Smoothing<'a> {
    chain: &'a Chain,
    own: &'a [f64],
    shares: [f64; REACH],
    /// The largest sum of each group, and of all.
    largest: Vec<f64>,
    largest_of_all: f64,
}

impl<'a> Smoothing<'a> {
    pub(super) fn new(chain: &'a Chain, own: &'a [f64], shares: [f64; REACH]) -> Self {
        let largest: Vec<f64> = own.chunks(GROUP).map(largest).collect();
        Self {
            chain,
            own,
            shares,
            largest_of_all: self::largest(&largest),
            largest,
        }
    }

    /// A sum that `limit` entries have at least: each group has one entry with its largest own sum.
    pub(super) fn at_least(&self, limit: usize) -> f64 {
        let Some(place) = limit
            .checked_sub(1)
            .filter(|&place| place < self.largest.len())
        else {
            return 0.0;
        };
        let mut largest = self.largest.clone();
        *largest
            .select_nth_unstable_by(place, |one, other| other.total_cmp(one))
            .1
    }

    /// Calls `visit` with each entry that has a sum above 0 of at least `least`, and with that sum, in
    /// ascending order. `visit` gives what `least` is from then on.
    pub(super) fn for_each_above(&self, least: f64, mut visit: impl FnMut(u32, f64) -> f64) {
        let mut floor = least * (1.0 - ROOM);
        for group in 0..self.largest.len() {
            let bound = self.bound(group);
            if bound <= 0.0 || bound < floor {
                continue;
            }
            let first = group * GROUP;
            let end = self.own.len().min(first + GROUP);
            let beside = self.beside(first);
            for id in first..end {
                let sum = match &beside {
                    Some(sums) if self.chain.regular(group) >> (id - first) & 1 == 1 => {
                        sums[id - first]
                    }
                    _ => self.sum(id),
                };
                if sum > 0.0 && sum >= floor {
                    let id = u32::try_from(id).expect("numbers are below 2^32");
                    floor = visit(id, sum) * (1.0 - ROOM);
                }
            }
        }
    }

    /// What no sum of the group is above.
    fn bound(&self, group: usize) -> f64 {
        let (own, lift) = (self.largest[group], 2.0 * (self.shares[0] + self.shares[1]));
        let (regular, alone) = (self.chain.regular(group), self.chain.alone(group));
        let members = u64::MAX >> (GROUP - (self.own.len() - group * GROUP).min(GROUP));
        let near = if (regular | alone) & members == members {
            let end = self.largest.len().min(group + 2);
            let near = largest(&self.largest[group.saturating_sub(1)..end]);
            if regular == 0 { 0.0 } else { near }
        } else {
            self.largest_of_all
        };
        (own + lift * near) * (1.0 + ROOM)
    }

    /// The sum of each entry of a group that begins there, if its neighbours are the numbers beside its own;
    /// None where there are no such numbers.
    fn beside(&self, first: usize) -> Option<[f64; GROUP]> {
        let own = self
            .own
            .get(first.checked_sub(REACH)?..first + GROUP + REACH)?;
        let mut sums = [0.0; GROUP];
        for (sum, near) in sums.iter_mut().zip(own.windows(2 * REACH + 1)) {
            *sum = self.lifted(near[2], [near[1], near[0]], [near[3], near[4]]);
        }
        Some(sums)
    }

    fn sum(&self, id: usize) -> f64 {
        let narrow = u32::try_from(id).expect("numbers are below 2^32");
        let of =
            |neighbor: Option<u32>| neighbor.map_or(0.0, |neighbor| self.own[neighbor as usize]);
        let [before, after] = self.chain.neighbors(narrow).map(|side| side.map(of));
        self.lifted(self.own[id], before, after)
    }

    /// The sum itself. Every way to it is this one, so it has the same bits.
    #[inline]
    fn lifted(&self, own: f64, before: [f64; REACH], after: [f64; REACH]) -> f64 {
        own + self.shares[0] * (before[0] + after[0]) + self.shares[1] * (before[1] + after[1])
    }
}

/// The largest of numbers that are 0 or more; 0 for none.
fn largest(sums: &[f64]) -> f64 {
    const LANES: usize = 8;
    let (runs, rest) = sums.as_chunks::<LANES>();
    let mut most = [0.0_f64; LANES];
    for run in runs {
        for (most, &sum) in most.iter_mut().zip(run) {
            *most = if sum > *most { sum } else { *most };
        }
    }
    most.iter().chain(rest).copied().fold(0.0, f64::max)
}
