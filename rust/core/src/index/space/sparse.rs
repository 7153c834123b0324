//! Rows of counts: as codes, and a query as a table that they look into.

use crate::error::Result;
use crate::index::base::distance;
use crate::index::space::base::{Bytes, Space, corrupt, full};
use crate::simd::rows::{Rows, RowsWriter};
use crate::simd::{Level, gather};
use crate::vector::{BUCKETS, SparseRow};

/// Radians by which sums in float32 may shift a quick distance, and more.
const ROUNDING: f64 = 1e-4;
/// Where a row's codes begin, how many runs of 16 they take, one over its length.
const FACTS: usize = 4;

/// Rows of 4,096 counts, as their codes.
pub struct Sparse {
    codes: Rows<u16>,
    facts: Rows<u32>,
}

/// The right to add rows to a [`Sparse`].
pub struct SparseWriter {
    codes: RowsWriter<u16>,
    facts: RowsWriter<u32>,
}

/// A query as a table of weights.
pub struct SparseQuery {
    level: Level,
    table: Box<gather::Table>,
    /// What the table was made of.
    codes: Vec<u16>,
    /// For exact distances.
    row: SparseRow,
    inverse: f32,
}

impl Sparse {
    #[inline]
    fn run(&self, id: u32) -> (&[u16], f32) {
        let facts = self.facts.get(id);
        (self.codes.run(facts[0], facts[1]), f32::from_bits(facts[2]))
    }

    fn row(&self, id: u32) -> SparseRow {
        let codes = self.run(id).0.iter().copied();
        let codes = codes.take_while(|&code| code != 0).collect(); // a count of 0 is the filling
        SparseRow::from_codes(codes).expect("codes of a row were put there")
    }
}

impl SparseQuery {
    /// Sets the table. A count above 15 is several codes, whose sum is exact below 2^24.
    fn set(&mut self, codes: &[u16], inverse: f32) {
        for &code in &self.codes {
            self.table[gather::bucket(code)] = 0.0;
        }
        self.codes.clear();
        self.codes.extend_from_slice(codes);
        for &code in codes {
            self.table[gather::bucket(code)] += gather::count(code);
        }
        self.inverse = inverse;
    }
}

impl Space for Sparse {
    type Item = SparseRow;
    type Owned = SparseRow;
    type Query = SparseQuery;
    type Writer = SparseWriter;

    const NAME: &'static str = "sparse";

    fn new(_: usize) -> (Self, SparseWriter) {
        let writer = SparseWriter {
            codes: RowsWriter::new(gather::LANES),
            facts: RowsWriter::new(FACTS),
        };
        let space = Self {
            codes: writer.codes.reader(),
            facts: writer.facts.reader(),
        };
        (space, writer)
    }

    fn zeros(_: usize) -> SparseRow {
        SparseRow::default()
    }

    fn push(&self, writer: &mut SparseWriter, item: &SparseRow) -> Result<(u32, bool)> {
        let codes = item.codes();
        let count =
            u32::try_from(codes.len().div_ceil(gather::LANES).max(1)).map_err(|_| full())?;
        let first = writer.codes.push(codes).ok_or_else(full)?;
        let facts = [first, count, inverse(item).to_bits(), 0];
        let id = writer.facts.push(&facts).ok_or_else(full)?;
        Ok((id, !item.is_zero()))
    }

    fn blank(&self) -> SparseQuery {
        SparseQuery {
            level: Level::current(),
            table: Box::new([0.0; BUCKETS]),
            codes: Vec::new(),
            row: SparseRow::default(),
            inverse: 0.0,
        }
    }

    fn ask(&self, item: &SparseRow, query: &mut SparseQuery) -> bool {
        query.level = Level::current();
        query.set(item.codes(), inverse(item));
        query.row = item.clone();
        !item.is_zero()
    }

    fn load(&self, id: u32, query: &mut SparseQuery) {
        let (codes, inverse) = self.run(id);
        query.set(codes, inverse);
    }

    fn distances(&self, query: &mut SparseQuery, ids: &[u32], distances: &mut Vec<f32>) {
        const AHEAD: usize = 4;
        distances.clear();
        for &id in ids {
            self.facts.prefetch(id);
        }
        for (place, &id) in ids.iter().enumerate() {
            if place == 0 {
                ids.iter().take(AHEAD).for_each(|&id| self.prefetch(id));
            }
            if let Some(&next) = ids.get(place + AHEAD) {
                self.prefetch(next);
            }
            let (codes, inverse) = self.run(id);
            let cosine = gather::dot(query.level, &query.table, codes) * (query.inverse * inverse);
            distances.push((1.0 - cosine).clamp(0.0, 2.0));
        }
    }

    fn exact(&self, query: &SparseQuery, id: u32) -> f64 {
        let row = self.row(id);
        let norms = (query.row.squared_norm(), row.squared_norm());
        distance(query.row.dot(&row), norms.0, norms.1)
    }

    fn slack(&self, _: &SparseQuery) -> f64 {
        ROUNDING
    }

    fn encode(&self, id: u32, file: &mut Vec<u8>) {
        let row = self.row(id);
        let count = u32::try_from(row.codes().len()).expect("a row has fewer than 2^32 codes");
        file.extend(count.to_le_bytes());
        file.extend(row.codes().iter().flat_map(|code| code.to_le_bytes()));
    }

    fn decode(_: usize, file: &mut Bytes<'_>) -> Result<SparseRow> {
        let count = file.u32()? as usize;
        let (codes, _) = file
            .take(count.saturating_mul(size_of::<u16>()))?
            .as_chunks();
        let codes = codes.iter().map(|&code| u16::from_le_bytes(code)).collect();
        SparseRow::from_codes(codes).map_err(|_| corrupt("the codes of a row are no such codes"))
    }
}

impl Sparse {
    #[inline]
    fn prefetch(&self, id: u32) {
        let facts = self.facts.get(id);
        crate::simd::rows::prefetch(self.codes.run(facts[0], facts[1]));
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "for quick distances"
)]
fn inverse(row: &SparseRow) -> f32 {
    match row.squared_norm() {
        0 => 0.0,
        norm => (1.0 / (norm as f64).sqrt()) as f32,
    }
}
