//! Rows of floats that are compared as they are: float32, and float16 in half the memory.

use std::borrow::Cow;

use crate::simd::dot_f32;
use crate::simd::rows::{Rows, RowsWriter};
use crate::space::base::{Bytes, Space, corrupt, cosine_distance, full};
use crate::space::scale::scaled;
use siltstone_core::Result;
use siltstone_core::simd::Level;

/// More than the error of sums in float32 in the quick distance of a long row, in radians.
const ROUNDING: f64 = 1e-4;

/// Rows of floats of one width, and the inverse length of each row.
pub struct Floats<T: Stored> {
    dimension: usize,
    values: Rows<T>,
    inverses: Rows<f32>,
}

/// Float32: exact, the most memory.
pub type Float32 = Floats<f32>;

/// Float16: rows and queries are rounded to 11 bits a number.
pub type Float16 = Floats<u16>;

/// A number as it is stored.
pub trait Stored: dot_f32::Float {
    /// The name of the storage.
    const NAME: &'static str;

    /// `value`, as it is stored.
    fn narrow(value: f32) -> Self;

    /// The stored value, as a float32.
    fn value(self) -> f32;

    /// Stored values as float32: themselves where they are.
    fn values(row: &[Self]) -> Cow<'_, [f32]> {
        row.iter().map(|value| value.value()).collect()
    }
}

impl Stored for f32 {
    const NAME: &'static str = "f32";

    fn narrow(value: f32) -> Self {
        value
    }

    fn value(self) -> f32 {
        self
    }

    fn values(row: &[Self]) -> Cow<'_, [f32]> {
        Cow::Borrowed(row)
    }
}

impl Stored for u16 {
    const NAME: &'static str = "f16";

    fn narrow(value: f32) -> Self {
        dot_f32::to_half(value)
    }

    fn value(self) -> f32 {
        dot_f32::from_half(self)
    }
}

/// The right to add rows to [`Floats`].
pub struct FloatsWriter<T: Stored> {
    values: RowsWriter<T>,
    inverses: RowsWriter<f32>,
}

/// A query of floats.
pub struct FloatsQuery {
    level: Level,
    values: Vec<f32>,
    squared_norm: f64,
    inverse: f32,
}

impl<T: Stored> Floats<T> {
    fn row(&self, id: u32) -> Cow<'_, [f32]> {
        T::values(self.values.get(id))
    }
}

impl<T: Stored> Space for Floats<T> {
    type Item = [f32];
    type Owned = Vec<f32>;
    type Query = FloatsQuery;
    type Writer = FloatsWriter<T>;

    const NAME: &'static str = T::NAME;

    fn new(dimension: usize) -> (Self, FloatsWriter<T>) {
        let writer = FloatsWriter {
            values: RowsWriter::new(dimension.next_multiple_of(dot_f32::LANES)),
            inverses: RowsWriter::new(1),
        };
        let space = Self {
            dimension,
            values: writer.values.reader(),
            inverses: writer.inverses.reader(),
        };
        (space, writer)
    }

    fn zeros(dimension: usize) -> Vec<f32> {
        vec![0.0; dimension]
    }

    fn push(&self, writer: &mut FloatsWriter<T>, item: &[f32]) -> Result<(u32, bool)> {
        let Some(values) = scaled(item) else {
            writer.inverses.push(&[0.0]).ok_or_else(full)?;
            let id = writer.values.push(&[]).ok_or_else(full)?;
            return Ok((id, false));
        };
        let stored: Vec<T> = values.iter().map(|&value| T::narrow(value)).collect();
        let inverse = inverse(squared_norm(stored.iter().map(|value| value.value())));
        writer.inverses.push(&[inverse]).ok_or_else(full)?;
        let id = writer.values.push(&stored).ok_or_else(full)?;
        Ok((id, true))
    }

    fn blank(&self) -> FloatsQuery {
        FloatsQuery {
            level: Level::current(),
            values: Vec::new(),
            squared_norm: 0.0,
            inverse: 0.0,
        }
    }

    fn ask(&self, item: &[f32], query: &mut FloatsQuery) -> bool {
        query.level = Level::current();
        let Some(values) = scaled(item) else {
            return false;
        };
        query.values.clear();
        query
            .values
            .extend(values.iter().map(|&value| T::narrow(value).value()));
        query.values.resize(self.values.stride(), 0.0);
        query.squared_norm = dot_f32::dot_exact(query.level, &query.values, &query.values).0;
        query.inverse = inverse(query.squared_norm);
        true
    }

    fn load(&self, id: u32, query: &mut FloatsQuery) {
        query.values.clear();
        query
            .values
            .extend(self.values.get(id).iter().map(|value| value.value()));
        query.inverse = self.inverses.get(id)[0];
    }

    fn distances(&self, query: &mut FloatsQuery, ids: &[u32], distances: &mut Vec<f32>) {
        distances.clear();
        dot_f32::dot_each(query.level, &query.values, &self.values, ids, distances);
        for (&id, distance) in ids.iter().zip(distances) {
            let cosine = *distance * (query.inverse * self.inverses.get(id)[0]);
            *distance = (1.0 - cosine).clamp(0.0, 2.0);
        }
    }

    fn exact(&self, query: &FloatsQuery, id: u32) -> f64 {
        let (dot, norm) = dot_f32::dot_exact(query.level, &query.values, &self.row(id));
        cosine_distance(dot, query.squared_norm, norm)
    }

    fn slack(&self, _: &FloatsQuery) -> f64 {
        ROUNDING
    }

    fn encode(&self, id: u32, file: &mut Vec<u8>) {
        encode_floats(&self.row(id)[..self.dimension], file);
    }

    fn decode(dimension: usize, file: &mut Bytes<'_>) -> Result<Vec<f32>> {
        decode_floats(dimension, file)
    }
}

fn squared_norm(values: impl Iterator<Item = f32>) -> f64 {
    values
        .map(|value| f64::from(value) * f64::from(value))
        .sum()
}

#[expect(clippy::cast_possible_truncation, reason = "for quick distances")]
fn inverse(squared_norm: f64) -> f32 {
    (1.0 / squared_norm.sqrt()) as f32
}

pub(super) fn encode_floats(values: &[f32], file: &mut Vec<u8>) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// Reads the numbers of a row; scaled rows are at most 1 in size.
pub(super) fn decode_floats(dimension: usize, file: &mut Bytes<'_>) -> Result<Vec<f32>> {
    let (numbers, _) = file.take(dimension * size_of::<f32>())?.as_chunks();
    let values: Vec<f32> = numbers
        .iter()
        .map(|&bytes| f32::from_le_bytes(bytes))
        .collect();
    let bounded = values.iter().all(|value| value.abs() <= 1.0);
    bounded
        .then_some(values)
        .ok_or_else(|| corrupt("a number of a row is out of -1 to 1"))
}
