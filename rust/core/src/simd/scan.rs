//! Which entries of a block are near enough to be looked at?
//!
//! `sum^2 > bound * norm`, in f32 from left to right, so every path says the same; `norm` is the square
//! of an entry's length. A sum of 0 is never above a bound of 0.

#![expect(
    unsafe_code,
    reason = "instructions that not every processor has: a Level says that this one has them"
)]

#[cfg(target_arch = "x86_64")]
#[allow(clippy::wildcard_imports, reason = "the names of instructions")]
use std::arch::x86_64::*;

use super::level::{Level, Path};

/// Entries that one mask describes.
pub const GROUP: usize = 64;

/// The first group at or after `from` with an entry above `bound`, and a bit for each that is.
///
/// Groups are those that `sums` and `norms` both have.
#[must_use]
pub fn next_above(
    level: Level,
    sums: &[[u16; GROUP]],
    norms: &[[f32; GROUP]],
    bound: f32,
    from: usize,
) -> Option<(usize, u64)> {
    match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level of this path is made only where the processor has AVX-512.
        Path::Avx512 => unsafe { with_avx512(sums, norms, bound, from) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level of this path is made only where the processor has AVX2.
        Path::Avx2 => unsafe { with_avx2(sums, norms, bound, from) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every processor of this architecture has SSE2.
        _ => unsafe { with_sse2(sums, norms, bound, from) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => first(sums, norms, from, |sums, norms| scalar(sums, norms, bound)),
    }
}

/// Lanes of [`best_of_lanes`].
pub const LANES: usize = GROUP;

/// The largest `sum^2 / norm` of each lane: of the entries that have the same place in their groups. At least 0.
///
/// A division more or less exact than another path's would do: it is a bound for what has to be compared.
#[must_use]
pub fn best_of_lanes(level: Level, sums: &[[u16; GROUP]], norms: &[[f32; GROUP]]) -> [f32; LANES] {
    match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level of this path is made only where the processor has AVX-512.
        Path::Avx512 => unsafe { best_with_avx512(sums, norms) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level of this path is made only where the processor has AVX2.
        Path::Avx2 => unsafe { best_with_avx2(sums, norms) },
        _ => best(sums, norms),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn best_with_avx512(sums: &[[u16; GROUP]], norms: &[[f32; GROUP]]) -> [f32; LANES] {
    best(sums, norms)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn best_with_avx2(sums: &[[u16; GROUP]], norms: &[[f32; GROUP]]) -> [f32; LANES] {
    best(sums, norms)
}

/// The twin; compiled for the registers of each path.
#[allow(
    clippy::inline_always,
    reason = "it is compiled for each path's registers"
)]
#[inline(always)]
fn best(sums: &[[u16; GROUP]], norms: &[[f32; GROUP]]) -> [f32; LANES] {
    let mut best = [0.0_f32; LANES];
    for (sums, norms) in sums.iter().zip(norms) {
        for ((best, &sum), &norm) in best.iter_mut().zip(sums).zip(norms) {
            let value = f32::from(sum) * f32::from(sum) / norm;
            // No comparison holds for 0 / 0, which an entry without words has.
            *best = if value > *best { value } else { *best };
        }
    }
    best
}

/// The first group from there on whose mask is not empty.
#[allow(
    clippy::inline_always,
    reason = "it is compiled for each path's registers"
)]
#[inline(always)]
fn first(
    sums: &[[u16; GROUP]],
    norms: &[[f32; GROUP]],
    from: usize,
    mask: impl Fn(&[u16; GROUP], &[f32; GROUP]) -> u64,
) -> Option<(usize, u64)> {
    let groups = sums.iter().zip(norms).enumerate().skip(from);
    for (number, (sums, norms)) in groups {
        let mask = mask(sums, norms);
        if mask != 0 {
            return Some((number, mask));
        }
    }
    None
}

/// The twin. Sixteen entries are compared at once where registers allow, and most sixteens have none.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn scalar(sums: &[u16; GROUP], norms: &[f32; GROUP], bound: f32) -> u64 {
    const RUN: usize = 16;
    let runs = sums
        .as_chunks::<RUN>()
        .0
        .iter()
        .zip(norms.as_chunks::<RUN>().0);
    let mut mask = 0;
    for (number, (sums, norms)) in runs.enumerate() {
        let mut above = [false; RUN];
        for ((above, &sum), &norm) in above.iter_mut().zip(sums).zip(norms) {
            *above = f32::from(sum) * f32::from(sum) > bound * norm;
        }
        if above.iter().fold(false, |any, &above| any | above) {
            for (place, above) in above.into_iter().enumerate() {
                mask |= u64::from(above) << (number * RUN + place);
            }
        }
    }
    mask
}

/// The portable form of this architecture. Of the twin the compiler makes something five times as slow.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn with_sse2(
    sums: &[[u16; GROUP]],
    norms: &[[f32; GROUP]],
    bound: f32,
    from: usize,
) -> Option<(usize, u64)> {
    const LANES: usize = 8;
    let (zero, bound) = (_mm_setzero_si128(), _mm_set1_ps(bound));
    let above = |sums, norms| {
        let sums = _mm_cvtepi32_ps(sums);
        let above = _mm_cmpgt_ps(_mm_mul_ps(sums, sums), _mm_mul_ps(bound, norms));
        _mm_castps_si128(above)
    };
    first(sums, norms, from, |sums, norms| {
        let runs = sums
            .as_chunks::<LANES>()
            .0
            .iter()
            .zip(norms.as_chunks::<LANES>().0);
        let mut mask = 0;
        for (number, (sums, norms)) in runs.enumerate() {
            // SAFETY: 8 sums are the 16 bytes that are read, and each half of 8 norms, too.
            let (sums, low, high) = unsafe {
                let sums = _mm_loadu_si128(sums.as_ptr().cast());
                let low = _mm_loadu_ps(norms.as_ptr());
                (sums, low, _mm_loadu_ps(norms[LANES / 2..].as_ptr()))
            };
            let low = above(_mm_unpacklo_epi16(sums, zero), low);
            let high = above(_mm_unpackhi_epi16(sums, zero), high);
            let bytes = _mm_packs_epi16(_mm_packs_epi32(low, high), zero);
            mask |= u64::from(_mm_movemask_epi8(bytes).cast_unsigned()) << (number * LANES);
        }
        mask
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn with_avx512(
    sums: &[[u16; GROUP]],
    norms: &[[f32; GROUP]],
    bound: f32,
    from: usize,
) -> Option<(usize, u64)> {
    const LANES: usize = 16;
    let bound = _mm512_set1_ps(bound);
    first(sums, norms, from, |sums, norms| {
        let runs = sums
            .as_chunks::<LANES>()
            .0
            .iter()
            .zip(norms.as_chunks::<LANES>().0);
        let mut mask = 0;
        for (number, (sums, norms)) in runs.enumerate() {
            // SAFETY: 16 sums are the 32 bytes that are read, and 16 norms the 64.
            let (sums, norms) = unsafe {
                let sums = _mm256_loadu_si256(sums.as_ptr().cast());
                (sums, _mm512_loadu_ps(norms.as_ptr()))
            };
            let sums = _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(sums));
            let (sums, norms) = (_mm512_mul_ps(sums, sums), _mm512_mul_ps(bound, norms));
            let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(sums, norms);
            mask |= u64::from(above) << (number * LANES);
        }
        mask
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(
    sums: &[[u16; GROUP]],
    norms: &[[f32; GROUP]],
    bound: f32,
    from: usize,
) -> Option<(usize, u64)> {
    const LANES: usize = 8;
    let bound = _mm256_set1_ps(bound);
    first(sums, norms, from, |sums, norms| {
        let runs = sums
            .as_chunks::<LANES>()
            .0
            .iter()
            .zip(norms.as_chunks::<LANES>().0);
        let mut mask = 0;
        for (number, (sums, norms)) in runs.enumerate() {
            // SAFETY: 8 sums are the 16 bytes that are read, and 8 norms the 32.
            let (sums, norms) = unsafe {
                let sums = _mm_loadu_si128(sums.as_ptr().cast());
                (sums, _mm256_loadu_ps(norms.as_ptr()))
            };
            let sums = _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(sums));
            let (sums, norms) = (_mm256_mul_ps(sums, sums), _mm256_mul_ps(bound, norms));
            let above = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(sums, norms));
            mask |= u64::from(above.cast_unsigned()) << (number * LANES);
        }
        mask
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_equal_to_the_bound_is_not_above_it() {
        // 6^2 = 36 = 4 * 9, 7^2 = 49 > 36; a row without words has the norm 0
        let (mut sums, mut norms) = ([0; GROUP], [9.0; GROUP]);
        (sums[3], sums[63], norms[5]) = (6, 7, 0.0);
        for level in Level::all() {
            assert_eq!(
                next_above(level, &[sums], &[norms], 4.0, 0),
                Some((0, 1 << 63))
            );
            assert_eq!(
                next_above(level, &[sums], &[norms], 0.0, 0),
                Some((0, 1 << 3 | 1 << 63))
            );
            assert_eq!(
                next_above(level, &[sums; 2], &[norms; 2], 4.0, 1),
                Some((1, 1 << 63))
            );
            assert_eq!(next_above(level, &[sums], &[norms], 4.0, 1), None);
        }
    }

    proptest! {
        #[test]
        fn every_level_has_the_same_best_of_each_lane(
            entries in vec((any::<u16>(), 0_u16..40_000, 0_u16..4), 0..5 * GROUP),
        ) {
            let mut entries = entries;
            entries.resize(entries.len().next_multiple_of(GROUP), (0, 0, 0));
            let norms: Vec<f32> = entries.iter().map(|&(_, norm, _)| f32::from(norm)).collect();
            // What has no norm has no sum.
            let sums = entries.iter().map(|&(sum, norm, often)| sum * u16::from(often == 0 && norm > 0));
            let sums: Vec<u16> = sums.collect();
            let mut expected = [0.0_f32; LANES];
            for (place, (&sum, &norm)) in sums.iter().zip(&norms).enumerate().filter(|(_, (sum, _))| **sum > 0) {
                let best = &mut expected[place % LANES];
                *best = best.max(f32::from(sum) * f32::from(sum) / norm);
            }
            for level in Level::all() {
                let (sums, norms) = (sums.as_chunks().0, norms.as_chunks().0);
                let found = best_of_lanes(level, sums, norms).map(f32::to_bits);
                prop_assert_eq!(found, expected.map(f32::to_bits), "{}", level);
            }
        }

        #[test]
        fn every_level_finds_what_entry_by_entry_finds(
            entries in vec((any::<u16>(), 0.0_f32..40_000_000.0, 0_u16..4), 256),
            bound in 0.0_f32..1000.0,
            from in 0_usize..5,
        ) {
            let sums: Vec<u16> = entries.iter().map(|&(sum, _, often)| sum * u16::from(often == 0)).collect();
            let norms: Vec<f32> = entries.iter().map(|&(_, norm, _)| norm.floor()).collect();
            let expected = (from..4).find_map(|group| {
                let above = |&place: &usize| {
                    let sum = f32::from(sums[group * GROUP + place]);
                    sum * sum > bound * norms[group * GROUP + place]
                };
                let mask = (0..GROUP).filter(above).fold(0_u64, |mask, place| mask | 1 << place);
                (mask != 0).then_some((group, mask))
            });
            let (sums, norms) = (sums.as_chunks().0, norms.as_chunks().0);
            let found = first(sums, norms, from, |sums, norms| scalar(sums, norms, bound));
            prop_assert_eq!(found, expected, "the twin");
            for level in Level::all() {
                prop_assert_eq!(next_above(level, sums, norms, bound, from), expected, "{}", level);
            }
        }
    }
}
