//! Finds the sums of a block that reach a bound, as one bit for each.

#![allow(
    unsafe_code,
    reason = "instructions that not every processor has: a Level says that this one has them"
)]

#[cfg(target_arch = "x86_64")]
#[allow(clippy::wildcard_imports, reason = "the names of instructions")]
use std::arch::x86_64::*;
use std::hint::select_unpredictable;

use super::columns::BLOCK;
use super::level::Level;

/// Entries in one mask.
pub const GROUP: usize = 64;

/// A bit for each entry of a block.
pub type Masks = [u64; BLOCK / GROUP];

/// Sets a bit for each of `sums` that is at least `least`, and clears all others.
pub fn reach(level: Level, sums: &[f32; BLOCK], least: f32, masks: &mut Masks) {
    match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level of this path is made only where the processor has AVX2.
        super::level::Path::Avx2 => unsafe { with_avx2(sums, least, masks) },
        _ => scalar(sums, least, masks),
    }
}

/// Fills `entries` with the entries whose bit is set, ascending; false if there are more than `most`, and then only
/// the first ones are there.
pub fn members(masks: &Masks, most: usize, entries: &mut Vec<u16>) -> bool {
    entries.clear();
    let mut groups = 0_u64; // that have some
    for (group, &mask) in masks.iter().enumerate() {
        groups |= u64::from(mask != 0) << group;
    }
    let (mut group, mut mask) = (0, 0);
    while groups | mask != 0 {
        // Whether a group has another entry cannot be predicted by the processor, so the next group is prepared in
        // any case.
        let (next, is_due) = (groups.trailing_zeros(), mask == 0);
        let others = groups & groups.wrapping_sub(1);
        groups = select_unpredictable(is_due, others, groups);
        group = select_unpredictable(is_due, next, group);
        mask = select_unpredictable(is_due, masks[next as usize % masks.len()], mask);
        if entries.len() == most {
            return false;
        }
        let entry = group * u64::BITS + mask.trailing_zeros();
        entries.push(u16::try_from(entry).unwrap_or(0));
        mask &= mask - 1;
    }
    true
}

/// The portable counterpart. Sixteen entries are compared at once if registers allow; most runs of sixteen have no
/// entry.
fn scalar(sums: &[f32; BLOCK], least: f32, masks: &mut Masks) {
    const RUN: usize = 16;
    for (mask, sums) in masks.iter_mut().zip(sums.as_chunks::<GROUP>().0) {
        *mask = 0;
        for (number, run) in sums.as_chunks::<RUN>().0.iter().enumerate() {
            if run
                .iter()
                .map(|&sum| sum >= least)
                .fold(false, |any, reached| any | reached)
            {
                for (place, &sum) in run.iter().enumerate() {
                    *mask |= u64::from(sum >= least) << (number * RUN + place);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(sums: &[f32; BLOCK], least: f32, masks: &mut Masks) {
    const LANES: usize = 8;
    let least = _mm256_set1_ps(least);
    for (mask, sums) in masks.iter_mut().zip(sums.as_chunks::<GROUP>().0) {
        *mask = 0;
        for (number, run) in sums.as_chunks::<LANES>().0.iter().enumerate() {
            // SAFETY: 8 sums are the 32 bytes that are read.
            let run = unsafe { _mm256_loadu_ps(run.as_ptr()) };
            let reached = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(run, least));
            *mask |= u64::from(reached.cast_unsigned()) << (number * LANES);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_level_finds_what_entry_by_entry_finds(
            some in vec((0..BLOCK, 0_u8..20), 0..600),
            least in 0_u8..20,
        ) {
            // Small whole numbers, so that many are equal to the bound.
            let (mut sums, least) = ([0.0; BLOCK], f32::from(least));
            for (place, sum) in some {
                sums[place] = f32::from(sum);
            }
            let mut twin: Masks = [u64::MAX; BLOCK / GROUP];
            scalar(&sums, least, &mut twin);
            for level in Level::all() {
                let mut masks: Masks = [u64::MAX; BLOCK / GROUP];
                reach(level, &sums, least, &mut masks);
                prop_assert_eq!(masks, twin);
                for (place, &sum) in sums.iter().enumerate() {
                    let found = masks[place / GROUP] >> (place % GROUP) & 1 == 1;
                    prop_assert_eq!(found, sum >= least, "{} {}", level, place);
                }
            }
        }

        #[test]
        fn members_are_the_bits_that_are_set_but_for_too_many(
            some in btree_set(0..BLOCK, 0..200),
            most in 0..200_usize,
        ) {
            let mut masks: Masks = [0; BLOCK / GROUP];
            for &entry in &some {
                masks[entry / GROUP] |= 1 << (entry % GROUP);
            }
            let mut entries = vec![7];
            let is_all = members(&masks, most, &mut entries);
            prop_assert_eq!(is_all, some.len() <= most);
            prop_assert_eq!(entries.len(), some.len().min(most));
            prop_assert!(entries.iter().map(|&entry| usize::from(entry)).eq(some.into_iter().take(most)));
        }
    }
}
