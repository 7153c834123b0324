//! An HNSW loses nothing: every row finds itself, after inserts in order and after deletions, and its
//! hits are nearly the hits of a scan.

#![allow(clippy::cast_precision_loss, reason = "small numbers")]

#[path = "common/rows.rs"]
mod rows;

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use rows::{Numbers, bags, borrowed, clustered, ids, random};
use siltstone_ann::space::{Int8, Space, Sparse};
use siltstone_ann::{Hnsw, HnswParams, Plan};
use siltstone_core::ErrorKind;
use siltstone_core::index::Neighbor;

/// Every `step`-th row that is left finds itself first when the search may look at all rows.
fn assert_reachable<'a, S: Space>(
    index: &Hnsw<S>,
    rows: impl Iterator<Item = (u32, &'a S::Item)>,
    step: usize,
) where
    S::Item: 'a,
{
    let all = Some(index.len());
    for (id, row) in rows.step_by(step) {
        let found = index.search(row, 1, all, Some(Plan::Graph));
        assert_eq!(
            ids(&found),
            [id],
            "row {id} of {} does not find itself",
            index.len()
        );
        assert!(found[0].distance < 1e-6, "{}", found[0].distance);
    }
}

/// The share of the hits of a scan that the graph finds.
fn recall<'a, S: Space>(
    index: &Hnsw<S>,
    queries: impl Iterator<Item = &'a S::Item>,
    k: usize,
    ef: usize,
) -> f64
where
    S::Item: 'a,
{
    let (mut found, mut wanted) = (0, 0);
    for query in queries {
        let exact: HashSet<u32> = ids(&index.search(query, k, None, Some(Plan::Scan)))
            .into_iter()
            .collect();
        let graph = ids(&index.search(query, k, Some(ef), Some(Plan::Graph)));
        found += graph.iter().filter(|id| exact.contains(id)).count();
        wanted += exact.len();
    }
    found as f64 / f64::from(u32::try_from(wanted).unwrap())
}

/// Rows of a test: all of them where the build is optimised, a tenth where it is not.
fn of(rows: usize) -> usize {
    if cfg!(debug_assertions) {
        rows / 10
    } else {
        rows
    }
}

/// All rows in the long form of the tests, a sample otherwise.
fn step(sample: usize, rows: usize) -> usize {
    let long = std::env::var("PROPTEST_CASES").is_ok_and(|cases| cases.len() >= 5);
    if long { 1 } else { rows / sample }
}

/// Inserts in order, looks for every row, removes a third, looks again, and compares with a fresh graph.
fn holds<'a, S: Space>(dimension: usize, rows: &'a [S::Owned], queries: &'a [S::Owned])
where
    S::Owned: std::borrow::Borrow<S::Item>,
{
    use std::borrow::Borrow;
    let params = HnswParams::default();
    let index = Hnsw::<S>::new(dimension, params).unwrap();
    index.add(rows.iter().map(Borrow::borrow)).unwrap();
    let numbered = || (0..).zip(rows.iter().map(Borrow::borrow));
    let step = step(150, rows.len());
    assert_reachable(&index, numbered(), step);
    let before = recall(&index, queries.iter().map(Borrow::borrow), 10, 200);

    let removed: Vec<u32> = (0..u32::try_from(rows.len()).unwrap())
        .filter(|id| id % 3 == 1)
        .collect();
    for some in removed.chunks(97) {
        index.remove(some).unwrap();
    }
    assert_eq!(index.len(), rows.len() - removed.len());
    let left = || numbered().filter(|(id, _)| id % 3 != 1);
    assert_reachable(&index, left(), step);

    let fresh = Hnsw::<S>::new(dimension, params).unwrap();
    fresh.add(left().map(|(_, row)| row)).unwrap();
    let ask = || queries.iter().map(Borrow::borrow);
    let (after, new) = (
        recall(&index, ask(), 10, 200),
        recall(&fresh, ask(), 10, 200),
    );
    println!(
        "{}: recall@10 {before:.4} of all rows, recall@10 {after:.4} after deleting a third, {new:.4} of a fresh graph",
        S::NAME
    );
    assert!(
        after > new - 0.01,
        "recall@10 is {after:.4} after deleting a third, {new:.4} of a fresh graph"
    );
}

#[test]
fn fifteen_thousand_random_rows_of_64_are_all_found() {
    holds::<Int8>(64, &random(of(15_000), 64, 1), &random(200, 64, 2));
}

#[test]
fn twenty_thousand_clustered_rows_of_384_are_all_found() {
    let rows = clustered(of(20_200), 384, of(100), 3);
    let queries: Vec<_> = rows.iter().step_by(101).cloned().collect();
    let rows: Vec<_> = rows
        .chunks(101)
        .flat_map(|some| some[1..].to_vec())
        .collect();
    holds::<Int8>(384, &rows, &queries);
}

#[test]
fn three_thousand_rows_of_counts_are_all_found() {
    holds::<Sparse>(4096, &bags(of(3_000), 4), &bags(200, 5));
}

#[test]
fn the_same_rows_over_and_over_are_all_found() {
    let index = Hnsw::<Int8>::new(8, HnswParams::new(4, 20, 20, 16, 0).unwrap()).unwrap();
    let same = [0.3, 0.1, -0.7, 0.2, 0.0, 0.0, 0.9, 0.4];
    index.add(std::iter::repeat_n(&same[..], 2_000)).unwrap();
    index.add(borrowed(&random(500, 8, 8))).unwrap();
    let found = index.search(&same, 2_000, None, Some(Plan::Graph));
    assert_eq!(ids(&found), (0..2_000).collect::<Vec<u32>>(), "ties by id");
    let everything = index.search(&same, 5_000, None, Some(Plan::Graph));
    assert_eq!(everything.len(), 2_500);
}

/// Equal rows, before others or among them, take nothing from the others; nor when half of them leave.
#[test]
fn many_equal_rows_hide_no_other() {
    let rows = random(of(8_000).max(2_000), 32, 21);
    let alone = Hnsw::<Int8>::new(32, HnswParams::default()).unwrap();
    alone.add(borrowed(&rows)).unwrap();
    let queries = || rows.iter().step_by(40).map(Vec::as_slice);
    let expected = recall(&alone, queries(), 10, 200);
    for every in [1, 2] {
        let index = Hnsw::<Int8>::new(32, HnswParams::default()).unwrap();
        let same = random(1, 32, 22);
        let mut equal = Vec::new();
        for some in rows.chunks(rows.len() / every) {
            equal.extend(index.add(std::iter::repeat_n(&same[0][..], 9_000)).unwrap());
            index.add(borrowed(some)).unwrap();
        }
        for _ in 0..2 {
            let found = recall(&index, queries(), 10, 200);
            assert!(found > expected - 0.005, "{found} of {expected}");
            let half: Vec<u32> = equal.drain(..equal.len() / 2).collect();
            index.remove(&half).unwrap();
        }
        let again = Hnsw::<Int8>::from_bytes(&index.to_bytes()).unwrap();
        let found = again.search(&same[0], 20, None, Some(Plan::Graph));
        assert_eq!(ids(&found), equal[..20]);
        assert_eq!(found, index.search(&same[0], 20, None, Some(Plan::Scan)));
    }
}

proptest! {
    /// A model: the index has the rows that were added and not removed, whatever happened between.
    #[test]
    fn with_ef_of_all_rows_the_graph_finds_what_a_scan_finds(
        m in 2_usize..5,
        steps in vec((0_usize..3, any::<u64>()), 1..25),
        k in 0_usize..40,
    ) {
        let index = Hnsw::<Int8>::new(6, HnswParams::new(m, 4, 4, 16, 9).unwrap()).unwrap();
        let (mut rows, mut left) = (Vec::new(), Vec::<u32>::new());
        for (kind, seed) in steps {
            let mut numbers = Numbers(seed);
            if kind < 2 || left.is_empty() {
                let more: Vec<_> = (0..numbers.below(60)).map(|_| {
                    // Few different numbers, so that distances are often equal; some rows are zeros.
                    (0..6).map(|_| numbers.below(3) as f32 - 1.0).collect::<Vec<f32>>()
                }).collect();
                left.extend(index.add(borrowed(&more)).unwrap());
                rows.extend(more);
            } else {
                let some: Vec<u32> = left.iter().copied().filter(|_| numbers.below(3) == 0).collect();
                index.remove(&some).unwrap();
                left.retain(|id| !some.contains(id));
            }
            let query: Vec<f32> = (0..6).map(|_| numbers.below(5) as f32 - 1.5).collect();
            let graph = index.search(&query, k, Some(rows.len()), Some(Plan::Graph));
            let scan = index.search(&query, k, None, Some(Plan::Scan));
            prop_assert_eq!(&graph, &scan);
            let mut expected: Vec<Neighbor> = left.iter().filter_map(|&id| {
                let row = &rows[id as usize];
                let norm: f64 = row.iter().map(|&value| f64::from(value * value)).sum();
                let dot: f64 = row.iter().zip(&query).map(|(&a, &b)| f64::from(a * b)).sum();
                let own: f64 = query.iter().map(|&value| f64::from(value * value)).sum();
                let distance = siltstone_ann::space::cosine_distance(dot, own, norm);
                (norm > 0.0).then_some(Neighbor { id, distance })
            }).collect();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            expected.truncate(k);
            prop_assert_eq!(ids(&graph), ids(&expected));
            prop_assert_eq!(&graph, &expected);
            // Whatever ef is, k rows are given where there are as many.
            let quick = index.search(&query, k, Some(1), Some(Plan::Graph));
            prop_assert_eq!(quick.len(), expected.len());
            prop_assert_eq!(index.len(), left.len());
        }
    }
}

#[test]
fn unknown_and_removed_ids_are_refused_and_nothing_is_removed() {
    let index = Hnsw::<Int8>::new(3, HnswParams::default()).unwrap();
    index.add(borrowed(&random(10, 3, 1))).unwrap();
    index.remove(&[4, 4]).unwrap();
    for wrong in [[1, 10], [1, 4]] {
        let error = index.remove(&wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EntryNotFound);
        assert_eq!(index.len(), 9);
    }
    assert_eq!(index.add(borrowed(&random(1, 3, 2))).unwrap(), 10..11);
    index.remove(&[0, 1, 2, 3, 5, 6, 7, 8, 9, 10]).unwrap();
    assert!(index.is_empty());
    assert_eq!(index.search(&[1.0; 3], 5, None, Some(Plan::Graph)), []);
    assert_eq!(index.add(borrowed(&random(1, 3, 2))).unwrap(), 11..12);
    assert_eq!(
        ids(&index.search(&[1.0; 3], 5, None, Some(Plan::Graph))),
        [11]
    );
}

#[test]
fn readers_find_every_row_that_was_there_while_a_writer_adds() {
    let rows = random(4_000, 16, 11);
    let index = Hnsw::<Int8>::new(16, HnswParams::new(6, 40, 40, 16, 0).unwrap()).unwrap();
    index.add(borrowed(&rows[..1_000])).unwrap();
    let writing = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        let (index, rows, writing) = (&index, &rows, &writing);
        let readers: Vec<_> = (0..3_usize)
            .map(|reader| {
                scope.spawn(move || {
                    let mut searched = 0;
                    while writing.load(std::sync::atomic::Ordering::Relaxed) || searched < 50 {
                        let id = (searched * 37 + reader) % 1_000;
                        let found = index.search(&rows[id], 1, Some(rows.len()), Some(Plan::Graph));
                        assert_eq!(ids(&found), [u32::try_from(id).unwrap()]);
                        searched += 1;
                    }
                })
            })
            .collect();
        for row in &rows[1_000..] {
            index.add([row.as_slice()]).unwrap();
        }
        writing.store(false, std::sync::atomic::Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    let again = Hnsw::<Int8>::new(16, index.params()).unwrap();
    again.add(borrowed(&rows)).unwrap();
    for query in random(50, 16, 12) {
        let found = index.search(&query, 10, None, Some(Plan::Graph));
        assert_eq!(
            found,
            again.search(&query, 10, None, Some(Plan::Graph)),
            "readers change nothing"
        );
    }
}
