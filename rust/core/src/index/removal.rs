//! Removes rows from the exact index. The result equals an index that never had them.

use crate::index::exact::HashedTfIndex;
use crate::postings::BLOCK;

impl HashedTfIndex {
    /// A copy of the index with only the rows `left`, as if the others had never been added. The numbers in `left` must
    /// ascend. The rows get new numbers.
    #[must_use]
    pub fn only(&self, left: impl IntoIterator<Item = u32>) -> Self {
        let mut index = Self::default();
        let mut block = None;
        for id in left {
            let (number, place) = (id as usize / BLOCK, id as usize % BLOCK);
            let known = block.take().filter(|(known, _)| *known == number);
            let rows = || (number, self.postings.rows(number));
            let (_, rows) = block.insert(known.unwrap_or_else(rows));
            index.add_counts(rows.row(place));
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cache::Writer;

    fn bytes(index: &HashedTfIndex) -> Vec<u8> {
        let mut to = Writer::new(Vec::new()).unwrap();
        index.write(&mut to).unwrap();
        to.finish().unwrap().0
    }

    proptest! {
        /// Tests runs of equal rows, which fill columns, counts above 15, and norms that an f32 does not hold.
        #[test]
        fn what_is_left_is_an_index_that_never_had_the_others(
            runs in proptest::collection::vec(
                (
                    proptest::collection::btree_map(0_u16..40, prop_oneof![9 => 1_u32..40, 1 => 4_000_u32..9_000], 0..6),
                    any::<bool>(),
                    prop_oneof![9 => 1_u32..12, 1 => 1_u32..700],
                ),
                1..30,
            ),
        ) {
            let (mut whole, mut fresh, mut left) = (HashedTfIndex::default(), HashedTfIndex::default(), Vec::new());
            for (row, stays, often) in &runs {
                let row: Vec<_> = row.iter().map(|(&bucket, &count)| (bucket, count)).collect();
                for number in 0..*often {
                    let id = whole.add_counts(&row);
                    if *stays || number % 3 == 0 {
                        left.push(id);
                        fresh.add_counts(&row);
                    }
                }
            }
            let mut left = whole.only(left);
            prop_assert_eq!(bytes(&left), bytes(&fresh));
            for row in [[(1, 2), (2, 1)], [(3, 1), (4, 20)]] {
                left.add_counts(&row);
                fresh.add_counts(&row);
                let found = |index: &HashedTfIndex| -> Vec<(u32, u64)> {
                    let near = index.search_counts(&[(1, 1), (3, 2), (7, 1)], 50);
                    near.iter().map(|near| (near.id, near.distance.to_bits())).collect()
                };
                prop_assert_eq!(found(&left), found(&fresh));
            }
            prop_assert_eq!(bytes(&left), bytes(&fresh));
        }
    }
}
