//! Dot products of rows of bytes, -127 to 127: sums of integers, so the same on every path.

#![allow(unsafe_code, reason = "loads of whole registers from slices")]
#![allow(clippy::wildcard_imports, reason = "the names of instructions")]
#![allow(
    clippy::inline_always,
    reason = "what a path calls must be compiled for that path"
)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::simd::level::{Level, Path};
use crate::simd::rows::Rows;

/// Rows are filled up with zeros to a multiple of so many bytes.
pub const LANES: usize = 64;
/// Rows that are asked for ahead of the one at hand.
const AHEAD: usize = 8;

/// The sum of the products of `a` and `b`, which are of one length, a multiple of [`LANES`].
///
/// It cannot overflow up to 65,536 numbers.
///
/// # Panics
///
/// Where the lengths differ or are no such multiple.
#[must_use]
pub fn dot(level: Level, a: &[i8], b: &[i8]) -> i32 {
    check(a, b.len());
    match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there is no `Level` of what the processor lacks; both have whole registers.
        Path::Avx512 => unsafe { avx512(a, b, bias(a)) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Path::Avx2 => unsafe { avx2(a, b) },
        _ => scalar(a, b),
    }
}

/// The dot products of `query` with the rows `ids`, in their order, put behind those in `dots`.
///
/// # Panics
///
/// Where a row was not published, or lengths are as [`dot`] refuses them.
pub fn dot_each(level: Level, query: &[i8], rows: &Rows<i8>, ids: &[u32], dots: &mut Vec<i32>) {
    check(query, rows.stride());
    dots.reserve(ids.len());
    match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there is no `Level` of what the processor lacks; all rows have whole registers.
        Path::Avx512 => unsafe { avx512_each(query, rows, ids, dots) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Path::Avx2 => unsafe { avx2_each(query, rows, ids, dots) },
        _ => {
            let one = |row: &[i8]| scalar(query, row);
            ahead(rows, ids, dots, |four| four.map(one), one);
        }
    }
}

/// The dot products of `query` with `rows`, which are one after another in memory.
///
/// # Panics
///
/// Where lengths are as [`dot`] refuses them.
pub fn dot_run(level: Level, query: &[i8], rows: &[i8], dots: &mut Vec<i32>) {
    check(query, query.len());
    dots.reserve(rows.len() / query.len().max(1));
    match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there is no `Level` of what the processor lacks; all rows have whole registers.
        Path::Avx512 => unsafe { avx512_run(query, rows, dots) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Path::Avx2 => unsafe { avx2_run(query, rows, dots) },
        _ => dots.extend(rows.chunks_exact(query.len()).map(|row| scalar(query, row))),
    }
}

fn check(a: &[i8], length: usize) {
    assert!(
        a.len() == length && length.is_multiple_of(LANES) && length > 0,
        "rows must be of one length, a multiple of {LANES}"
    );
}

/// The twin.
fn scalar(a: &[i8], b: &[i8]) -> i32 {
    a.iter()
        .zip(b)
        .map(|(&a, &b)| i32::from(i16::from(a)) * i32::from(i16::from(b)))
        .sum()
}

/// Calls `four` with four rows at a time and `one` with each of the rest, and asks for the rows that come.
#[inline(always)]
fn ahead<'a>(
    rows: &'a Rows<i8>,
    ids: &[u32],
    dots: &mut Vec<i32>,
    four: impl Fn([&'a [i8]; 4]) -> [i32; 4],
    one: impl Fn(&'a [i8]) -> i32,
) {
    for &id in ids.iter().take(AHEAD) {
        rows.prefetch(id);
    }
    let (fours, rest) = ids.as_chunks::<4>();
    for (place, ids_of_four) in fours.iter().enumerate() {
        let coming = ids.get(4 * place + AHEAD..).unwrap_or_default();
        coming.iter().take(4).for_each(|&id| rows.prefetch(id));
        dots.extend(four(ids_of_four.map(|id| rows.get(id))));
    }
    dots.extend(rest.iter().map(|&id| one(rows.get(id))));
}

/// 128 times the sum of the query: what it costs to shift the rows' bytes to 0..=255, as the instruction
/// wants one of its sides.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn bias(query: &[i8]) -> i32 {
    let shift = _mm512_set1_epi8(-128); // 128 without a sign, as which it is taken
    let mut sums = _mm512_setzero_si512();
    for part in query.chunks_exact(LANES) {
        // SAFETY: 64 bytes lie there.
        let part = unsafe { _mm512_loadu_si512(part.as_ptr().cast()) };
        sums = _mm512_dpbusd_epi32(sums, shift, part);
    }
    _mm512_reduce_add_epi32(sums)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn avx512(query: &[i8], row: &[i8], bias: i32) -> i32 {
    let shift = _mm512_set1_epi8(-128);
    let mut sums = _mm512_setzero_si512();
    for start in (0..query.len()).step_by(LANES) {
        // SAFETY: both are of one length, a multiple of 64, so 64 bytes lie at `start` in either.
        let (row, query) = unsafe {
            (
                _mm512_loadu_si512(row.as_ptr().add(start).cast()),
                _mm512_loadu_si512(query.as_ptr().add(start).cast()),
            )
        };
        sums = _mm512_dpbusd_epi32(sums, _mm512_xor_si512(row, shift), query);
    }
    _mm512_reduce_add_epi32(sums) - bias
}

/// Four rows at a time: the query is loaded once, and their lanes are added up together.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn avx512_four(query: &[i8], rows: [&[i8]; 4], bias: i32) -> [i32; 4] {
    let shift = _mm512_set1_epi8(-128);
    let mut sums = [_mm512_setzero_si512(); 4];
    for start in (0..query.len()).step_by(LANES) {
        // SAFETY: all are of one length, a multiple of 64, so 64 bytes lie at `start` in each.
        let query = unsafe { _mm512_loadu_si512(query.as_ptr().add(start).cast()) };
        for (sum, row) in sums.iter_mut().zip(rows) {
            // SAFETY: as above.
            let row = unsafe { _mm512_loadu_si512(row.as_ptr().add(start).cast()) };
            *sum = _mm512_dpbusd_epi32(*sum, _mm512_xor_si512(row, shift), query);
        }
    }
    let halves = sums.map(|sum| {
        _mm256_add_epi32(
            _mm512_castsi512_si256(sum),
            _mm512_extracti64x4_epi64::<1>(sum),
        )
    });
    let pairs = _mm256_hadd_epi32(
        _mm256_hadd_epi32(halves[0], halves[1]),
        _mm256_hadd_epi32(halves[2], halves[3]),
    );
    let all = _mm_add_epi32(
        _mm256_castsi256_si128(pairs),
        _mm256_extracti128_si256::<1>(pairs),
    );
    let mut dots = [0; 4];
    // SAFETY: there is room for four.
    unsafe {
        _mm_storeu_si128(
            dots.as_mut_ptr().cast(),
            _mm_sub_epi32(all, _mm_set1_epi32(bias)),
        );
    };
    dots
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn avx512_each(query: &[i8], rows: &Rows<i8>, ids: &[u32], dots: &mut Vec<i32>) {
    // SAFETY: this has the instructions that it needs.
    let bias = unsafe { bias(query) };
    // SAFETY: the caller checked that rows are as long as the query.
    let four = |rows| unsafe { avx512_four(query, rows, bias) };
    // SAFETY: as above.
    ahead(rows, ids, dots, four, |row| unsafe {
        avx512(query, row, bias)
    });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn avx512_run(query: &[i8], rows: &[i8], dots: &mut Vec<i32>) {
    // SAFETY: this has the instructions that it needs.
    let bias = unsafe { bias(query) };
    for row in rows.chunks_exact(query.len()) {
        // SAFETY: a row is as long as the query, a multiple of 64.
        dots.push(unsafe { avx512(query, row, bias) });
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(a: &[i8], b: &[i8]) -> i32 {
    let mut sums = [_mm256_setzero_si256(); 2];
    for start in (0..a.len()).step_by(32) {
        for (half, sum) in sums.iter_mut().enumerate() {
            let place = start + half * 16;
            // SAFETY: both are of one length, a multiple of 64, so 16 bytes lie at `place` in either.
            let (a, b) = unsafe {
                (
                    _mm_loadu_si128(a.as_ptr().add(place).cast()),
                    _mm_loadu_si128(b.as_ptr().add(place).cast()),
                )
            };
            let products = _mm256_madd_epi16(_mm256_cvtepi8_epi16(a), _mm256_cvtepi8_epi16(b));
            *sum = _mm256_add_epi32(*sum, products);
        }
    }
    let sum = _mm256_add_epi32(sums[0], sums[1]);
    let sum = _mm_add_epi32(
        _mm256_castsi256_si128(sum),
        _mm256_extracti128_si256::<1>(sum),
    );
    let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b01_00_11_10>(sum));
    _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32::<0b10_11_00_01>(sum)))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2_each(query: &[i8], rows: &Rows<i8>, ids: &[u32], dots: &mut Vec<i32>) {
    // SAFETY: the caller checked that rows are as long as the query.
    ahead(
        rows,
        ids,
        dots,
        |four| four.map(|row| unsafe { avx2(query, row) }),
        |row| unsafe { avx2(query, row) },
    );
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2_run(query: &[i8], rows: &[i8], dots: &mut Vec<i32>) {
    for row in rows.chunks_exact(query.len()) {
        // SAFETY: a row is as long as the query, a multiple of 64.
        dots.push(unsafe { avx2(query, row) });
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::simd::rows::RowsWriter;

    fn padded(mut values: Vec<i8>) -> Vec<i8> {
        values.resize(values.len().next_multiple_of(LANES).max(LANES), 0);
        values
    }

    proptest! {
        #[test]
        fn every_path_gives_the_twins_sum(
            pairs in vec((-127..=127_i8, -127..=127_i8), 1..700),
            picked in vec(0_u32..3, 0..9),
        ) {
            let (a, b): (Vec<i8>, Vec<i8>) = pairs.into_iter().unzip();
            let (a, b) = (padded(a), padded(b));
            let mut rows = RowsWriter::new(a.len());
            for row in [&b, &a, &vec![-127; a.len()]] {
                rows.push(row);
            }
            let expected: Vec<i32> = picked.iter().map(|&id| scalar(&a, rows.get(id))).collect();
            for level in Level::all() {
                prop_assert_eq!(dot(level, &a, &b), scalar(&a, &b), "{}", level);
                let mut dots = Vec::new();
                dot_each(level, &a, &rows, &picked, &mut dots);
                prop_assert_eq!(&dots, &expected, "{}", level);
                dots.clear();
                dot_run(level, &a, rows.run(0, 3), &mut dots);
                let all: Vec<i32> = (0..3).map(|id| scalar(&a, rows.get(id))).collect();
                prop_assert_eq!(&dots, &all, "{}", level);
            }
        }
    }

    #[test]
    fn the_longest_rows_do_not_overflow() {
        let (most, least) = (vec![127_i8; 65_536], vec![-127_i8; 65_536]);
        for level in Level::all() {
            assert_eq!(dot(level, &most, &most), 127 * 127 * 65_536, "{level}");
            assert_eq!(dot(level, &most, &least), -127 * 127 * 65_536, "{level}");
            assert_eq!(dot(level, &least, &least), 127 * 127 * 65_536, "{level}");
        }
    }

    #[test]
    #[should_panic(expected = "rows must be of one length")]
    fn rows_of_different_lengths_are_refused() {
        let _ = dot(Level::PORTABLE, &[1; 64], &[1; 128]);
    }
}
