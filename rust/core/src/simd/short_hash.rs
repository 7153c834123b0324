//! XXH3-64 of short words, many at once.
//!
//! XXH3 takes another way for 1 to 3 bytes, 4 to 8, and 9 to 16. Words come in all lengths, so one by one the
//! processor guesses wrong about every second time. Here each word goes all three ways, in a lane of its own,
//! and its length says which result is taken. Seed 0, the secret of the specification.

#![expect(
    unsafe_code,
    reason = "instructions that not every processor has: a Level says that this one has them"
)]

use super::level::{Level, Path};

/// Bytes of a word that is short.
pub const SHORT: usize = 16;
/// Words that are hashed at once.
pub const WORDS: usize = 64;
/// Bytes that are read of a word, whatever its length: as many must lie behind its first.
pub const READ: usize = 8;

const LANES: usize = 8;

type Lanes = [u64; WORDS];

/// Words that wait to be hashed.
#[derive(Clone, Debug)]
pub struct ShortWords {
    /// The first eight bytes; what lies behind the word is in there, too.
    heads: Lanes,
    /// The last eight bytes of a word of nine or more.
    tails: Lanes,
    lengths: Lanes,
    waiting: usize,
}

impl Default for ShortWords {
    fn default() -> Self {
        let lanes = [0; WORDS];
        Self {
            heads: lanes,
            tails: lanes,
            lengths: lanes,
            waiting: 0,
        }
    }
}

impl ShortWords {
    /// Lets the word wait that begins at `start` and has 1 to [`SHORT`] bytes. Whether [`WORDS`] wait, which
    /// must be hashed before the next one.
    ///
    /// # Panics
    ///
    /// Where fewer than [`READ`] bytes follow `start`: that is a defect of the caller.
    #[inline]
    pub fn push(&mut self, bytes: &[u8], start: usize, length: usize) -> bool {
        let place = self.waiting % WORDS;
        self.heads[place] = eight(bytes, start);
        self.tails[place] = eight(bytes, start + length.max(READ) - READ);
        self.lengths[place] = length as u64;
        self.waiting = place + 1;
        self.waiting == WORDS
    }

    /// Hashes those that wait, in the order they came, and then none waits.
    #[inline]
    pub fn take_hashes<'a>(&mut self, level: Level, hashes: &'a mut [u64; WORDS]) -> &'a [u64] {
        let waiting = self.waiting;
        self.waiting = 0;
        let count = waiting.next_multiple_of(LANES);
        match level.path() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a level of this path is made only where the processor has AVX-512.
            Path::Avx512 => unsafe { with_avx512(self, count, hashes) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a level of this path is made only where the processor has AVX2.
            Path::Avx2 => unsafe { with_avx2(self, count, hashes) },
            _ => scalar(self, count, hashes),
        }
        &hashes[..waiting]
    }
}

#[inline]
fn eight(bytes: &[u8], start: usize) -> u64 {
    let eight = bytes[start..].first_chunk();
    u64::from_le_bytes(*eight.expect("eight bytes follow"))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn with_avx512(words: &ShortWords, count: usize, hashes: &mut Lanes) {
    scalar(words, count, hashes);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(words: &ShortWords, count: usize, hashes: &mut Lanes) {
    scalar(words, count, hashes);
}

/// The twin; compiled for the registers of each path.
#[allow(
    clippy::inline_always,
    reason = "it is compiled for each path's registers"
)]
#[inline(always)]
fn scalar(words: &ShortWords, count: usize, hashes: &mut Lanes) {
    let heads = words.heads[..count].as_chunks::<LANES>().0.iter();
    let tails = words.tails[..count].as_chunks::<LANES>().0;
    let lengths = words.lengths[..count].as_chunks::<LANES>().0;
    let hashes = hashes[..count].as_chunks_mut::<LANES>().0;
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
    let three = up_to_sixteen(head, tail, length);
    let short = if length <= 3 { one } else { two };
    if length <= 8 { short } else { three }
}

/// Eight bytes of the secret, from `at` on.
const fn secret(at: usize) -> u64 {
    /// The first 56 bytes of it.
    const SECRET: [u8; 56] = [
        0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad,
        0x1c, 0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3,
        0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc,
        0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e,
    ];
    let mut value = 0;
    let mut byte = 8;
    while byte > 0 {
        byte -= 1;
        value = value << 8 | SECRET[at + byte] as u64;
    }
    value
}

/// What is shifted out of a lane is 0, and the shift is below 64 for the words that the result is taken of.
#[allow(
    clippy::inline_always,
    reason = "it is compiled for each path's registers"
)]
#[inline(always)]
fn shifted(head: u64, bytes: u64) -> u64 {
    head >> (bytes.wrapping_mul(8) % 64)
}

#[allow(
    clippy::inline_always,
    reason = "it is compiled for each path's registers"
)]
#[inline(always)]
fn up_to_three(head: u64, length: u64) -> u64 {
    const FLIP: u64 = (secret(0) ^ secret(0) >> 32) & 0xFFFF_FFFF;
    let first = head & 0xFF;
    let middle = shifted(head, length >> 1) & 0xFF;
    let last = shifted(head, length.wrapping_sub(1)) & 0xFF;
    let mut hash = (first << 16 | middle << 24 | last | length << 8) ^ FLIP;
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0x1656_67B1_9E37_79F9);
    hash ^ hash >> 32
}

#[allow(
    clippy::inline_always,
    reason = "it is compiled for each path's registers"
)]
#[inline(always)]
fn up_to_eight(head: u64, length: u64) -> u64 {
    const FLIP: u64 = secret(8) ^ secret(16);
    const FACTOR: u64 = 0x9FB2_1C65_1E98_DF25;
    let last = shifted(head, length.wrapping_sub(4)) & 0xFFFF_FFFF;
    let mut hash = last.wrapping_add(head << 32) ^ FLIP;
    hash ^= hash.rotate_left(49) ^ hash.rotate_left(24);
    hash = hash.wrapping_mul(FACTOR);
    hash ^= (hash >> 35).wrapping_add(length);
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> 28
}

#[allow(
    clippy::inline_always,
    reason = "it is compiled for each path's registers"
)]
#[inline(always)]
fn up_to_sixteen(head: u64, tail: u64, length: u64) -> u64 {
    const LOW: u64 = secret(24) ^ secret(32);
    const HIGH: u64 = secret(40) ^ secret(48);
    let (low, high) = (head ^ LOW, tail ^ HIGH);
    let sum = length.wrapping_add(low.swap_bytes()).wrapping_add(high);
    let mut hash = sum.wrapping_add(folded_product(low, high));
    hash ^= hash >> 37;
    hash = hash.wrapping_mul(0x1656_6791_9E37_79F9);
    hash ^ hash >> 32
}

/// Both halves of a product of 128 bits, xored: of products of 32 bits, which lanes can do.
#[allow(
    clippy::inline_always,
    reason = "it is compiled for each path's registers"
)]
#[inline(always)]
fn folded_product(one: u64, other: u64) -> u64 {
    const LOW: u64 = 0xFFFF_FFFF;
    let low = (one & LOW) * (other & LOW);
    let cross = (one >> 32) * (other & LOW);
    let middle = (one & LOW) * (other >> 32) + (low >> 32) + (cross & LOW);
    let high = (one >> 32) * (other >> 32) + (cross >> 32) + (middle >> 32);
    high ^ (middle << 32 | low & LOW)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    /// The hashes of the words of these lengths, which lie one behind the other.
    fn check(bytes: &[u8], lengths: &[usize]) {
        for level in Level::all() {
            let (mut words, mut hashes) = (ShortWords::default(), [0; WORDS]);
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            let mut start = 0;
            for &length in lengths {
                expected.push(xxh3_64(&bytes[start..start + length]));
                if words.push(bytes, start, length) {
                    found.extend_from_slice(words.take_hashes(level, &mut hashes));
                }
                start += length;
            }
            found.extend_from_slice(words.take_hashes(level, &mut hashes));
            assert_eq!(found, expected, "{level}");
            assert!(words.take_hashes(level, &mut hashes).is_empty());
        }
    }

    #[test]
    fn every_length_is_hashed_at_every_lane() {
        let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
        for shift in 0..SHORT {
            let lengths: Vec<usize> = (0..200).map(|n| (n + shift) % SHORT + 1).collect();
            check(&bytes, &lengths);
        }
    }

    proptest! {
        #[test]
        fn every_level_hashes_what_xxh3_hashes(
            bytes in vec(any::<u8>(), 150 * SHORT + READ),
            lengths in vec(1..=SHORT, 0..150),
        ) {
            check(&bytes, &lengths);
        }
    }
}
