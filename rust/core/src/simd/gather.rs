//! Dot products of a table of 4,096 weights with rows of codes: 4 bits of a count, 12 of a bucket.
//!
//! Sixteen lanes, added up in one order on every path, as in [`dot_f32`](crate::simd::dot_f32). Counts and
//! weights that are small whole numbers give exact sums.

#![allow(
    unsafe_code,
    reason = "loads of whole registers from slices, and gathers"
)]
#![allow(clippy::wildcard_imports, reason = "the names of instructions")]
#![allow(
    clippy::inline_always,
    reason = "what a path calls must be compiled for that path"
)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::simd::halve::halve;
#[cfg(target_arch = "x86_64")]
use crate::simd::halve::{halve_avx2, halve_avx512};
use crate::simd::level::{Level, Path};

/// Rows are filled up to a multiple of so many codes with 0, which counts nothing.
pub const LANES: usize = 16;
/// How many buckets a code can name.
pub const BUCKETS: usize = 4096;

/// A weight for every bucket.
pub type Table = [f32; BUCKETS];

/// The bucket that a code names.
#[inline]
#[must_use]
pub fn bucket(code: u16) -> usize {
    usize::from(code & 0xFFF)
}

/// The count of a code, 0 to 15.
#[inline]
#[must_use]
pub fn count(code: u16) -> f32 {
    f32::from(code >> 12)
}

/// The sum over `codes` of the count times the weight of the bucket.
///
/// # Panics
///
/// Where their number is no multiple of [`LANES`].
#[inline]
#[must_use]
pub fn dot(level: Level, table: &Table, codes: &[u16]) -> f32 {
    assert!(
        codes.len().is_multiple_of(LANES),
        "codes come in multiples of {LANES}"
    );
    match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there is no `Level` of what the processor lacks; the codes fill whole registers.
        Path::Avx512 => unsafe { avx512(table, codes) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Path::Avx2 => unsafe { avx2(table, codes) },
        _ => scalar(table, codes),
    }
}

/// The twin.
fn scalar(table: &Table, codes: &[u16]) -> f32 {
    let mut lanes = [0_f32; LANES];
    for codes in codes.chunks_exact(LANES) {
        for (lane, &code) in lanes.iter_mut().zip(codes) {
            *lane += count(code) * table[bucket(code)];
        }
    }
    halve(lanes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f")]
unsafe fn avx512(table: &Table, codes: &[u16]) -> f32 {
    let mut sums = _mm512_setzero_ps();
    for codes in codes.chunks_exact(LANES) {
        // SAFETY: 16 codes lie there; a bucket is 12 bits, and the table has 4,096 weights.
        unsafe {
            let codes = _mm512_cvtepu16_epi32(_mm256_loadu_si256(codes.as_ptr().cast()));
            let buckets = _mm512_and_si512(codes, _mm512_set1_epi32(0xFFF));
            let weights = _mm512_i32gather_ps::<4>(buckets, table.as_ptr());
            let counts = _mm512_cvtepi32_ps(_mm512_srli_epi32::<12>(codes));
            sums = _mm512_add_ps(sums, _mm512_mul_ps(counts, weights));
        }
    }
    halve_avx512(sums)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(table: &Table, codes: &[u16]) -> f32 {
    let mut sums = [_mm256_setzero_ps(); 2];
    for codes in codes.chunks_exact(8 * 2) {
        for (half, sum) in sums.iter_mut().enumerate() {
            // SAFETY: 8 codes lie there; a bucket is 12 bits, and the table has 4,096 weights.
            unsafe {
                let codes = _mm_loadu_si128(codes.as_ptr().add(half * 8).cast());
                let codes = _mm256_cvtepu16_epi32(codes);
                let buckets = _mm256_and_si256(codes, _mm256_set1_epi32(0xFFF));
                let weights = _mm256_i32gather_ps::<4>(table.as_ptr(), buckets);
                let counts = _mm256_cvtepi32_ps(_mm256_srli_epi32::<12>(codes));
                *sum = _mm256_add_ps(*sum, _mm256_mul_ps(counts, weights));
            }
        }
    }
    halve_avx2(sums[0], sums[1])
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_path_gives_the_twins_bits(
            mut codes in vec(any::<u16>(), 0..90),
            weights in vec((0..BUCKETS, 0.0_f32..9.0), 0..90),
        ) {
            codes.resize(codes.len().next_multiple_of(LANES), 0);
            let mut table = [0.0; BUCKETS];
            for (bucket, weight) in weights {
                table[bucket] = weight;
            }
            for level in Level::all() {
                let (sum, twin) = (dot(level, &table, &codes), scalar(&table, &codes));
                prop_assert_eq!(sum.to_bits(), twin.to_bits(), "{}", level);
            }
        }
    }

    #[test]
    fn a_sum_worked_by_hand() {
        let mut table = [0.0; BUCKETS];
        (table[7], table[4095]) = (2.0, 3.0);
        let mut codes = [0_u16; LANES];
        (codes[0], codes[1]) = (5 << 12 | 7, 1 << 12 | 4095); // 5 * 2 + 1 * 3
        for level in Level::all() {
            assert!(
                (dot(level, &table, &codes) - 13.0).abs() < f32::EPSILON,
                "{level}"
            );
        }
    }
}
