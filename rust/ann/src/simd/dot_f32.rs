//! Dot products of rows of float32 and float16, in 32 lanes that are added up in one order on every path.
//!
//! A product is rounded before it is added (no fused multiply-add). Lane `i` takes the numbers `i`, `i + 32` and so
//! on, and the lanes are halved: 32 to 16 to 8 to 4 to 2 to 1. So a sum is the same to the last bit on every path.
//! In [`dot_exact`] the lanes are float64, in which products of float32 are exact.

#![allow(unsafe_code, reason = "loads of whole registers from slices")]
#![allow(clippy::wildcard_imports, reason = "the names of instructions")]
#![allow(
    clippy::inline_always,
    reason = "the functions of a path must be compiled for that path"
)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::simd::halve::halve;
#[cfg(target_arch = "x86_64")]
use crate::simd::halve::halve_avx2;
use crate::simd::rows::{Number, Rows};
use siltstone_core::simd::Level;

/// Rows are padded with zeros to a multiple of so many numbers.
pub const LANES: usize = 32;
/// How many rows ahead are prefetched.
const AHEAD: usize = 3;

/// `value` of a float16, exactly.
#[inline]
#[must_use]
pub fn from_half(half: u16) -> f32 {
    // Both cases are computed and one is selected, so that the compiler can vectorize.
    let wide = u32::from(half) << 16;
    let shifted = wide.wrapping_add(wide);
    let normal =
        f32::from_bits((shifted >> 4).wrapping_add(0xE0 << 23)) * f32::from_bits(0x0780_0000);
    let subnormal = f32::from_bits((shifted >> 17) | (126 << 23)) - 0.5;
    let value = if shifted < 1 << 27 { subnormal } else { normal };
    f32::from_bits((wide & 0x8000_0000) | value.to_bits())
}

/// The float16 nearest to `value`, the even one of two equally near ones; infinity beyond 65,504.
#[must_use]
pub fn to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, doubled) = ((bits >> 16) & 0x8000, bits.wrapping_add(bits));
    // Adding a power of two rounds at the last bit of a float16.
    let magnitude = (value.abs() * f32::from_bits(0x7780_0000)) * f32::from_bits(0x0880_0000);
    let exponent = (doubled & 0xFF00_0000).max(0x7100_0000);
    let rounded = (f32::from_bits((exponent >> 1) + 0x0780_0000) + magnitude).to_bits();
    let half = ((rounded >> 13) & 0x7C00) + (rounded & 0xFFF);
    let half = if doubled > 0xFF00_0000 { 0x7E00 } else { half };
    u16::try_from(sign | half).unwrap_or(0x7E00)
}

/// A type of numbers that a query of float32 can be multiplied with.
pub trait Float: Number {
    #[doc(hidden)]
    fn widen(self) -> f32;
    #[cfg(target_arch = "x86_64")]
    #[doc(hidden)]
    /// # Safety
    /// The processor has `avx2` and `f16c`, and 8 numbers lie at `from`.
    unsafe fn load8(from: *const Self) -> __m256;
}

impl Float for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load8(from: *const Self) -> __m256 {
        // SAFETY: 8 numbers lie there.
        unsafe { _mm256_loadu_ps(from) }
    }
}

/// A float16, as its bits.
impl Float for u16 {
    /// Only for finite numbers, as rows have them: a shift and an exact product then cover all cases.
    #[inline(always)]
    fn widen(self) -> f32 {
        let (sign, magnitude) = (u32::from(self & 0x8000), u32::from(self & 0x7FFF));
        f32::from_bits(sign << 16 | magnitude << 13) * f32::from_bits(0x7780_0000) // 2^112
    }
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load8(from: *const Self) -> __m256 {
        // SAFETY: 8 numbers lie there.
        _mm256_cvtph_ps(unsafe { _mm_loadu_si128(from.cast()) })
    }
}

/// Appends the dot products of `query` with the rows `ids`, in their order, to `dots`.
///
/// # Panics
///
/// If a row was not published, or is not as long as the query, which must be a multiple of [`LANES`].
pub fn dot_each<T: Float>(
    level: Level,
    query: &[f32],
    rows: &Rows<T>,
    ids: &[u32],
    dots: &mut Vec<f32>,
) {
    check(query.len(), rows.stride());
    dots.reserve(ids.len());
    match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there is no `Level` for instructions that the processor lacks; all rows have whole registers.
        siltstone_core::simd::Path::Avx2 => unsafe { avx2_each(query, rows, ids, dots) },
        _ => ahead(rows, ids, |row| dots.push(scalar(query, row))),
    }
}

/// The dot product of `query` and `row`, and that of `row` with itself, summed in float64.
///
/// Every product is exact in float64, so the sums are accurate to 15 digits, and rows with the same numbers give
/// the same bits.
///
/// # Panics
///
/// If the lengths differ, or are not a multiple of [`LANES`].
#[must_use]
pub fn dot_exact(level: Level, query: &[f32], row: &[f32]) -> (f64, f64) {
    check(query.len(), row.len());
    match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there is no `Level` for instructions that the processor lacks.
        siltstone_core::simd::Path::Avx2 => unsafe { exact_avx2(query, row) },
        _ => exact(query, row),
    }
}

fn check(length: usize, other: usize) {
    assert!(
        length == other && length.is_multiple_of(LANES),
        "rows must be of one length, a multiple of {LANES}"
    );
}

/// Calls `visit` with each row, and prefetches the next ones.
#[inline(always)]
fn ahead<'a, T: Number>(rows: &'a Rows<T>, ids: &[u32], mut visit: impl FnMut(&'a [T])) {
    for &id in ids.iter().take(AHEAD) {
        rows.prefetch(id);
    }
    for (place, &id) in ids.iter().enumerate() {
        if let Some(&next) = ids.get(place + AHEAD) {
            rows.prefetch(next);
        }
        visit(rows.get(id));
    }
}

/// The portable counterpart, without special instructions.
fn scalar<T: Float>(query: &[f32], row: &[T]) -> f32 {
    let mut lanes = [0_f32; LANES];
    for (query, row) in query.chunks_exact(LANES).zip(row.chunks_exact(LANES)) {
        for ((lane, &query), &row) in lanes.iter_mut().zip(query).zip(row) {
            *lane += query * row.widen();
        }
    }
    let (low, high) = lanes.split_at(LANES / 2);
    halve(std::array::from_fn(|lane| low[lane] + high[lane]))
}

/// The portable sums in float64. It is compiled for each path too, since the order of rounding is fixed.
#[inline(always)]
fn exact(query: &[f32], row: &[f32]) -> (f64, f64) {
    let (mut dots, mut norms) = ([0_f64; LANES], [0_f64; LANES]);
    for (query, row) in query.chunks_exact(LANES).zip(row.chunks_exact(LANES)) {
        for lane in 0..LANES {
            let (query, row) = (f64::from(query[lane]), f64::from(row[lane]));
            dots[lane] += query * row;
            norms[lane] += row * row;
        }
    }
    for half in [16, 8, 4, 2, 1] {
        for lane in 0..half {
            dots[lane] += dots[lane + half];
            norms[lane] += norms[lane + half];
        }
    }
    (dots[0], norms[0])
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn exact_avx2(query: &[f32], row: &[f32]) -> (f64, f64) {
    exact(query, row)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn avx2_each<T: Float>(query: &[f32], rows: &Rows<T>, ids: &[u32], dots: &mut Vec<f32>) {
    ahead(rows, ids, |row| {
        let mut sums = [_mm256_setzero_ps(); 4];
        for start in (0..query.len()).step_by(LANES) {
            for (quarter, sum) in sums.iter_mut().enumerate() {
                let place = start + quarter * 8;
                // SAFETY: the row is as long as the query, a multiple of 32: 8 lie at `place` in either.
                let (query, row) = unsafe {
                    (
                        _mm256_loadu_ps(query.as_ptr().add(place)),
                        T::load8(row.as_ptr().add(place)),
                    )
                };
                *sum = _mm256_add_ps(*sum, _mm256_mul_ps(query, row));
            }
        }
        let (low, high) = (
            _mm256_add_ps(sums[0], sums[2]),
            _mm256_add_ps(sums[1], sums[3]),
        );
        dots.push(halve_avx2(low, high));
    });
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::simd::rows::RowsWriter;

    fn padded(mut values: Vec<f32>) -> Vec<f32> {
        values.resize(values.len().next_multiple_of(LANES).max(LANES), 0.0);
        values
    }

    proptest! {
        #[test]
        fn every_path_gives_the_twins_bits(
            pairs in vec((-1.0_f32..1.0, -1e3_f32..1e3), 1..300),
            picked in vec(0_u32..2, 0..7),
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let (a, b) = (padded(a), padded(b));
            let (mut rows, mut halves) = (RowsWriter::new(a.len()), RowsWriter::new(a.len()));
            for row in [&b, &a] {
                rows.push(row);
                halves.push(&row.iter().map(|&value| to_half(value)).collect::<Vec<u16>>());
            }
            for level in Level::all() {
                let (mut dots, mut from_halves) = (Vec::new(), Vec::new());
                dot_each(level, &a, &*rows, &picked, &mut dots);
                dot_each(level, &a, &*halves, &picked, &mut from_halves);
                for ((&id, dot), half) in picked.iter().zip(dots).zip(from_halves) {
                    prop_assert_eq!(dot.to_bits(), scalar(&a, rows.get(id)).to_bits(), "{}", level);
                    prop_assert_eq!(half.to_bits(), scalar(&a, halves.get(id)).to_bits(), "{}", level);
                }
                let (dot, norm) = dot_exact(level, &a, &b);
                let twin = exact(&a, &b);
                prop_assert_eq!((dot.to_bits(), norm.to_bits()), (twin.0.to_bits(), twin.1.to_bits()));
            }
        }

        #[test]
        fn the_nearest_half_is_taken(value in -70_000.0_f32..70_000.0, small in -1e-4_f32..1e-4) {
            for value in [value, small] {
                let half = to_half(value);
                let error = (f64::from(from_half(half)) - f64::from(value)).abs();
                for other in [half.wrapping_sub(1), half.wrapping_add(1)] {
                    let other = f64::from(from_half(other));
                    if other.is_finite() && value.abs() < 65_520.0 {
                        prop_assert!(error <= (other - f64::from(value)).abs(), "{value}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_half_is_itself_again() {
        for half in 0..=u16::MAX {
            let value = from_half(half);
            if value.is_nan() {
                assert!(from_half(to_half(value)).is_nan());
            } else {
                assert_eq!(to_half(value), half, "{value}");
                if value.is_finite() {
                    assert_eq!(half.widen().to_bits(), value.to_bits(), "{value}");
                }
            }
        }
        assert!((from_half(0x3C00) - 1.0).abs() < f32::EPSILON);
        assert!((from_half(0x0001) - 2.0_f32.powi(-24)).abs() < f32::MIN_POSITIVE);
        assert_eq!(to_half(65_520.0), 0x7C00);
        assert_eq!(to_half(1.0 + 1.0 / 2048.0), 0x3C00); // half way: the even one
    }
}
