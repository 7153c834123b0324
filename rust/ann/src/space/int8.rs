//! Rows of floats with bytes beside them: bytes for the quick distances of a search, floats for the exact ones of
//! its answer.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::simd::packed_i8::{self, packed};
use crate::simd::rows::{Rows, RowsWriter};
use crate::simd::{dot_f32, dot_i8};
use crate::space::base::{Bytes, Space, corrupt, cosine_distance, full};
use crate::space::scale::scaled;
use siltstone_core::Result;
use siltstone_core::simd::Level;

/// The largest byte: -128 is not used, so that every value has its opposite.
const GREATEST: f32 = 127.0;
/// More than the error of rounding in float32 in a quick distance, in radians.
const ROUNDING: f64 = 2e-6;

/// Rows as bytes with one scale for each row, and as float32 for exact distances.
///
/// A row is scaled so that its largest number is 127 in size, and rounded. The quick distance is the cosine
/// distance of the bytes: an integer divided by two lengths, which is the same on every machine.
pub struct Int8 {
    dimension: usize,
    codes: Rows<u16>,
    /// The inverse length of the codes; 0 for a row of zeros.
    inverses: Rows<f32>,
    floats: Rows<f32>,
    /// The largest angle between a row and its codes, as the bits of a float32.
    slack: AtomicU32,
}

/// The right to add rows to an [`Int8`].
pub struct Int8Writer {
    codes: RowsWriter<u16>,
    inverses: RowsWriter<f32>,
    floats: RowsWriter<f32>,
}

/// A query as bytes and as floats.
pub struct Int8Query {
    level: Level,
    codes: packed_i8::Query,
    inverse: f32,
    floats: Vec<f32>,
    squared_norm: f64,
    slack: f64,
    dots: Vec<i32>,
}

impl Space for Int8 {
    type Item = [f32];
    type Owned = Vec<f32>;
    type Query = Int8Query;
    type Writer = Int8Writer;

    const NAME: &'static str = "i8";

    fn new(dimension: usize) -> (Self, Int8Writer) {
        let writer = Int8Writer {
            codes: RowsWriter::new(dimension.next_multiple_of(packed_i8::LANES) / 2),
            inverses: RowsWriter::new(1),
            floats: RowsWriter::new(dimension.next_multiple_of(dot_f32::LANES)),
        };
        let space = Self {
            dimension,
            codes: writer.codes.reader(),
            inverses: writer.inverses.reader(),
            floats: writer.floats.reader(),
            slack: AtomicU32::new(0),
        };
        (space, writer)
    }

    fn zeros(dimension: usize) -> Vec<f32> {
        vec![0.0; dimension]
    }

    fn push(&self, writer: &mut Int8Writer, item: &[f32]) -> Result<(u32, bool)> {
        let Some(values) = scaled(item) else {
            writer
                .codes
                .push(&packed(&[], self.dimension))
                .ok_or_else(full)?;
            writer.inverses.push(&[0.0]).ok_or_else(full)?;
            let id = writer.floats.push(&[]).ok_or_else(full)?;
            return Ok((id, false));
        };
        let mut codes = Vec::with_capacity(values.len());
        let (inverse, angle) = quantise(&values, &mut codes);
        #[expect(clippy::cast_possible_truncation, reason = "a bound, rounded up")]
        let bound = (angle as f32).next_up();
        // Angles are not negative, so their bits have the same order.
        self.slack.fetch_max(bound.to_bits(), Ordering::Relaxed);
        writer
            .codes
            .push(&packed(&codes, self.dimension))
            .ok_or_else(full)?;
        writer.inverses.push(&[inverse]).ok_or_else(full)?;
        let id = writer.floats.push(&values).ok_or_else(full)?;
        Ok((id, true))
    }

    fn blank(&self) -> Int8Query {
        Int8Query {
            level: Level::current(),
            codes: packed_i8::Query::new(Level::current()),
            inverse: 0.0,
            floats: Vec::new(),
            squared_norm: 0.0,
            slack: 0.0,
            dots: Vec::new(),
        }
    }

    fn ask(&self, item: &[f32], query: &mut Int8Query) -> bool {
        query.level = Level::current();
        let Some(values) = scaled(item) else {
            return false;
        };
        let mut codes = Vec::with_capacity(values.len());
        (query.inverse, query.slack) = quantise(&values, &mut codes);
        let row = packed(&codes, self.dimension);
        query.codes.set(query.level, &row);
        query.floats.clear();
        query.floats.extend_from_slice(&values);
        query.floats.resize(self.floats.stride(), 0.0);
        query.squared_norm = dot_f32::dot_exact(&query.floats, &query.floats).0;
        true
    }

    fn load(&self, id: u32, query: &mut Int8Query) {
        query.codes.set(query.level, self.codes.get(id));
        query.inverse = self.inverses.get(id)[0];
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a quick distance: 24 bits of the sum are enough"
    )]
    fn distances(&self, query: &mut Int8Query, ids: &[u32], distances: &mut Vec<f32>) {
        query.dots.clear();
        dot_i8::dot_each(&query.codes, &self.codes, ids, &mut query.dots);
        distances.clear();
        distances.extend(ids.iter().zip(&query.dots).map(|(&id, &dot)| {
            let cosine = dot as f32 * (query.inverse * self.inverses.get(id)[0]);
            (1.0 - cosine).clamp(0.0, 2.0)
        }));
    }

    fn exact(&self, query: &Int8Query, id: u32) -> f64 {
        let (dot, norm) = dot_f32::dot_exact(&query.floats, self.floats.get(id));
        cosine_distance(dot, query.squared_norm, norm)
    }

    fn fetch(&self, id: u32) {
        self.floats.prefetch(id);
    }

    fn slack(&self, query: &Int8Query) -> f64 {
        f64::from(f32::from_bits(self.slack.load(Ordering::Relaxed))) + query.slack + ROUNDING
    }

    fn encode(&self, id: u32, file: &mut Vec<u8>) {
        let values = self.floats.get(id)[..self.dimension].iter();
        file.extend(values.flat_map(|value| value.to_le_bytes()));
    }

    fn decode(dimension: usize, file: &mut Bytes<'_>) -> Result<Vec<f32>> {
        let (numbers, _) = file.take(dimension * size_of::<f32>())?.as_chunks();
        let values = numbers.iter().map(|&bytes| f32::from_le_bytes(bytes));
        let values: Vec<f32> = values.collect();
        let bounded = values.iter().all(|value| value.abs() <= 1.0); // as scaled rows are
        bounded
            .then_some(values)
            .ok_or_else(|| corrupt("a number of a row is out of -1 to 1"))
    }
}

/// Writes the bytes of a row that has a direction; returns their inverse length, and the angle between row and
/// bytes.
fn quantise(values: &[f32], codes: &mut Vec<i8>) -> (f32, f64) {
    let greatest = values
        .iter()
        .fold(0.0_f32, |most, value| most.max(value.abs()));
    let factor = GREATEST / greatest;
    #[expect(clippy::cast_possible_truncation, reason = "at most 127 in size")]
    codes.extend(values.iter().map(|&value| rounded(value * factor) as i8));
    let (mut dot, mut norm, mut code_norm) = (0.0_f64, 0.0_f64, 0_i64);
    for (&value, &code) in values.iter().zip(codes.iter()) {
        let value = f64::from(value);
        dot += value * f64::from(code);
        norm += value * value;
        code_norm += i64::from(code) * i64::from(code);
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 127^2 * 65,536 < 2^53")]
    let code_norm = code_norm as f64;
    let cosine = (dot / (norm * code_norm).sqrt()).clamp(-1.0, 1.0);
    #[expect(clippy::cast_possible_truncation, reason = "a quick distance")]
    let inverse = (1.0 / code_norm.sqrt()) as f32;
    (inverse, cosine.acos())
}

/// The whole number nearest to `value`, which is small; the even one of two equally near ones. The addition does
/// the rounding, so it can be vectorized on every machine.
#[inline]
fn rounded(value: f32) -> f32 {
    const WHOLE: f32 = 12_582_912.0; // 2^23 + 2^22: floats of that size are whole numbers
    (value + WHOLE) - WHOLE
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_quick_distance_is_within_the_slack_on_every_path(
            (a, b) in (1_usize..200).prop_flat_map(|length| {
                (vec(-1e3_f32..1e3, length), vec(-1.0_f32..1.0, length))
            }),
        ) {
            let (space, mut writer) = Int8::new(a.len());
            let (id, has_direction) = space.push(&mut writer, &b).unwrap();
            let mut before = None;
            for level in Level::all() {
                let mut query = space.blank();
                if !(level.run(|| space.ask(&a, &mut query)) && has_direction) {
                    continue;
                }
                let mut quick = Vec::new();
                space.distances(&mut query, &[id], &mut quick);
                let exact = space.exact(&query, id);
                let angle = |distance: f64| (1.0 - distance).clamp(-1.0, 1.0).acos();
                let off = (angle(f64::from(quick[0])) - angle(exact)).abs();
                // Near 0 and near pi an angle is the root of the distance, as float32 has it.
                prop_assert!(off <= space.slack(&query) + 1e-3, "{off} {}", space.slack(&query));
                let bits = (quick[0].to_bits(), exact.to_bits());
                prop_assert_eq!(*before.get_or_insert(bits), bits, "{}", level);
            }
        }
    }

    #[test]
    fn codes_worked_by_hand() {
        let mut codes = Vec::new();
        let (inverse, angle) = quantise(&[0.5, -1.0, 0.25], &mut codes);
        assert_eq!(codes, [64, -127, 32]); // 63.5 to the even side, 31.75
        assert!((inverse - 1.0 / 145.763_5).abs() < 1e-6, "{inverse}"); // sqrt(64^2 + 127^2 + 32^2)
        assert!(angle < 0.004, "{angle}");
    }
}
