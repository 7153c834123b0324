//! Dense vectors of entries, and their cosines with a query.
//!
//! ```text
//! cosine(a, b) = dot(a, b) / (|a| * |b|), cut to -1..1; 0 where one of them is zero
//! dot(a, b)    = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
//! s_j          = sum of a_i * b_i over i = j, j + 8, j + 16 …
//! ```
//!
//! Products of two f32 are exact in f64, and the sums have a fixed order, so the bits are the same everywhere.

/// The number of parallel sums.
const LANES: usize = 8;

/// An entry, and the cosine of its nearest passage with the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near {
    /// The number of the entry.
    pub id: u32,
    /// 1 for the same direction, 0 for nothing in common, -1 for the opposite.
    pub cosine: f64,
    /// The nearest passage, from 0; of equally near ones the first.
    pub passage: u32,
    /// The number of passages of the entry.
    pub passages: u32,
}

/// An index of the vectors of entries. An exact index visits every entry, any other index visits the nearest.
pub trait DenseIndex: Send + Sync {
    /// Adds the vectors of entry `id`, which has none yet: one or more vectors in one list. Entries come in any order.
    fn add(&mut self, id: u32, vectors: &[f32]);

    /// The number of entries with vectors.
    fn len(&self) -> usize;

    /// Whether no entry has vectors.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The approximate bytes in memory.
    fn bytes(&self) -> usize;

    /// Calls `visit` once for each entry that may be near.
    fn for_each_near(&self, query: &[f32], visit: &mut dyn FnMut(Near));
}

/// All vectors in one list. The search is exact, and visits every entry in the order of adding.
///
/// ```
/// use siltstone_core::index::{DenseIndex, DenseScan};
///
/// let mut index = DenseScan::new(2);
/// index.add(7, &[1.0, 0.0, 0.6, 0.8]); // two passages
/// let mut found = Vec::new();
/// index.for_each_near(&[0.0, 2.0], &mut |near| found.push(near));
/// assert_eq!((found[0].id, found[0].passage), (7, 1));
/// assert!((found[0].cosine - 0.8).abs() < 1e-6);
/// ```
#[derive(Clone, Debug)]
pub struct DenseScan {
    dimension: usize,
    numbers: Vec<f32>,
    /// The norm of each vector.
    norms: Vec<f64>,
    /// The number of each entry, and the number of its vectors.
    entries: Vec<(u32, u32)>,
}

impl DenseScan {
    /// An empty index for vectors of `dimension` numbers, at least 1.
    #[must_use]
    pub fn new(dimension: usize) -> Self {
        Self {
            dimension: dimension.max(1),
            numbers: Vec::new(),
            norms: Vec::new(),
            entries: Vec::new(),
        }
    }
}

impl DenseIndex for DenseScan {
    fn add(&mut self, id: u32, vectors: &[f32]) {
        let rows = vectors.chunks_exact(self.dimension);
        self.entries.push((id, count(rows.len())));
        for row in rows {
            self.numbers.extend_from_slice(row);
            self.norms.push(dot(row, row).sqrt());
        }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn bytes(&self) -> usize {
        let norms = self.norms.capacity() * size_of::<f64>();
        let entries = self.entries.capacity() * size_of::<(u32, u32)>();
        self.numbers.capacity() * size_of::<f32>() + norms + entries
    }

    fn for_each_near(&self, query: &[f32], visit: &mut dyn FnMut(Near)) {
        let norm = dot(query, query).sqrt();
        let mut rows = self.numbers.chunks_exact(self.dimension).zip(&self.norms);
        for &(id, passages) in &self.entries {
            let mut best: Option<(f64, u32)> = None;
            for (passage, (row, row_norm)) in (0..passages).zip(rows.by_ref()) {
                let cosine = cosine(dot(query, row), norm * row_norm);
                if best.is_none_or(|(nearest, _)| cosine > nearest) {
                    best = Some((cosine, passage));
                }
            }
            if let Some((cosine, passage)) = best {
                visit(Near {
                    id,
                    cosine,
                    passage,
                    passages,
                });
            }
        }
    }
}

fn cosine(dot: f64, norms: f64) -> f64 {
    if norms > 0.0 {
        (dot / norms).clamp(-1.0, 1.0)
    } else {
        0.0
    }
}

fn dot(one: &[f32], other: &[f32]) -> f64 {
    let mut lanes = [0.0_f64; LANES];
    let ((ones, one_rest), (others, other_rest)) =
        (one.as_chunks::<LANES>(), other.as_chunks::<LANES>());
    for (a, b) in ones.iter().zip(others) {
        for lane in 0..LANES {
            lanes[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    for (lane, (&a, &b)) in lanes.iter_mut().zip(one_rest.iter().zip(other_rest)) {
        *lane += f64::from(a) * f64::from(b);
    }
    let pair = |first: usize| lanes[first] + lanes[first + 1];
    (pair(0) + pair(2)) + (pair(4) + pair(6))
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("an index in memory holds fewer than 2^32 vectors")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cosine_worked_by_hand() {
        // (3, 4) and (4, 3): dot 24, norms 5 and 5
        let mut index = DenseScan::new(2);
        index.add(0, &[3.0, 4.0]);
        index.add(5, &[0.0, 0.0]);
        let mut found = Vec::new();
        index.for_each_near(&[4.0, 3.0], &mut |near| found.push((near.id, near.cosine)));
        assert!((found[0].1 - 0.96).abs() < 1e-15);
        assert_eq!(found[1].0, 5);
        assert!(found[1].1.abs() < f64::MIN_POSITIVE); // the zero vector
        assert_eq!(index.len(), 2);
    }

    #[test]
    fn a_dot_of_any_length_is_the_sum_of_its_products() {
        for length in 0..40_u8 {
            let row: Vec<f32> = (0..length).map(f32::from).collect();
            let expected: f64 = (0..length).map(|n| f64::from(n) * f64::from(n)).sum();
            assert!((dot(&row, &row) - expected).abs() < 1e-9, "{length}");
        }
    }
}
