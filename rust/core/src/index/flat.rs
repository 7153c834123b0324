//! Brute force: compares the query with every row. Tests compare the other indexes with it.

use crate::index::base::{Neighbor, VectorIndex, distance};
use crate::vector::SparseRow;

/// All rows, one after another.
#[derive(Clone, Debug, Default)]
pub struct FlatIndex {
    rows: Vec<SparseRow>,
}

impl VectorIndex for FlatIndex {
    fn add(&mut self, row: &SparseRow) -> u32 {
        let id = u32::try_from(self.len()).expect("an index in memory holds fewer than 2^32 rows");
        self.rows.push(row.clone());
        id
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn for_each_match(&self, query: &SparseRow, visit: &mut dyn FnMut(Neighbor)) {
        for (id, row) in (0..).zip(&self.rows) {
            let dot = query.dot(row);
            if dot > 0 {
                visit(Neighbor {
                    id,
                    distance: distance(dot, query.squared_norm(), row.squared_norm()),
                });
            }
        }
    }
}
