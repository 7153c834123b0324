//! Seeded rows for the tests of indexes.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::cast_precision_loss, reason = "small numbers")]

use siltstone_core::SparseRow;
use siltstone_core::index::Neighbor;

/// A small generator with a seed (`SplitMix64`), so that a failure can be repeated.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Nearly normal: the sum of four uniform numbers.
    pub fn normal(&mut self) -> f32 {
        let sum: u64 = (0..4).map(|_| self.below(1 << 16)).sum();
        (sum as f32 - 131_070.0) / 37_837.0
    }

    pub fn row(&mut self, dimension: usize) -> Vec<f32> {
        (0..dimension).map(|_| self.normal()).collect()
    }
}

pub fn random(count: usize, dimension: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut numbers = Numbers(seed);
    (0..count).map(|_| numbers.row(dimension)).collect()
}

/// Rows about `clusters` centres, one cluster after another: the order that cuts off most points.
pub fn clustered(count: usize, dimension: usize, clusters: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut numbers = Numbers(seed);
    let centres: Vec<_> = (0..clusters).map(|_| numbers.row(dimension)).collect();
    (0..count)
        .map(|row| {
            let centre = &centres[row * clusters / count];
            centre
                .iter()
                .map(|&value| value + 0.2 * numbers.normal())
                .collect()
        })
        .collect()
}

/// Bags of words, some words far more frequent than others.
pub fn bags(count: usize, seed: u64) -> Vec<SparseRow> {
    let mut numbers = Numbers(seed);
    (0..count)
        .map(|row| {
            let mut buckets = vec![u16::try_from(row % 4096).unwrap()];
            for _ in 0..40 {
                let rank = numbers.below(4096) * numbers.below(4096) / 4096;
                buckets.push(u16::try_from(rank).unwrap());
            }
            buckets.sort_unstable();
            let counted = buckets.chunk_by(|a, b| a == b);
            counted
                .map(|same| (same[0], u32::try_from(same.len()).unwrap()))
                .collect()
        })
        .collect()
}

pub fn borrowed(rows: &[Vec<f32>]) -> impl Iterator<Item = &[f32]> {
    rows.iter().map(Vec::as_slice)
}

pub fn ids(found: &[Neighbor]) -> Vec<u32> {
    found.iter().map(|neighbor| neighbor.id).collect()
}
