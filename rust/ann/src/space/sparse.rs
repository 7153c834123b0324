//! Rows of counts, stored as codes; a query is a table in which the buckets are looked up.

use crate::simd::rows::{Rows, RowsWriter};
use crate::space::base::{Bytes, Space, corrupt, full};
use siltstone_core::Result;
use siltstone_core::SparseRow;
use siltstone_core::index::distance;
use siltstone_core::vector::{BUCKETS, split};

/// More than the error of float32 in a quick distance, in radians.
const ROUNDING: f64 = 1e-4;
/// Numbers for each row: the start and the number of its runs, and its inverse length.
const FACTS: usize = 3;
/// Codes of a run; the last one of a row is filled up with codes of no count.
const RUN: usize = 16;

/// Rows of 4,096 counts, as the codes of a [`SparseRow`].
pub struct Sparse {
    runs: Rows<u16>,
    facts: Rows<u32>,
    /// The squared lengths, in two halves.
    norms: Rows<u32>,
}

/// The right to add rows to a [`Sparse`].
pub struct SparseWriter {
    runs: RowsWriter<u16>,
    facts: RowsWriter<u32>,
    norms: RowsWriter<u32>,
}

/// A query as a table of counts.
pub struct SparseQuery {
    table: Box<[u32; BUCKETS]>,
    /// The codes whose counts are in the table.
    row: Vec<u16>,
    inverse: f32,
    squared_norm: u64,
}

impl Sparse {
    /// The codes of a row, and its inverse length.
    #[inline]
    fn row(&self, id: u32) -> (&[u16], f32) {
        let facts = self.facts.get(id);
        (self.runs.run(facts[0], facts[1]), f32::from_bits(facts[2]))
    }
}

impl SparseQuery {
    fn set(&mut self, row: &[u16], inverse: f32) {
        for &code in &self.row {
            self.table[usize::from(split(code).0)] = 0;
        }
        for &code in row {
            let (bucket, count) = split(code);
            self.table[usize::from(bucket)] += count;
        }
        self.row.clear();
        self.row.extend_from_slice(row);
        self.inverse = inverse;
    }

    fn dot(&self, row: &[u16]) -> u64 {
        let products = row.iter().map(|&code| {
            let (bucket, count) = split(code);
            u64::from(count) * u64::from(self.table[usize::from(bucket)])
        });
        products.sum()
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
            runs: RowsWriter::new(RUN),
            facts: RowsWriter::new(FACTS),
            norms: RowsWriter::new(2),
        };
        let space = Self {
            runs: writer.runs.reader(),
            facts: writer.facts.reader(),
            norms: writer.norms.reader(),
        };
        (space, writer)
    }

    fn zeros(_: usize) -> SparseRow {
        SparseRow::default()
    }

    fn push(&self, writer: &mut SparseWriter, item: &SparseRow) -> Result<(u32, bool)> {
        let runs = item.codes().len().div_ceil(RUN).max(1);
        let runs = u32::try_from(runs).map_err(|_| full())?;
        let first = writer.runs.push(item.codes()).ok_or_else(full)?;
        let norm = item.squared_norm();
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let halves = [norm as u32, (norm >> 32) as u32];
        writer.norms.push(&halves).ok_or_else(full)?;
        let facts = [first, runs, inverse(norm).to_bits()];
        let id = writer.facts.push(&facts).ok_or_else(full)?;
        Ok((id, !item.is_zero()))
    }

    fn blank(&self) -> SparseQuery {
        SparseQuery {
            table: Box::new([0; BUCKETS]),
            row: Vec::new(),
            inverse: 0.0,
            squared_norm: 0,
        }
    }

    fn ask(&self, item: &SparseRow, query: &mut SparseQuery) -> bool {
        query.squared_norm = item.squared_norm();
        query.set(item.codes(), inverse(query.squared_norm));
        !item.is_zero()
    }

    fn load(&self, id: u32, query: &mut SparseQuery) {
        let (row, inverse) = self.row(id);
        query.set(row, inverse);
    }

    #[expect(clippy::cast_precision_loss, reason = "a quick distance")]
    fn distances(&self, query: &mut SparseQuery, ids: &[u32], distances: &mut Vec<f32>) {
        distances.clear();
        for &id in ids {
            let (row, inverse) = self.row(id);
            // Converted from a signed number, for which the processor has an instruction.
            let cosine = query.dot(row).cast_signed() as f32 * (query.inverse * inverse);
            distances.push((1.0 - cosine).clamp(0.0, 2.0));
        }
    }

    fn exact(&self, query: &SparseQuery, id: u32) -> f64 {
        let halves = self.norms.get(id);
        let squared_norm = u64::from(halves[0]) | u64::from(halves[1]) << 32;
        let dot = query.dot(self.row(id).0);
        distance(dot, query.squared_norm, squared_norm)
    }

    fn slack(&self, _: &SparseQuery) -> f64 {
        ROUNDING
    }

    fn encode(&self, id: u32, file: &mut Vec<u8>) {
        let codes = self.row(id).0.iter().filter(|&&code| split(code).1 > 0);
        let count = u32::try_from(codes.clone().count());
        let count = count.expect("a row has fewer than 2^32 codes");
        file.extend(count.to_le_bytes());
        file.extend(codes.flat_map(|code| code.to_le_bytes()));
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

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "for quick distances"
)]
fn inverse(squared_norm: u64) -> f32 {
    match squared_norm {
        0 => 0.0,
        norm => (1.0 / (norm as f64).sqrt()) as f32,
    }
}
