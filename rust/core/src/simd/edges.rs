//! The bounds of words, by the masks of a text.

use std::ops::Range;

use super::classify::BLOCK;

/// Masks that are looked at together.
const MASKS: usize = 32;
/// Half of the bits of a mask.
const HALF: u64 = u32::MAX as u64;
/// Edges of half a block that are written down without asking whether there are so many.
const AT_ONCE: usize = 14;

type Places = [u32; MASKS * BLOCK + AT_ONCE];

/// Where words begin and end by the masks of a text: both in turn, so that one word after another is a loop
/// which the processor can foresee. Kept from text to text.
#[derive(Clone, Debug)]
pub struct Edges(Box<Places>);

impl Default for Edges {
    fn default() -> Self {
        Self(Box::new([0; MASKS * BLOCK + AT_ONCE]))
    }
}

/// Where a run begins and where it ends, counted from a place that is given with it.
pub type Run = [u32; 2];

/// Maximal runs of bytes whose bits are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runs<'a> {
    /// A place, and the runs behind it, in order.
    Behind(usize, &'a [Run]),
    /// One that reaches from what is looked at together into what comes next: a text of 2 KB has one at most.
    Reaching(Range<usize>),
}

impl Edges {
    /// Calls `visit` with all runs, many at once, in order. The last bit of all is clear.
    #[inline]
    pub fn for_each_runs(&mut self, masks: &[u64], mut visit: impl FnMut(Runs<'_>)) {
        let mut open = None; // where a run began that has not ended
        for (number, masks) in masks.chunks(MASKS).enumerate() {
            let first = number * MASKS * BLOCK;
            let count = find(masks, u64::from(open.is_some()), &mut self.0);
            let mut edges = &self.0[..count];
            if let Some(start) = open {
                let Some((&end, rest)) = edges.split_first() else {
                    continue;
                };
                visit(Runs::Reaching(start..first + end as usize));
                edges = rest;
            }
            let (runs, rest) = edges.as_chunks();
            visit(Runs::Behind(first, runs));
            open = rest.first().map(|&start| first + start as usize);
        }
        debug_assert!(open.is_none(), "the last bit is clear");
    }
}

/// Writes down the bits that differ from the bit before them, and says how many. `open` is the bit before all.
///
/// Text has 5 to 12 edges in half a block, nobody can guess how many. So some are always written, and those that
/// are not there are overwritten by the next ones.
fn find(masks: &[u64], mut open: u64, places: &mut Places) -> usize {
    let mut count = 0;
    for (first, &mask) in (0..).step_by(BLOCK).zip(masks) {
        let bits = mask ^ (mask << 1 | open);
        open = mask >> (BLOCK - 1);
        // Each bit is known when the one before it is gone: two halves wait half as long.
        for (half, first) in [(bits & HALF, first), (bits >> 32, first + 32)] {
            let mut bits = half;
            let end = count + bits.count_ones() as usize;
            let mut next = count;
            while next < end {
                for place in &mut places[next..][..AT_ONCE] {
                    *place = first + bits.trailing_zeros();
                    bits &= bits.wrapping_sub(1);
                }
                next += AT_ONCE;
            }
            count = end;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The runs of set bits, bit by bit.
    fn runs_bit_by_bit(masks: &[u64]) -> Vec<Range<usize>> {
        let is_set = |place: usize| masks[place / BLOCK] >> (place % BLOCK) & 1 == 1;
        let (mut runs, mut start) = (Vec::new(), None);
        for place in 0..masks.len() * BLOCK {
            match (start, is_set(place)) {
                (None, true) => start = Some(place),
                (Some(first), false) => {
                    runs.push(first..place);
                    start = None;
                }
                _ => {}
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn the_runs_are_those_that_bit_by_bit_finds(
            masks in vec(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), Just(u64::MAX / 3)], 1..3 * MASKS),
        ) {
            let (mut masks, mut edges) = (masks, Edges::default());
            if let Some(last) = masks.last_mut() {
                *last &= u64::MAX >> 1;
            }
            let mut runs = Vec::new();
            edges.for_each_runs(&masks, |some| match some {
                Runs::Behind(first, some) => {
                    let place = |edge: u32| first + edge as usize;
                    runs.extend(some.iter().map(|&[start, end]| place(start)..place(end)));
                }
                Runs::Reaching(run) => runs.push(run),
            });
            prop_assert_eq!(&runs, &runs_bit_by_bit(&masks));
        }
    }
}
