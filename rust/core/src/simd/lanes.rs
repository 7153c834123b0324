//! A first bound for a block, known before any distance is computed: at least `limit` of its entries reach it.
//!
//! A lane is one place in all groups of entries. The largest values of the lanes belong to different entries, so
//! the tenth largest of them is at most the value of the tenth best entry.

#![allow(
    unsafe_code,
    reason = "instructions of one architecture, which all of its processors have"
)]

#[cfg(target_arch = "x86_64")]
#[allow(clippy::wildcard_imports, reason = "the names of instructions")]
use std::arch::x86_64::*;

use super::scan::GROUP;

/// The number of lanes: for more entries no bound is known.
pub const LANES: usize = GROUP;

/// Values below this share of the largest one count as 0.
pub(crate) const LEAST: f32 = 1.0 / 256.0;

/// A number that `sum^2 / norm` reaches for at least `limit` entries; 0 if none is known.
///
/// No value may be above `largest`, except by rounding. A sum must be 0 where the norm is 0. The result is at most
/// 1/31 below the `limit`th largest value of the lanes, if that is at least 1/256 of `largest`. Machines
/// may differ in the result: it is not an answer, only a bound that decides which entries are examined.
#[must_use]
pub fn reached(sums: &[[u16; GROUP]], norms: &[[f32; GROUP]], largest: f32, limit: usize) -> f32 {
    let scale = (1.0 - ROOM) / largest;
    let least = least(&best(sums, norms), scale, limit);
    if least == 0 {
        return 0.0;
    }
    f32::from_bits((u32::from(least) + FIRST) << SHIFT) * largest
}

/// More than the error of the reciprocals and of the products; it is subtracted.
const ROOM: f32 = 1.0 / 1024.0;

/// The low bits of a float that are ignored.
const SHIFT: u32 = 18;
/// The remaining bits of `LEAST`, minus one, so that `LEAST` becomes 1.
const FIRST: u32 = (LEAST.to_bits() >> SHIFT) - 1;

/// The remaining bits of the `limit`th largest number; 0 if that is below `LEAST`.
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

/// The largest value of each lane.
fn best(sums: &[[u16; GROUP]], norms: &[[f32; GROUP]]) -> [f32; LANES] {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has SSE2.
    return unsafe { with_sse2(sums, norms) };
    #[cfg(not(target_arch = "x86_64"))]
    plain(sums, norms)
}

/// The plain form, for other architectures.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain(sums: &[[u16; GROUP]], norms: &[[f32; GROUP]]) -> [f32; LANES] {
    let mut best = [0.0_f32; LANES];
    for (sums, norms) in sums.iter().zip(norms) {
        for ((best, &sum), &norm) in best.iter_mut().zip(sums).zip(norms) {
            let value = f32::from(sum) * f32::from(sum) / norm;
            // Every comparison with 0 / 0 is false; an entry without words has this value.
            *best = if value > *best { value } else { *best };
        }
    }
    best
}

/// The largest value of each lane, with instructions of every processor of this architecture. It multiplies by reciprocals of 12 bits, since a division of four
/// numbers takes as long as all the rest. It processes half of the lanes at a time, so that they stay in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn with_sse2(sums: &[[u16; GROUP]], norms: &[[f32; GROUP]]) -> [f32; LANES] {
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
                    // `max` returns its second operand if the first is not a number: 0 times the reciprocal of 0.
                    *best = _mm_max_ps(value, *best);
                }
            }
        }
        for (found, best) in found.as_chunks_mut::<4>().0.iter_mut().zip(best) {
            // SAFETY: 4 numbers are the 16 bytes that are written.
            unsafe { _mm_storeu_ps(found.as_mut_ptr(), best) };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The largest relative error of an estimate, which is never above the exact value: 5 bits of the fraction are
    /// compared.
    const COARSE: f32 = 1.0 / 31.0;

    proptest! {
        #[test]
        fn as_many_reach_what_is_said_as_are_asked_for_and_it_is_near(
            entries in vec((any::<u16>(), 1_u32..1 << 24, 0_u16..4), 0..5 * GROUP),
            limit in 1..=LANES,
            more in 1.0_f32..300.0,
        ) {
            let mut entries = entries;
            entries.resize(entries.len().next_multiple_of(GROUP), (0, 0, 3));
            // An entry without a norm has no sum.
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
            let (sums, norms) = (sums.as_chunks().0, norms.as_chunks().0);
            for (best, found) in plain(sums, norms).into_iter().zip(best(sums, norms)) {
                prop_assert!((best - found).abs() <= best * ROOM, "{} {}", best, found);
            }
            let found = f64::from(reached(sums, norms, largest, limit));
            let many = values.iter().filter(|&&value| value >= found).count();
            prop_assert!(found == 0.0 || many >= limit, "{} {}", found, many);
            let room = f64::from(COARSE + 4.0 * ROOM);
            if lanes[limit - 1] >= f64::from(LEAST * largest) * (1.0 + room) {
                prop_assert!(found >= lanes[limit - 1] * (1.0 - room), "{}", found);
            }
        }
    }
}
