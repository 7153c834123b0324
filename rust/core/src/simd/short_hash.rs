//! XXH3-64 of short words, many at once.
//!
//! XXH3 takes another way for 1 to 3 bytes, 4 to 8, and 9 to 16. Words come in all lengths, so one by one the
//! processor guesses wrong about every second time. Here each word goes all three ways, in a lane of its own,
//! and its length says which result is taken. Seed 0, the secret of the specification.

#![expect(
    unsafe_code,
    reason = "instructions that not every processor has: a Level says that this one has them"
)]

#[cfg(target_arch = "x86_64")]
#[allow(clippy::wildcard_imports, reason = "the names of instructions")]
use std::arch::x86_64::*;

use xxhash_rust::xxh3::xxh3_64;

use super::edges::Run;
use super::level::{Level, Path};
use super::xxh3::{READ, eight, folded_product, up_to_eight, up_to_sixteen, up_to_three};

/// Bytes of a word that is short.
pub const SHORT: usize = 16;
/// Words that are hashed at once.
pub const WORDS: usize = 64;

const LANES: usize = 8;
/// Words up to which gathering takes longer than reading one by one.
const FEW: usize = 16;

type Lanes = [u64; WORDS];

/// Words that are hashed at once. Kept from text to text.
#[derive(Clone, Debug)]
pub struct ShortWords {
    /// The first eight bytes; what lies behind the word is in there, too.
    heads: Lanes,
    /// The last eight bytes of a word of nine or more.
    tails: Lanes,
    lengths: Lanes,
    hashes: Lanes,
}

impl Default for ShortWords {
    fn default() -> Self {
        let lanes = [0; WORDS];
        Self {
            heads: lanes,
            tails: lanes,
            lengths: lanes,
            hashes: lanes,
        }
    }
}

impl ShortWords {
    /// Calls `visit` with the hashes of the words, many at once and in order. A word is a run of `bytes` from `first` on, of one byte
    /// at least; those of more than [`SHORT`] are hashed one by one.
    ///
    /// # Panics
    ///
    /// Where fewer than [`READ`] bytes follow the start of a word: that is a defect of the caller.
    #[inline]
    pub fn for_each_hashes(
        &mut self,
        level: Level,
        bytes: &[u8],
        first: usize,
        runs: &[Run],
        mut visit: impl FnMut(&[u64]),
    ) {
        let bytes = &bytes[first..];
        for runs in runs.chunks(WORDS) {
            let mut long = self.fill(level, bytes, runs);
            self.hash(level, runs.len());
            while long != 0 {
                let place = long.trailing_zeros() as usize;
                long &= long - 1;
                let [start, end] = runs[place];
                self.hashes[place] = xxh3_64(&bytes[start as usize..end as usize]);
            }
            visit(&self.hashes[..runs.len()]);
        }
    }

    /// Reads the bytes of at most [`WORDS`] words, and sets a bit for each that is long.
    #[inline]
    fn fill(&mut self, level: Level, bytes: &[u8], runs: &[Run]) -> u64 {
        match level.path() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a level of this path is made only where the processor has AVX-512.
            Path::Avx512 if runs.len() > FEW => unsafe { self.fill_with_avx512(bytes, runs) },
            _ => self.fill_one_by_one(bytes, runs),
        }
    }

    /// The twin.
    fn fill_one_by_one(&mut self, bytes: &[u8], runs: &[Run]) -> u64 {
        let mut long = 0;
        let lanes = self.heads.iter_mut().zip(&mut self.tails);
        let lanes = lanes.zip(&mut self.lengths).enumerate();
        for (&[start, end], (place, ((head, tail), length))) in runs.iter().zip(lanes) {
            let (start, size) = (start as usize, end.wrapping_sub(start) as usize);
            *head = eight(bytes, start);
            *tail = eight(bytes, start + size.max(READ) - READ);
            *length = size as u64;
            long |= u64::from(size > SHORT) << place;
        }
        long
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn fill_with_avx512(&mut self, bytes: &[u8], runs: &[Run]) -> u64 {
        let Some(last) = bytes
            .len()
            .checked_sub(READ)
            .filter(|_| runs.len() <= WORDS)
        else {
            return self.fill_one_by_one(bytes, runs);
        };
        let eight = _mm512_set1_epi64(READ.cast_signed() as i64);
        let last = _mm512_set1_epi64(last.cast_signed() as i64);
        let mut long = 0;
        for (number, some) in runs.chunks(LANES).enumerate() {
            let mask = u8::MAX >> (LANES - some.len());
            // SAFETY: as many runs of 8 bytes are read as there are; the other lanes are 0.
            let edges = unsafe { _mm512_maskz_loadu_epi64(mask, some.as_ptr().cast()) };
            let starts = _mm512_and_si512(edges, _mm512_set1_epi64(u32::MAX.into()));
            let lengths = _mm512_sub_epi64(_mm512_srli_epi64::<32>(edges), starts);
            let ends = _mm512_add_epi64(starts, _mm512_max_epu64(lengths, eight));
            let tails = _mm512_sub_epi64(ends, eight);
            let outside =
                _mm512_cmpgt_epu64_mask(starts, last) | _mm512_cmpgt_epu64_mask(tails, last);
            if outside != 0 {
                return self.fill_one_by_one(bytes, runs); // which says what is wrong
            }
            let from = bytes.as_ptr().cast();
            let lanes = LANES * number..LANES * (number + 1);
            let lanes = (
                &mut self.heads[lanes.clone()],
                &mut self.tails[lanes.clone()],
                &mut self.lengths[lanes],
            );
            // SAFETY: 8 bytes follow each of these places, as was looked at; and 8 lanes are the 64 bytes that
            // are written.
            unsafe {
                let heads = _mm512_i64gather_epi64::<1>(starts, from);
                let tails = _mm512_i64gather_epi64::<1>(tails, from);
                _mm512_storeu_si512(lanes.0.as_mut_ptr().cast(), heads);
                _mm512_storeu_si512(lanes.1.as_mut_ptr().cast(), tails);
                _mm512_storeu_si512(lanes.2.as_mut_ptr().cast(), lengths);
            }
            let above =
                _mm512_cmpgt_epu64_mask(lengths, _mm512_set1_epi64(SHORT.cast_signed() as i64));
            long |= u64::from(above) << (LANES * number);
        }
        long
    }

    #[inline]
    fn hash(&mut self, level: Level, words: usize) {
        let count = words.next_multiple_of(LANES);
        match level.path() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a level of this path is made only where the processor has AVX-512.
            Path::Avx512 => unsafe { with_avx512(self, count) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a level of this path is made only where the processor has AVX2.
            Path::Avx2 => unsafe { with_avx2(self, count) },
            _ => scalar(self, count),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn with_avx512(words: &mut ShortWords, count: usize) {
    scalar(words, count);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(words: &mut ShortWords, count: usize) {
    scalar(words, count);
}

/// The twin; compiled for the registers of each path. What there is of a long word has no meaning.
#[allow(
    clippy::inline_always,
    reason = "it is compiled for each path's registers"
)]
#[inline(always)]
fn scalar(words: &mut ShortWords, count: usize) {
    let heads = words.heads[..count].as_chunks::<LANES>().0.iter();
    let tails = words.tails[..count].as_chunks::<LANES>().0;
    let lengths = words.lengths[..count].as_chunks::<LANES>().0;
    let hashes = words.hashes[..count].as_chunks_mut::<LANES>().0;
    for (((heads, tails), lengths), hashes) in heads.zip(tails).zip(lengths).zip(hashes) {
        for lane in 0..LANES {
            hashes[lane] = hash(heads[lane], tails[lane], lengths[lane]);
        }
    }
}

#[allow(
    clippy::inline_always,
    reason = "it is compiled for each path's registers"
)]
#[inline(always)]
fn hash(head: u64, tail: u64, length: u64) -> u64 {
    let one = up_to_three(head, length);
    let two = up_to_eight(head, length);
    let three = up_to_sixteen(head, tail, length, folded_product);
    let short = if length <= 3 { one } else { two };
    if length <= 8 { short } else { three }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    /// The hashes of the words of these lengths, which lie one behind the other.
    fn check(bytes: &[u8], first: usize, lengths: &[usize]) {
        let (mut runs, mut expected): (Vec<Run>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut start = 0;
        for &length in lengths {
            let run = [start, start + length].map(|edge| u32::try_from(edge).unwrap());
            expected.push(xxh3_64(&bytes[first + start..first + start + length]));
            runs.push(run);
            start += length;
        }
        for level in Level::all() {
            let (mut words, mut found) = (ShortWords::default(), Vec::new());
            words.for_each_hashes(level, bytes, first, &runs, |some| {
                found.extend_from_slice(some);
            });
            assert_eq!(found, expected, "{level}");
        }
    }

    #[test]
    fn every_length_is_hashed_at_every_lane() {
        let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
        for shift in 0..SHORT {
            let lengths: Vec<usize> = (0..200).map(|n| (n + shift) % SHORT + 1).collect();
            check(&bytes, shift, &lengths);
        }
    }

    proptest! {
        #[test]
        fn every_level_hashes_what_xxh3_hashes(
            bytes in vec(any::<u8>(), 150 * 3 * SHORT + 2 * READ),
            lengths in vec(prop_oneof![9 => 1..=SHORT, 1 => SHORT..=3 * SHORT], 0..150),
            first in 0..READ,
        ) {
            check(&bytes, first, &lengths);
        }
    }
}
