//! A first bound of a block, which as many of its entries reach as are asked for: it is known before any distance.
//!
//! The largest value of each lane, which are the entries at one place of their groups, is one of an entry of
//! its own. So the tenth largest of these is no better than the tenth best entry.

#![expect(
    unsafe_code,
    reason = "instructions that not every processor has: a Level says that this one has them"
)]

#[cfg(target_arch = "x86_64")]
#[allow(clippy::wildcard_imports, reason = "the names of instructions")]
use std::arch::x86_64::*;

use super::level::{Level, Path};
use super::scan::GROUP;

/// How many lanes there are: no bound is known for more entries.
pub const LANES: usize = GROUP;

/// What an estimate is below the number itself at most, as a share of it: 5 bits of it are compared.
pub const COARSE: f32 = 1.0 / 31.0;
/// What is less than this share of the largest number is taken for nothing.
pub const LEAST: f32 = 1.0 / 256.0;

/// A number that `sum^2 / norm` of `limit` entries at least reaches; 0 where there is none.
///
/// No value is above `largest`, but for rounding. A sum is 0 where the norm is. What is found is at most
/// [`COARSE`] below the value of the lane that is number `limit`, if that is [`LEAST`] times `largest` or more.
/// It need not be the same on each path: it is no answer, but a bound of what has to be looked at.
#[must_use]
pub fn reached(
    level: Level,
    sums: &[[u16; GROUP]],
    norms: &[[f32; GROUP]],
    largest: f32,
    limit: usize,
) -> f32 {
    let scale = (1.0 - ROOM) / largest;
    let least = match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level of this path is made only where the processor has AVX-512.
        Path::Avx512 => unsafe { with_avx512(sums, norms, scale, limit) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level of this path is made only where the processor has AVX2.
        Path::Avx2 => unsafe { with_avx2(sums, norms, scale, limit) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every processor of this architecture has SSE2.
        _ => unsafe { with_sse2(sums, norms, scale, limit) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => least(&best(sums, norms), scale, limit),
    };
    if least == 0 {
        return 0.0;
    }
    f32::from_bits((u32::from(least) + FIRST) << SHIFT) * largest
}

/// What reciprocals are too large by at most, and products by rounding: more than that goes off.
const ROOM: f32 = 1.0 / 1024.0;

/// Bits of a float that are not looked at.
const SHIFT: u32 = 18;
/// What is left of the bits of `LEAST`, less one: that becomes 1.
const FIRST: u32 = (LEAST.to_bits() >> SHIFT) - 1;

/// What is left of the number that is `limit`-th; 0 for less than is counted.
#[allow(
    clippy::inline_always,
    reason = "it is compiled for each path's registers"
)]
#[inline(always)]
fn least(best: &[f32; LANES], scale: f32, limit: usize) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 255")]
    let kept = best.map(|best| {
        let bits = ((best * scale).to_bits() >> SHIFT).cast_signed() - FIRST.cast_signed();
        bits.clamp(0, 255).cast_unsigned() as u8
    });
    let mut least = 0;
    for bit in (0..u8::BITS).rev() {
        let higher = least | 1 << bit;
        let reached = kept.iter().map(|&kept| u8::from(kept >= higher));
        if usize::from(reached.sum::<u8>()) >= limit {
            least = higher;
        }
    }
    least
}

/// The largest of each lane.
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

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn with_avx512(sums: &[[u16; GROUP]], norms: &[[f32; GROUP]], scale: f32, limit: usize) -> u8 {
    least(&best(sums, norms), scale, limit)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(sums: &[[u16; GROUP]], norms: &[[f32; GROUP]], scale: f32, limit: usize) -> u8 {
    least(&best(sums, norms), scale, limit)
}

/// The portable form of this architecture: products with reciprocals of 12 bits, since a division of four
/// numbers takes as long as all the rest. Half of the lanes at a time, which are in registers throughout.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn with_sse2(sums: &[[u16; GROUP]], norms: &[[f32; GROUP]], scale: f32, limit: usize) -> u8 {
    const HALF: usize = LANES / 2;
    let zero = _mm_setzero_si128();
    let mut found = [0.0; LANES];
    for (half, found) in found.as_chunks_mut::<HALF>().0.iter_mut().enumerate() {
        let mut best = [_mm_setzero_ps(); HALF / 4];
        for (sums, norms) in sums.iter().zip(norms) {
            let sums = sums.as_chunks::<HALF>().0[half].as_chunks::<8>().0;
            let norms = norms.as_chunks::<HALF>().0[half].as_chunks::<8>().0;
            for ((best, sums), norms) in best.as_chunks_mut::<2>().0.iter_mut().zip(sums).zip(norms)
            {
                // SAFETY: 8 sums are the 16 bytes that are read, and each half of 8 norms, too.
                let (sums, norms) = unsafe {
                    let norms = norms.as_ptr();
                    let norms = [_mm_loadu_ps(norms), _mm_loadu_ps(norms.add(4))];
                    (_mm_loadu_si128(sums.as_ptr().cast()), norms)
                };
                let sums = [
                    _mm_unpacklo_epi16(sums, zero),
                    _mm_unpackhi_epi16(sums, zero),
                ];
                for ((best, sums), norms) in best.iter_mut().zip(sums).zip(norms) {
                    let sums = _mm_cvtepi32_ps(sums);
                    let value = _mm_mul_ps(_mm_mul_ps(sums, sums), _mm_rcp_ps(norms));
                    // The second is taken where the first is no number: 0 times the reciprocal of 0.
                    *best = _mm_max_ps(value, *best);
                }
            }
        }
        for (found, best) in found.as_chunks_mut::<4>().0.iter_mut().zip(best) {
            // SAFETY: 4 numbers are the 16 bytes that are written.
            unsafe { _mm_storeu_ps(found.as_mut_ptr(), best) };
        }
    }
    least(&found, scale, limit)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_many_reach_what_is_said_as_are_asked_for_and_it_is_near(
            entries in vec((any::<u16>(), 1_u32..1 << 24, 0_u16..4), 0..5 * GROUP),
            limit in 1..=LANES,
            more in 1.0_f32..300.0,
        ) {
            let mut entries = entries;
            entries.resize(entries.len().next_multiple_of(GROUP), (0, 0, 3));
            // What has no norm has no sum.
            let sums: Vec<u16> = entries.iter().map(|&(sum, _, often)| sum * u16::from(often == 0)).collect();
            #[expect(clippy::cast_precision_loss, reason = "below 2^24")]
            let norms: Vec<f32> = entries.iter().map(|&(_, norm, _)| norm as f32).collect();
            let values = sums.iter().zip(&norms).map(|(&sum, &norm)| {
                if sum == 0 { 0.0 } else { f64::from(sum) * f64::from(sum) / f64::from(norm) }
            });
            let values: Vec<f64> = values.collect();
            let mut lanes = [0.0_f64; LANES];
            for (place, &value) in values.iter().enumerate() {
                lanes[place % LANES] = lanes[place % LANES].max(value);
            }
            lanes.sort_by(|one, other| other.total_cmp(one));
            #[expect(clippy::cast_possible_truncation, reason = "it need not be exact")]
            let largest = (lanes[0] as f32 * more).max(1.0);
            for level in Level::all() {
                let (sums, norms) = (sums.as_chunks().0, norms.as_chunks().0);
                let found = f64::from(reached(level, sums, norms, largest, limit));
                let many = values.iter().filter(|&&value| value >= found).count();
                prop_assert!(found == 0.0 || many >= limit, "{} {} {}", level, found, many);
                let room = f64::from(COARSE + 4.0 * ROOM);
                if lanes[limit - 1] >= f64::from(LEAST * largest) * (1.0 + room) {
                    prop_assert!(found >= lanes[limit - 1] * (1.0 - room), "{} {}", level, found);
                }
            }
        }
    }
}
