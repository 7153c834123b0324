//! Sorts terms by their first bits. Hashes spread evenly, which a general sort cannot know.

/// Up to so many terms, the standard sort is used.
const FEW: usize = 20;
/// The number of parts that the range of hashes is cut into.
const PARTS: usize = 128;
/// The most terms of one part that are sorted by insertion; with more, the standard sort is used.
const CROWDED: u32 = 16;

/// Sorts terms, and keeps its buffer.
#[derive(Default)]
pub(super) struct Order(Vec<u64>);

impl Order {
    /// Sorts `terms`.
    pub(super) fn sort(&mut self, terms: &mut [u64]) {
        if terms.len() <= FEW {
            return terms.sort_unstable();
        }
        let mut places = [0_u32; PARTS];
        for &term in &*terms {
            places[part(term)] += 1;
        }
        // The text repeats itself, is long, or has words that were chosen for their hashes.
        let is_crowded = places.iter().any(|&count| count > CROWDED);
        if is_crowded {
            return terms.sort_unstable();
        }
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        self.0.clear();
        self.0.resize(terms.len(), 0);
        for &term in &*terms {
            let place = &mut places[part(term)];
            self.0[*place as usize] = term;
            *place += 1;
        }
        // Only terms of the same part are still out of order.
        for (end, &term) in self.0.iter().enumerate() {
            let mut place = end;
            while place > 0 && terms[place - 1] > term {
                terms[place] = terms[place - 1];
                place -= 1;
            }
            terms[place] = term;
        }
    }
}

fn part(term: u64) -> usize {
    usize::try_from(term >> (u64::BITS - PARTS.ilog2())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn terms_come_in_the_order_of_any_sort(
            even in prop::collection::vec(any::<u64>(), 0..300),
            near in prop::collection::vec(0_u64..50, 0..60),
        ) {
            let mut order = Order::default();
            for mut terms in [even.clone(), near.clone(), [even, near].concat()] {
                let mut sorted = terms.clone();
                sorted.sort_unstable();
                order.sort(&mut terms);
                prop_assert_eq!(terms, sorted);
            }
        }
    }
}
