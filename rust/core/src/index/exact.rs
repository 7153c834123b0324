//! Exact cosine search: for each bucket, the rows that hit it.

use crate::index::base::{Neighbor, VectorIndex, distance};
use crate::vector::{BUCKETS, SparseRow};

/// Inverted lists over the buckets, with counts; dots are sums of integers.
///
/// ```
/// use siltstone_core::index::{ExactIndex, VectorIndex};
/// use siltstone_core::SparseRow;
///
/// let row = |counts: &[(u16, u32)]| counts.iter().copied().collect::<SparseRow>();
/// let mut index = ExactIndex::default();
/// index.add(&row(&[(1, 1), (2, 1)]));
/// index.add(&row(&[(3, 1)]));
/// let found = index.search(&row(&[(1, 2), (2, 2)]), 5);
/// assert_eq!(found.len(), 1); // the other row shares no bucket
/// assert!((found[0].id, found[0].distance) == (0, 0.0)); // the same direction
/// ```
#[derive(Clone, Debug)]
pub struct ExactIndex {
    /// For each bucket the rows that hit it, ascending, and how often.
    lists: Vec<Vec<(u32, u32)>>,
    squared_norms: Vec<u64>,
}

impl Default for ExactIndex {
    fn default() -> Self {
        Self {
            lists: vec![Vec::new(); BUCKETS],
            squared_norms: Vec::new(),
        }
    }
}

impl ExactIndex {
    /// How many pairs of a row and a bucket it holds.
    #[must_use]
    pub fn postings(&self) -> usize {
        self.lists.iter().map(Vec::len).sum()
    }
}

impl VectorIndex for ExactIndex {
    fn add(&mut self, row: &SparseRow) -> u32 {
        let id = u32::try_from(self.len()).expect("an index in memory holds fewer than 2^32 rows");
        for (bucket, count) in row.iter() {
            self.lists[usize::from(bucket)].push((id, count));
        }
        self.squared_norms.push(row.squared_norm());
        id
    }

    fn len(&self) -> usize {
        self.squared_norms.len()
    }

    fn for_each_match(&self, query: &SparseRow, visit: &mut dyn FnMut(Neighbor)) {
        let mut dots = vec![0_u64; self.len()];
        for (bucket, count) in query.iter() {
            for &(id, row_count) in &self.lists[usize::from(bucket)] {
                dots[id as usize] += u64::from(count) * u64::from(row_count);
            }
        }
        let squared_norm = query.squared_norm();
        for ((id, &dot), &row_squared_norm) in (0..).zip(&dots).zip(&self.squared_norms) {
            if dot > 0 {
                visit(Neighbor {
                    id,
                    distance: distance(dot, squared_norm, row_squared_norm),
                });
            }
        }
    }
}
