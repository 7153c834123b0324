//! The exact index gives what brute force gives, to the last bit and in the same order.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use siltstone_core::SparseRow;
use siltstone_core::bm25::{Bm25Index, Bm25Params, Document, Query};
use siltstone_core::index::{ExactIndex, FlatIndex, Neighbor, VectorIndex};

/// Few buckets and small counts, so that rows often share buckets and distances are often equal.
fn row() -> impl Strategy<Value = SparseRow> {
    btree_map(0_u16..12, 1_u32..4, 0..5).prop_map(|counts| counts.into_iter().collect())
}

fn filled<I: VectorIndex + Default>(rows: &[SparseRow]) -> I {
    let mut index = I::default();
    for (number, row) in (0..).zip(rows) {
        assert_eq!(index.add(row), number);
    }
    index
}

fn bits(neighbors: &[Neighbor]) -> Vec<(u32, u64)> {
    neighbors
        .iter()
        .map(|neighbor| (neighbor.id, neighbor.distance.to_bits()))
        .collect()
}

fn text() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec!["silt", "river", "delta", "the", "slow", "漢字", "?"]);
    vec(words, 0..8).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn exact_search_equals_brute_force(
        rows in vec(row(), 0..40),
        query in row(),
        limit in 0_usize..12,
    ) {
        let (exact, flat): (ExactIndex, FlatIndex) = (filled(&rows), filled(&rows));
        prop_assert_eq!(bits(&exact.search(&query, limit)), bits(&flat.search(&query, limit)));
    }

    #[test]
    fn the_limit_cuts_one_list(rows in vec(row(), 0..40), query in row(), limit in 0_usize..12) {
        let exact: ExactIndex = filled(&rows);
        let all = bits(&exact.search(&query, rows.len()));
        let cut = bits(&exact.search(&query, limit));
        prop_assert_eq!(&cut[..], &all[..limit.min(all.len())]);
    }

    #[test]
    fn neither_zero_rows_nor_zero_overlap_match(rows in vec(row(), 0..40), query in row()) {
        let exact: ExactIndex = filled(&rows);
        for neighbor in exact.search(&query, rows.len()) {
            let row = &rows[neighbor.id as usize];
            prop_assert!(query.dot(row) > 0);
            prop_assert!((0.0..1.0).contains(&neighbor.distance), "{}", neighbor.distance);
        }
    }

    #[test]
    fn exact_search_is_invariant_under_insertion_order(rows in vec(row(), 0..40), query in row()) {
        let distances = |rows: &[SparseRow]| -> Vec<u64> {
            let exact: ExactIndex = filled(rows);
            bits(&exact.search(&query, rows.len())).into_iter().map(|(_, distance)| distance).collect()
        };
        let reversed: Vec<SparseRow> = rows.iter().rev().cloned().collect();
        prop_assert_eq!(distances(&rows), distances(&reversed));
    }

    #[test]
    fn bm25_scores_are_above_zero_up_to_one_and_explained(texts in vec(text(), 0..20), query in text()) {
        let mut index = Bm25Index::new(Bm25Params::default());
        for text in &texts {
            index.add(&Document::of(text));
        }
        let query = Query::of(&query);
        let mut found = Vec::new();
        index.for_each_match(&query, |hit| found.push(hit));
        for hit in found {
            let sum: f64 = index.explain(&query, hit.id).iter().map(|part| part.score).sum();
            prop_assert!(hit.score > 0.0 && hit.score <= 1.0);
            prop_assert!((sum.min(1.0) - hit.score).abs() < 1e-12, "{} {}", sum, hit.score);
        }
    }

    #[test]
    fn bm25_finds_the_texts_that_share_a_word(texts in vec(text(), 0..20), query in text()) {
        let mut index = Bm25Index::new(Bm25Params::default());
        for text in &texts {
            index.add(&Document::of(text));
        }
        let words = |text: &str| -> Vec<String> {
            text.split(' ').filter(|word| word.contains(char::is_alphanumeric)).map(str::to_owned).collect()
        };
        let wanted = words(&query);
        let expected: Vec<u32> = (0..)
            .zip(&texts)
            .filter(|(_, text)| words(text).iter().any(|word| wanted.contains(word)))
            .map(|(id, _)| id)
            .collect();
        let mut found = Vec::new();
        index.for_each_match(&Query::of(&query), |hit| found.push(hit.id));
        prop_assert_eq!(found, expected);
    }
}
