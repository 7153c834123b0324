//! Finds the bounds of words in the masks of a text.

use std::ops::Range;

use super::classify::BLOCK;

/// Masks that are processed together.
const MASKS: usize = 32;
/// Half of the bits of a mask.
const HALF: u64 = u32::MAX as u64;
/// Edges of half a block that are written without a check how many there are.
const AT_ONCE: usize = 14;
/// Places behind the last edge that may be overwritten.
const SPARE: usize = 16;

type Places = [u32; MASKS * BLOCK + SPARE];

/// The starts and ends of words in turn, so that the loop over words is easy for the processor to predict. Its
/// buffer is reused from text to text.
#[derive(Clone, Debug)]
pub struct Edges(Box<Places>);

impl Default for Edges {
    fn default() -> Self {
        Self(Box::new([0; MASKS * BLOCK + SPARE]))
    }
}

/// The start and the end of a run, in bytes from a place that is given with it.
pub type Run = [u32; 2];

/// Maximal runs of bytes whose bits are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runs<'a> {
    /// A place in the text, and runs that are counted from it, in order.
    Behind(usize, &'a [Run]),
    /// A run that crosses from one group of masks into the next: at most one for each 2 KB of text.
    Reaching(Range<usize>),
}

impl Edges {
    /// Calls `visit` with all runs, many at a time, in order. The last bit of the masks must be clear.
    #[inline]
    pub(crate) fn for_each_runs(&mut self, masks: &[u64], mut visit: impl FnMut(Runs<'_>)) {
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

/// Fills `places` with the places of the bits that differ from the bit before them, and returns their count. `open`
/// is the bit before the first mask.
///
/// Half a block of text has 5 to 12 edges, and the processor cannot predict how many. So 14 places are always
/// written, and the next edges overwrite the places behind the last one.
#[inline]
fn find(masks: &[u64], mut open: u64, places: &mut Places) -> usize {
    let mut count = 0;
    for (first, &mask) in (0..).step_by(BLOCK).zip(masks) {
        let bits = edges_of(mask, &mut open);
        // Each step needs the result of the step before it. With two halves, these chains are half as long.
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

/// The bits of a mask that differ from the bit before them. `open` is the bit before the mask; it is set to the last
/// bit of the mask.
#[inline]
fn edges_of(mask: u64, open: &mut u64) -> u64 {
    let before = mask << 1 | *open;
    *open = mask >> (BLOCK - 1);
    mask ^ before
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
