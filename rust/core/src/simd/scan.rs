//! Finds the entries of a block that are close enough for their distance to be computed.
//!
//! The test is `sum > root * factor / 2^16`, rounded down, in integers, so every path gives the same result. `root`
//! (of an entry's length) and `factor` (of a bound) are rounded down, so every entry above the bound is found, and
//! few others are. A sum of 0 is never above.

#![allow(
    unsafe_code,
    reason = "instructions of one architecture, which all of its processors have"
)]

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
#[allow(clippy::wildcard_imports, reason = "the names of instructions")]
use std::arch::x86_64::*;

/// Entries in one mask.
pub const GROUP: usize = 64;

/// The factor from a length to a root, which adds 6 binary places.
const SCALE: f64 = 64.0;

/// The root of an entry, from the square of its length.
#[must_use]
pub fn root(squared_norm: f32) -> u16 {
    floor(f64::from(squared_norm).sqrt() * SCALE)
}

/// The factor of a bound, for the test `sum^2 > bound * squared_norm`.
#[must_use]
pub fn factor(bound: f32) -> u16 {
    floor(f64::from(bound).sqrt() * (65536.0 / SCALE))
}

/// The value is lowered a little, so that rounding never leaves it above the exact one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number that is too large becomes the largest u16, which is not above it"
)]
fn floor(value: f64) -> u16 {
    (value * (1.0 - 1e-6)) as u16
}

/// The first group from `from` on with an entry above, and a bit for each such entry.
///
/// Only groups that both `sums` and `roots` have are searched.
#[must_use]
pub fn next_above(
    sums: &[[u16; GROUP]],
    roots: &[[u16; GROUP]],
    factor: u16,
    from: usize,
) -> Option<(usize, u64)> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has SSE2.
    return unsafe { with_sse2(sums, roots, factor, from) };
    #[cfg(not(target_arch = "x86_64"))]
    return first(sums, roots, from, |sums, roots| scalar(sums, roots, factor));
}

/// The first group from `from` on whose mask is not empty.
#[allow(
    clippy::inline_always,
    reason = "it is compiled with the mask of each path"
)]
#[inline(always)]
fn first(
    sums: &[[u16; GROUP]],
    roots: &[[u16; GROUP]],
    from: usize,
    mask: impl Fn(&[u16; GROUP], &[u16; GROUP]) -> u64,
) -> Option<(usize, u64)> {
    // A loop over numbers: for an iterator over both, the compiler keeps its state in memory.
    let end = sums.len().min(roots.len());
    let (sums, roots) = (&sums[..end], &roots[..end]);
    let mut number = from;
    while number < end {
        let mask = mask(&sums[number], &roots[number]);
        if mask != 0 {
            return Some((number, mask));
        }
        number += 1;
    }
    None
}

/// The upper half of 16-bit products. The compiler would turn the intrinsic into products of 32 bits if one operand
/// is constant in a loop.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn high(one: __m128i, other: __m128i) -> __m128i {
    let mut high = one;
    // SAFETY: the feature has the instruction, which reads and writes these registers alone.
    unsafe {
        asm!(
            "pmulhuw {high}, {other}",
            high = inout(xmm_reg) high,
            other = in(xmm_reg) other,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    high
}

/// The portable counterpart. A whole group is compared at once if registers allow; most groups have no entry above.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn scalar(sums: &[u16; GROUP], roots: &[u16; GROUP], factor: u16) -> u64 {
    let mut above = [0_u8; GROUP];
    for ((above, &sum), &root) in above.iter_mut().zip(sums).zip(roots) {
        let least = (u32::from(root) * u32::from(factor)) >> u16::BITS;
        *above = u8::from(u32::from(sum) > least);
    }
    if above.iter().all(|&above| above == 0) {
        return 0;
    }
    let bits = above.iter().enumerate();
    bits.fold(0, |mask, (place, &above)| mask | u64::from(above) << place)
}

/// The portable path of this architecture.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn with_sse2(
    sums: &[[u16; GROUP]],
    roots: &[[u16; GROUP]],
    factor: u16,
    from: usize,
) -> Option<(usize, u64)> {
    const LANES: usize = 8;
    let (zero, factor) = (_mm_setzero_si128(), _mm_set1_epi16(factor.cast_signed()));
    first(sums, roots, from, |sums, roots| {
        let mut above = [zero; GROUP / LANES];
        let sums = sums.as_chunks::<LANES>().0;
        let roots = roots.as_chunks::<LANES>().0;
        for ((above, sums), roots) in above.iter_mut().zip(sums).zip(roots) {
            // SAFETY: 8 sums are the 16 bytes that are read, and 8 roots, too.
            let (sums, roots) = unsafe {
                let sums = _mm_loadu_si128(sums.as_ptr().cast());
                (sums, _mm_loadu_si128(roots.as_ptr().cast()))
            };
            *above = _mm_subs_epu16(sums, high(roots, factor));
        }
        let some = above
            .into_iter()
            .fold(zero, |some, eight| _mm_or_si128(some, eight));
        if _mm_movemask_epi8(_mm_cmpeq_epi16(some, zero)) == 0xFFFF {
            return 0;
        }
        let mut mask = 0;
        for (number, two) in above.as_chunks::<2>().0.iter().enumerate() {
            let none = two.map(|eight| _mm_cmpeq_epi16(eight, zero));
            let none = _mm_movemask_epi8(_mm_packs_epi16(none[0], none[1])).cast_unsigned();
            mask |= u64::from(!none & 0xFFFF) << (number * 2 * LANES);
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
        // 4 * 16 = 64 = 8^2, so 8 is not above, and 9 is; a row without words has the root 0.
        let (bound, long) = (factor(4.0) + 1, root(16.0) + 1);
        assert_eq!((bound, long), (2048, 256));
        let (mut sums, mut roots) = ([0; GROUP], [long; GROUP]);
        (sums[3], sums[63], roots[5]) = (8, 9, 0);
        let next = next_above;
        assert_eq!(next(&[sums], &[roots], bound, 0), Some((0, 1 << 63)));
        assert_eq!(next(&[sums], &[roots], 0, 0), Some((0, 1 << 3 | 1 << 63)));
        assert_eq!(next(&[sums; 2], &[roots; 2], bound, 1), Some((1, 1 << 63)));
        assert_eq!(next(&[sums], &[roots], bound, 1), None);
    }

    proptest! {
        #[test]
        fn who_is_above_a_bound_is_found(
            sum in any::<u16>(),
            squared_norm in 0.0_f32..1e20,
            small in 1.0_f32..1000.0,
            bound in 0.0_f32..1e9,
            light in 0.0_f32..200.0,
        ) {
            for (squared_norm, bound) in [(squared_norm, bound), (small.floor(), light), (small, bound)] {
                let least = (u32::from(root(squared_norm)) * u32::from(factor(bound))) >> 16;
                let squared = f64::from(sum) * f64::from(sum);
                if squared > f64::from(bound) * f64::from(squared_norm) {
                    prop_assert!(u32::from(sum) > least);
                }
                // Not many others: one in sixteen at most, where neither is small nor the largest there is.
                if squared_norm < 1e6 && (1.0..1e3).contains(&bound) && squared_norm >= 1.0 {
                    let length = f64::from(bound * squared_norm).sqrt();
                    prop_assert!(f64::from(least) >= (length * (1.0 - 1.0 / 16.0) - 1.0).floor());
                }
            }
        }

        #[test]
        fn it_finds_what_entry_by_entry_finds(
            entries in vec((any::<u16>(), any::<u16>(), 0_u16..4), 256),
            factor in any::<u16>(),
            from in 0_usize..5,
        ) {
            let sums: Vec<u16> = entries.iter().map(|&(sum, _, often)| sum * u16::from(often == 0)).collect();
            let roots: Vec<u16> = entries.iter().map(|&(_, root, _)| root).collect();
            let expected = (from..4).find_map(|group| {
                let above = |&place: &usize| {
                    let (sum, root) = (sums[group * GROUP + place], roots[group * GROUP + place]);
                    u64::from(sum) > u64::from(root) * u64::from(factor) / 65536
                };
                let mask = (0..GROUP).filter(above).fold(0_u64, |mask, place| mask | 1 << place);
                (mask != 0).then_some((group, mask))
            });
            let (sums, roots) = (sums.as_chunks().0, roots.as_chunks().0);
            let found = first(sums, roots, from, |sums, roots| scalar(sums, roots, factor));
            prop_assert_eq!(found, expected, "the twin");
            prop_assert_eq!(next_above(sums, roots, factor, from), expected);
        }
    }
}
