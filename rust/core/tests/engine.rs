//! The indexes over blocked postings against a plain list, whatever is added, removed and merged between.
//!
//! At every level of instructions that the machine has, to the last bit.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use siltstone_core::SparseRow;
use siltstone_core::index::{HashedTfIndex, Neighbor, distance};
use siltstone_core::simd::Level;

/// The changes of an index, in order.
#[derive(Clone, Debug)]
enum Step {
    /// Adds that many rows: those of the pool in turn, from one of them on.
    Add(usize, usize),
    /// Removes the rows from one of them on, that many, each so many behind the other.
    Remove(usize, usize, usize),
    /// Puts together all that is due.
    Settle,
}

/// Few buckets and small counts, so that rows often share buckets and distances are often equal; and
/// now and then a count that takes an overflow, or a row too long for 16 bits.
fn row() -> impl Strategy<Value = SparseRow> {
    let count = prop_oneof![200 => 1_u32..4, 20 => 14_u32..40, 1 => 1_000_u32..70_000];
    btree_map(0_u16..20, count, 0..6).prop_map(|counts| counts.into_iter().collect())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_usize..100, any::<usize>()).prop_map(|(count, from)| Step::Add(count, from)),
        1 => (1_000_usize..5_000, any::<usize>()).prop_map(|(count, from)| Step::Add(count, from)),
        2 => (any::<usize>(), 1_usize..40, 1_usize..50).prop_map(|(at, count, by)| Step::Remove(at, count, by)),
        1 => (any::<usize>(), 1_000_usize..3_000, 1_usize..3).prop_map(|(at, count, by)| Step::Remove(at, count, by)),
        1 => Just(Step::Settle),
    ]
}

/// Where a step that removes finds its rows.
fn places(len: usize, at: usize, count: usize, by: usize) -> impl Iterator<Item = usize> {
    (at % (len + 1)..len).step_by(by).take(count)
}

fn bits(neighbors: &[Neighbor]) -> Vec<(u32, u64)> {
    let bits = |neighbor: &Neighbor| (neighbor.id, neighbor.distance.to_bits());
    neighbors.iter().map(bits).collect()
}

/// Every row, whether it was removed or not.
#[derive(Default)]
struct Plain(Vec<Option<SparseRow>>);

impl Plain {
    fn search(&self, query: &SparseRow) -> Vec<Neighbor> {
        let rows = (0..).zip(&self.0);
        let mut found: Vec<Neighbor> = rows
            .filter_map(|(id, row)| {
                let row = row.as_ref()?;
                let dot = query.dot(row);
                let distance = distance(dot, query.squared_norm(), row.squared_norm());
                (dot > 0).then_some(Neighbor { id, distance })
            })
            .collect();
        found.sort_by(|one, other| other.cmp(one));
        found
    }
}

fn saved_and_loaded(index: &HashedTfIndex) -> HashedTfIndex {
    let file = index.to_bytes("rows").unwrap();
    HashedTfIndex::from_bytes(&file, |label| (label == "rows").then_some(()))
        .unwrap()
        .0
}

proptest! {
    #[test]
    fn exact_search_equals_a_plain_list_after_any_steps_at_every_level(
        pool in vec(row(), 1..12),
        steps in vec(step(), 1..8),
        query in row(),
        limit in 0_usize..60,
    ) {
        let (mut index, mut plain) = (HashedTfIndex::default(), Plain::default());
        for step in steps {
            match step {
                Step::Add(count, from) => {
                    for number in 0..count {
                        let row = &pool[from.wrapping_add(number) % pool.len()];
                        prop_assert_eq!(index.add(row) as usize, plain.0.len());
                        plain.0.push(Some(row.clone()));
                    }
                }
                Step::Remove(at, count, by) => {
                    for place in places(plain.0.len(), at, count, by) {
                        let id = u32::try_from(place).unwrap();
                        prop_assert_eq!(index.remove(id), plain.0[place].take().is_some());
                    }
                }
                Step::Settle => index.settle(),
            }
            prop_assert_eq!(index.len(), plain.0.len());
            prop_assert_eq!(index.removed(), plain.0.iter().filter(|row| row.is_none()).count());
            let expected = plain.search(&query);
            let best = &expected[..limit.min(expected.len())];
            for level in Level::all() {
                let found = level.run(|| index.search(&query, limit));
                prop_assert_eq!(bits(&found), bits(best), "{}", level);
            }
            let mut all = Vec::new();
            index.for_each_near(&query, |neighbor| {
                all.push(neighbor);
                f64::INFINITY
            });
            prop_assert!(all.is_sorted_by_key(|neighbor| neighbor.id));
            all.sort_by(|one, other| other.cmp(one));
            prop_assert_eq!(bits(&all), bits(&expected));
        }
        prop_assert!(!index.remove(u32::try_from(plain.0.len()).unwrap()));
        let mut loaded = saved_and_loaded(&index);
        index.add(&query);
        loaded.add(&query);
        prop_assert_eq!(loaded.removed(), index.removed());
        let all = index.len();
        prop_assert_eq!(bits(&loaded.search(&query, all)), bits(&index.search(&query, all)));
    }
}
