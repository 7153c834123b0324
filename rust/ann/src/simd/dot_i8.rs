//! Dot products of rows of bytes, -127 to 127: sums of integers, so they are the same on every path.
//!
//! [`packed_i8`](crate::simd::packed_i8) describes the form of rows and queries, and the reason for it.

#![allow(unsafe_code, reason = "loads of whole registers from slices")]
#![allow(clippy::wildcard_imports, reason = "the names of instructions")]
#![allow(
    clippy::inline_always,
    reason = "the functions of a path must be compiled for that path"
)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::simd::packed_i8::{LANES, PART, Query};
use crate::simd::rows::Rows;
use siltstone_core::simd::prefetch::prefetch;

/// Words of a row of [`LANES`].
const WORDS: usize = LANES / 2;
/// Rows that are prefetched together.
const TOGETHER: usize = 16;

/// Appends the dot products of `query` with the rows `ids`, in their order, to `dots`. They cannot overflow for
/// rows of up to 65,536 bytes.
///
/// # Panics
///
/// If a row was not published, or is not as long as the query, which must be a multiple of [`LANES`].
pub fn dot_each(query: &Query, rows: &Rows<u16>, ids: &[u32], dots: &mut Vec<i32>) {
    let words = rows.stride();
    assert!(
        query.len() == words && words.is_multiple_of(WORDS),
        "rows must be of one length, a multiple of {LANES}"
    );
    dots.reserve(ids.len());
    match query.level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there is no `Level` for instructions that the processor lacks; all rows have whole registers.
        siltstone_core::simd::Path::Avx2 => unsafe { avx2_each(query, rows, ids, dots) },
        _ => portable_each(query, rows, ids, dots),
    }
}

/// The portable counterpart.
fn scalar(query: &Query, row: &[u16]) -> i32 {
    let parts = row.chunks(PART).zip(query.seconds.chunks(PART));
    let parts = parts.zip(query.mixed.chunks(PART)).zip(&query.biases);
    let dots = parts.map(|(((row, seconds), mixed), &bias)| {
        let products = row.iter().zip(seconds).zip(mixed);
        let sum = products.fold(0_i32, |sum, ((&word, &second), &mixed)| {
            sum.wrapping_add(i32::from(word.cast_signed()) * i32::from(second))
                .wrapping_add(i32::from(word & 0xFF) * i32::from(mixed))
        });
        sum.wrapping_sub(bias) >> 8
    });
    dots.sum()
}

/// Prefetches rows in groups, and calls `four` with four of them at a time, and `one` with each of the rest.
#[inline(always)]
fn together<'a>(
    rows: &'a Rows<u16>,
    ids: &[u32],
    dots: &mut Vec<i32>,
    four: impl Fn([&'a [u16]; 4]) -> [i32; 4],
    one: impl Fn(&'a [u16]) -> i32,
) {
    let mut fetched: [&[u16]; TOGETHER] = [&[]; TOGETHER];
    for ids in ids.chunks(TOGETHER) {
        for (row, &id) in fetched.iter_mut().zip(ids) {
            *row = rows.get(id);
            prefetch(row);
        }
        let (fours, rest) = fetched[..ids.len()].as_chunks::<4>();
        for &rows in fours {
            dots.extend(four(rows));
        }
        dots.extend(rest.iter().map(|row| one(row)));
    }
}

fn portable_each(query: &Query, rows: &Rows<u16>, ids: &[u32], dots: &mut Vec<i32>) {
    let one = |row: &[u16]| scalar(query, row);
    together(rows, ids, dots, |four| four.map(one), one);
}

/// Several rows at a time: the query is loaded once for all of them.
///
/// # Safety
///
/// The processor has AVX2, and rows have as many words as the query, which fill registers.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn avx2<const N: usize>(query: &Query, rows: [&[u16]; N]) -> [i32; N] {
    let (low, mut dots) = (_mm256_set1_epi16(0xFF), [0; N]);
    for (part, &bias) in query.biases.iter().enumerate() {
        let mut sums = [_mm256_setzero_si256(); N];
        let (mut place, end) = (part * PART, query.seconds.len().min((part + 1) * PART));
        while place < end {
            // SAFETY: all are of one length, and a register of words lies at `place` in each.
            let load = |words: *const u16| unsafe { _mm256_loadu_si256(words.add(place).cast()) };
            let second = load(query.seconds.as_ptr().cast());
            let mixed = load(query.mixed.as_ptr().cast());
            for (sum, row) in sums.iter_mut().zip(rows) {
                let words = load(row.as_ptr());
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(words, second));
                let low = _mm256_and_si256(words, low);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(low, mixed));
            }
            place += 16;
        }
        for (dot, sum) in dots.iter_mut().zip(sums) {
            *dot += sum_of(sum).wrapping_sub(bias) >> 8;
        }
    }
    dots
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn sum_of(sums: __m256i) -> i32 {
    let high = _mm256_extracti128_si256::<1>(sums);
    let sums = _mm_add_epi32(_mm256_castsi256_si128(sums), high);
    let sum = _mm_add_epi32(sums, _mm_shuffle_epi32::<0b01_00_11_10>(sums));
    _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32::<0b10_11_00_01>(sum)))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2_each(query: &Query, rows: &Rows<u16>, ids: &[u32], dots: &mut Vec<i32>) {
    // SAFETY: the caller checked that rows are as long as the query.
    let four = |rows| unsafe { avx2(query, rows) };
    // SAFETY: as above.
    together(rows, ids, dots, four, |row| unsafe {
        avx2(query, [row])[0]
    });
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::simd::packed_i8::packed;
    use crate::simd::rows::RowsWriter;
    use siltstone_core::simd::Level;

    fn product(a: &[i8], b: &[i8]) -> i32 {
        let products = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b));
        products.sum()
    }

    /// The dot products of `query` and `rows`; every level and the portable counterpart must give the same.
    fn dots(query: &[i8], rows: &[Vec<i8>], ids: &[u32]) -> Vec<i32> {
        let query = packed(query, query.len());
        let mut stored = RowsWriter::new(query.len());
        for row in rows {
            stored.push(&packed(row, row.len()));
        }
        let mut ready = Query::new(Level::PORTABLE);
        ready.set(Level::PORTABLE, &query);
        let twin: Vec<i32> = ids
            .iter()
            .map(|&id| scalar(&ready, stored.get(id)))
            .collect();
        for level in Level::all() {
            let mut ready = Query::new(Level::PORTABLE);
            ready.set(level, &query);
            let mut found = Vec::new();
            dot_each(&ready, &stored, ids, &mut found);
            assert_eq!(found, twin, "{level}");
        }
        twin
    }

    proptest! {
        #[test]
        fn every_path_gives_the_sum_of_the_products(
            pairs in vec((-127..=127_i8, -127..=127_i8), 1..2_000),
            picked in vec(0_u32..3, 0..12),
        ) {
            let (a, b): (Vec<i8>, Vec<i8>) = pairs.into_iter().unzip();
            let rows = [b, a.clone(), vec![-127; a.len()]];
            let expected: Vec<i32> = picked.iter().map(|&id| product(&a, &rows[id as usize])).collect();
            prop_assert_eq!(dots(&a, &rows, &picked), expected);
        }
    }

    #[test]
    fn the_longest_rows_do_not_overflow() {
        let (most, least) = (vec![127_i8; 65_536], vec![-127_i8; 65_536]);
        let square = 127 * 127 * 65_536;
        let rows = [most.clone(), least.clone()];
        assert_eq!(
            dots(&most, &rows, &[0, 1, 0, 1, 0]),
            [square, -square, square, -square, square]
        );
        assert_eq!(dots(&least, &rows, &[1]), [square]);
    }

    #[test]
    #[should_panic(expected = "rows must be of one length")]
    fn rows_of_different_lengths_are_refused() {
        let mut query = Query::new(Level::PORTABLE);
        query.set(Level::PORTABLE, &packed(&[1; 64], 64));
        dot_each(&query, &RowsWriter::new(LANES), &[], &mut Vec::new());
    }
}
