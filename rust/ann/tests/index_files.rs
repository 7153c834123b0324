//! Indexes of dense rows as files, and a scan against brute force.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "distances, 0 to 2"
)]

#[path = "common/rows.rs"]
mod rows;

use rows::{bags, borrowed, clustered, ids, random};
use siltstone_ann::space::{Float32, Int8, Sparse};
use siltstone_ann::{Hnsw, HnswParams, Plan};
use siltstone_core::ErrorKind;

#[test]
fn an_index_from_a_file_answers_as_the_one_that_wrote_it() {
    let rows = random(700, 20, 13);
    let index = Hnsw::<Float32>::new(20, HnswParams::new(5, 30, 30, 16, 3).unwrap()).unwrap();
    index.add(borrowed(&rows)).unwrap();
    index.add([&[0.0; 20][..]]).unwrap();
    index.remove(&(0..300).collect::<Vec<u32>>()).unwrap();
    let file = index.to_bytes();
    let again = Hnsw::<Float32>::from_bytes(&file).unwrap();
    assert_eq!(
        (again.figures(), again.params()),
        (index.figures(), index.params())
    );
    let more = random(50, 20, 14);
    assert_eq!(
        index.add(borrowed(&more)).unwrap(),
        again.add(borrowed(&more)).unwrap()
    );
    for query in random(40, 20, 15) {
        for plan in [Plan::Scan, Plan::Graph] {
            let found = index.search(&query, 10, None, Some(plan));
            assert_eq!(found, again.search(&query, 10, None, Some(plan)));
        }
    }
}

#[test]
fn a_file_that_was_cut_or_edited_is_refused() {
    let index = Hnsw::<Sparse>::new(4096, HnswParams::new(4, 20, 20, 16, 0).unwrap()).unwrap();
    index.add(&bags(60, 16)).unwrap();
    let file = index.to_bytes();
    for length in 0..file.len() {
        assert!(
            Hnsw::<Sparse>::from_bytes(&file[..length]).is_err(),
            "{length}"
        );
    }
    for place in 0..file.len() {
        let mut edited = file.clone();
        edited[place] ^= 1 << (place % 8);
        let error = Hnsw::<Sparse>::from_bytes(&edited).err().unwrap().kind();
        let version = (8..12).contains(&place);
        assert_eq!(
            error == ErrorKind::StoreVersion,
            version,
            "{place}: {error:?}"
        );
        // With a checksum that fits: an error, or an index that works.
        let sum = edited.len() - 8;
        let checksum = xxhash_rust::xxh3::xxh3_64(&edited[..sum]);
        edited[sum..].copy_from_slice(&checksum.to_le_bytes());
        if place < sum
            && let Ok(index) = Hnsw::<Sparse>::from_bytes(&edited)
        {
            let found = index.search(&bags(1, 17)[0], 60, None, Some(Plan::Graph));
            assert_eq!(
                found,
                index.search(&bags(1, 17)[0], 60, None, Some(Plan::Scan))
            );
        }
    }
    assert!(Hnsw::<Int8>::from_bytes(&file).is_err(), "another storage");
}

#[test]
fn a_scan_gives_the_nearest() {
    let (rows, queries) = (clustered(3_000, 70, 10, 18), random(30, 70, 19));
    let index = Hnsw::<Int8>::new(70, HnswParams::new(4, 20, 20, 16, 0).unwrap()).unwrap();
    index.add(borrowed(&rows)).unwrap();
    for query in &queries {
        let mut expected: Vec<(u64, u32)> = (0..)
            .zip(&rows)
            .map(|(id, row)| {
                let dot = |a: &[f32], b: &[f32]| -> f64 {
                    let products = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
                    products.sum()
                };
                let cosine = dot(query, row) / (dot(query, query) * dot(row, row)).sqrt();
                let distance = f64::from((1.0 - cosine) as f32);
                ((distance * 1e15) as u64, id)
            })
            .collect();
        expected.sort_unstable();
        let expected: Vec<u32> = expected.into_iter().take(10).map(|(_, id)| id).collect();
        assert_eq!(
            ids(&index.search(query, 10, None, Some(Plan::Scan))),
            expected
        );
    }
}
