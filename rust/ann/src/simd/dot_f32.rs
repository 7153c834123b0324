//! Dot products of rows of float32, in 32 lanes that are added up in one order on every path.
//!
//! Products of float32 are exact in float64, in which they are summed. Lane `i` takes the numbers `i`, `i + 32` and so
//! on, and the lanes are halved: 32 to 16 to 8 to 4 to 2 to 1. So a sum is the same to the last bit on every path.

#![allow(
    unsafe_code,
    reason = "a function is compiled for the instructions of a path"
)]
#![allow(
    clippy::inline_always,
    reason = "the functions of a path must be compiled for that path"
)]

use siltstone_core::simd::Level;

/// Rows are padded with zeros to a multiple of so many numbers.
pub const LANES: usize = 32;

/// The dot product of `query` and `row`, and that of `row` with itself, summed in float64.
///
/// The sums are accurate to 15 digits, and rows with the same numbers give the same bits.
///
/// # Panics
///
/// If the lengths differ, or are not a multiple of [`LANES`].
#[must_use]
pub fn dot_exact(level: Level, query: &[f32], row: &[f32]) -> (f64, f64) {
    assert!(
        query.len() == row.len() && query.len().is_multiple_of(LANES),
        "rows must be of one length, a multiple of {LANES}"
    );
    match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there is no `Level` for instructions that the processor lacks.
        siltstone_core::simd::Path::Avx2 => unsafe { exact_avx2(query, row) },
        _ => exact(query, row),
    }
}

/// The portable sums. They are compiled for each path too, since the order of rounding is fixed.
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_path_gives_the_twins_bits(
            pairs in vec((-1.0_f32..1.0, -1e3_f32..1e3), 1..300),
        ) {
            let (mut a, mut b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            for row in [&mut a, &mut b] {
                row.resize(row.len().next_multiple_of(LANES), 0.0);
            }
            let twin = exact(&a, &b);
            for level in Level::all() {
                let (dot, norm) = dot_exact(level, &a, &b);
                prop_assert_eq!((dot.to_bits(), norm.to_bits()), (twin.0.to_bits(), twin.1.to_bits()));
            }
        }
    }
}
