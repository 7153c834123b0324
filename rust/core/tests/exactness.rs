//! The exact index gives the hits of brute force, to the last bit and in the same order.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use siltstone_core::analyse::terms;
use siltstone_core::bm25::{Bm25Params, Document, LexicalIndex, Query};
use siltstone_core::index::{HashedTfIndex, Neighbor, distance};
use siltstone_core::{SparseRow, TopK};

/// Few buckets and small counts, so that rows often share buckets and distances are often equal.
fn row() -> impl Strategy<Value = SparseRow> {
    btree_map(0_u16..12, 1_u32..4, 0..5).prop_map(|counts| counts.into_iter().collect())
}

fn filled(rows: &[SparseRow]) -> HashedTfIndex {
    let mut index = HashedTfIndex::default();
    for (number, row) in (0..).zip(rows) {
        assert_eq!(index.add(row), number);
    }
    index
}

/// Compares the query with every row.
fn by_brute_force(rows: &[SparseRow], query: &SparseRow, limit: usize) -> Vec<Neighbor> {
    let mut nearest = TopK::new(limit);
    for (id, row) in (0..).zip(rows) {
        let dot = query.dot(row);
        if dot > 0 {
            let distance = distance(dot, query.squared_norm(), row.squared_norm());
            nearest.offer(Neighbor { id, distance });
        }
    }
    nearest.into_best_first()
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
        let exact = filled(&rows);
        let expected = by_brute_force(&rows, &query, limit);
        prop_assert_eq!(bits(&exact.search(&query, limit)), bits(&expected));
    }

    #[test]
    fn the_limit_cuts_one_list(rows in vec(row(), 0..40), query in row(), limit in 0_usize..12) {
        let exact = filled(&rows);
        let all = bits(&exact.search(&query, rows.len()));
        let cut = bits(&exact.search(&query, limit));
        prop_assert_eq!(&cut[..], &all[..limit.min(all.len())]);
    }

    #[test]
    fn neither_zero_rows_nor_zero_overlap_match(rows in vec(row(), 0..40), query in row()) {
        let exact = filled(&rows);
        for neighbor in exact.search(&query, rows.len()) {
            let row = &rows[neighbor.id as usize];
            prop_assert!(query.dot(row) > 0);
            prop_assert!((0.0..1.0).contains(&neighbor.distance), "{}", neighbor.distance);
        }
    }

    #[test]
    fn exact_search_is_invariant_under_insertion_order(rows in vec(row(), 0..40), query in row()) {
        let distances = |rows: &[SparseRow]| -> Vec<u64> {
            let exact = filled(rows);
            bits(&exact.search(&query, rows.len())).into_iter().map(|(_, distance)| distance).collect()
        };
        let reversed: Vec<SparseRow> = rows.iter().rev().cloned().collect();
        prop_assert_eq!(distances(&rows), distances(&reversed));
    }

    #[test]
    fn lexical_scores_are_above_zero_up_to_one_and_explained(
        texts in vec((text(), 0_i64..40, 0_i64..2), 0..20),
        query in text(),
    ) {
        let query = Query::of(&query);
        let index = lexical(&texts);
        let mut found = Vec::new();
        index.for_each_match(&query, |hit| found.push(hit));
        for hit in found {
            let why = index.why(&query, hit.id);
            let own: f64 = why.parts.iter().map(|part| part.score).sum();
            let beside: f64 = why.neighbors.iter().map(|neighbor| neighbor.score).sum();
            prop_assert!(hit.score > 0.0 && hit.score <= 1.0);
            prop_assert!((own - why.own).abs() < 1e-12);
            let sum = own + beside + why.day;
            prop_assert!((sum.min(1.0) - hit.score).abs() < 1e-12, "{sum} {}", hit.score);
        }
    }

    #[test]
    fn the_best_lexical_matches_are_the_best_of_all(
        texts in vec((text(), 0_i64..40, 0_i64..2), 0..30),
        query in text(),
        limit in 1_usize..12,
        min_score in prop::sample::select(vec![0.0, 0.2, 1.0]),
    ) {
        let (query, index) = (Query::of(&query), lexical(&texts));
        let mut all = Vec::new();
        index.for_each_match(&query, |hit| all.push((hit.score.to_bits(), hit.id)));
        all.retain(|&(score, _)| f64::from_bits(score) >= min_score);
        all.sort_unstable_by(|one, other| other.cmp(one)); // scores are positive: their bits are in order
        all.truncate(limit);
        let mut best = TopK::new(limit);
        index.for_each_best(&query, |_| true, |hit| {
            if hit.score >= min_score {
                best.offer((hit.score.to_bits(), hit.id));
            }
            best.least().map_or(min_score, |&(score, _)| f64::from_bits(score))
        });
        prop_assert_eq!(best.into_best_first(), all);
    }

    #[test]
    fn lexical_finds_the_texts_that_share_a_term(
        texts in vec((text(), 0_i64..1, 0_i64..1), 0..20), // of no message: without neighbours
        query in text(),
    ) {
        let wanted = terms(&query);
        let expected: Vec<u32> = (0..)
            .zip(&texts)
            .filter(|(_, (text, ..))| terms(text).iter().any(|term| wanted.contains(term)))
            .map(|(id, _)| id)
            .collect();
        let mut found = Vec::new();
        lexical(&texts).for_each_match(&Query::of(&query), |hit| found.push(hit.id));
        prop_assert_eq!(found, expected);
    }
}

/// Texts, each with the message it came from and whether it came from one at all.
fn lexical(texts: &[(String, i64, i64)]) -> LexicalIndex {
    let mut index = LexicalIndex::new(Bm25Params::default());
    for (text, start, length) in texts {
        index.add(
            [Document::of(text)],
            (*start, start + length),
            start % 3 * 86_400_000,
        );
    }
    index
}
