//! Lower-cases a text, finds the bytes that belong to words, and sums weights of kinds, 64 bytes at a time.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "loads and stores of whole registers")
)]

#[cfg(target_arch = "x86_64")]
#[allow(clippy::wildcard_imports, reason = "the names of instructions")]
use std::arch::x86_64::*;
use std::array;

use super::level::Level;

/// Bytes in one mask.
pub const BLOCK: usize = 64;

/// A text in lower case, with a bit for each byte that is a letter or a digit. Its buffers are reused from text to
/// text.
#[derive(Clone, Debug, Default)]
pub struct Folded {
    bytes: Vec<u8>,
    masks: Vec<u64>,
}

impl Folded {
    /// Sets the text. False if it is not ASCII; the contents are then undefined.
    pub fn fold(&mut self, text: &[u8]) -> bool {
        let (blocks, rest) = text.as_chunks::<BLOCK>();
        // The last block has room for a byte that ends the last word.
        let mut last = [b' '; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        let needed = (blocks.len() + 1) * BLOCK;
        // One more block, so that the last word can be read as a whole register.
        if self.bytes.len() < needed + BLOCK {
            self.bytes.resize(needed + BLOCK, 0);
        }
        self.masks.clear();
        self.masks.resize(blocks.len() + 1, 0);
        let (lowered, _) = self.bytes.as_chunks_mut::<BLOCK>();
        let (head, tail) = lowered.split_at_mut(blocks.len());
        let (masks, end) = self.masks.split_at_mut(blocks.len());
        fold(blocks, head, masks) && fold(&[last], &mut tail[..1], end)
    }

    /// The text in lower case, padded with spaces to the end of a block, and one block more: a read of the last word
    /// may touch it, and its bytes have no meaning.
    #[must_use]
    pub fn padded(&self) -> &[u8] {
        &self.bytes
    }

    /// Bit `i` of mask `n` says whether byte `64 * n + i` is a letter or a digit.
    #[must_use]
    pub(crate) fn masks(&self) -> &[u64] {
        &self.masks
    }

    /// The size of its buffers in bytes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.bytes.capacity() + self.masks.capacity() * size_of::<u64>()
    }
}

type Block = [u8; BLOCK];

/// Whether all blocks are ASCII; if so, writes their lower case to `lowered` and their masks to `masks`.
#[cfg(target_arch = "x86_64")]
fn fold(blocks: &[Block], lowered: &mut [Block], masks: &mut [u64]) -> bool {
    // SAFETY: every processor of this architecture has SSE2.
    unsafe { with_sse2(blocks, lowered, masks) }
}

/// The same, on other architectures.
#[cfg(not(target_arch = "x86_64"))]
fn fold(blocks: &[Block], lowered: &mut [Block], masks: &mut [u64]) -> bool {
    scalar(blocks, lowered, masks)
}

/// The portable counterpart, without special instructions.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn scalar(blocks: &[Block], lowered: &mut [Block], masks: &mut [u64]) -> bool {
    let mut high = 0;
    for ((block, lowered), mask) in blocks.iter().zip(lowered).zip(masks) {
        high |= block.iter().fold(0, |high, byte| high | byte) & 0x80;
        *lowered = block.map(|byte| byte | u8::from(byte.is_ascii_uppercase()) << 5);
        *mask = mask_of(&lowered.map(|byte| byte.is_ascii_lowercase() | byte.is_ascii_digit()));
    }
    high == 0
}

/// The mask of a block: bit `i` is the flag of byte `i`.
#[inline]
pub(crate) fn mask_of(flags: &[bool; BLOCK]) -> u64 {
    let bytes = flags.map(u8::from);
    let eights = bytes.as_chunks().0.iter().enumerate();
    eights.fold(0, |mask, (number, eight)| {
        mask | gather(u64::from_le_bytes(*eight)) << (number * 8)
    })
}

/// Bit `i` of the result is the lowest bit of byte `i`; all other bits must be clear.
///
/// The factor has its bits at 56, 49, .. 7: the product moves the bit of byte `i` from `8 * i` to `56 + i`.
#[inline]
fn gather(flags: u64) -> u64 {
    flags.wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// The weights of bytes by their kind and the kind of the byte before, as one rule has them.
#[derive(Debug)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "tables of its kernel")
)]
pub struct Weights {
    plain: [u8; 13],
    pairs: [u8; 16],
    rests: [u8; 16],
}

impl Weights {
    /// The order of the weights is that of `tokens`.
    #[must_use]
    pub fn new(plain: [u8; 13]) -> Self {
        let pair = |place: usize| (b"aA0\x80"[place & 3], b"aA0 "[place >> 2]);
        let rest = |place: usize| {
            let (now, before) = (b"\x80 \n-"[place & 3], b"\ra"[place >> 2 & 1]);
            (now, if place < 8 { before } else { now })
        };
        let weight = |(now, before)| weight_of(now, before, &plain);
        Self {
            plain,
            pairs: array::from_fn(|place| weight(pair(place))),
            rests: array::from_fn(|place| weight(rest(place))),
        }
    }
}

/// The sum of the weights of the ASCII bytes of a text; before the first is a space.
#[must_use]
pub fn weigh(level: Level, text: &[u8], weights: &Weights) -> usize {
    const NOTHING: u8 = 0x80; // weighs nothing here
    let Some((&first, rest)) = text.split_first() else {
        return 0;
    };
    let (nows, now) = rest.as_chunks();
    let (befores, _) = text.as_chunks();
    let mut last = ([NOTHING; BLOCK], [NOTHING; BLOCK]);
    last.0[..now.len()].copy_from_slice(now);
    last.1[..now.len()].copy_from_slice(&text[nows.len() * BLOCK..][..now.len()]);
    let blocks = nows.iter().zip(befores).chain([(&last.0, &last.1)]);
    let sum = match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level of this path is made only where the processor has AVX2.
        super::level::Path::Avx2 => unsafe { weigh_with_avx2(first, blocks, weights) },
        _ => blocks.map(|pair| weigh_block(pair, &weights.plain)).sum(),
    };
    sum + usize::from(weight_of(first, b' ', &weights.plain))
}

/// Looks up the kind of each byte by its halves, and its weight by its kind and the one before. A kind has: small,
/// capital, digit or other in the lowest two bits, and again in the next; none, space, line end or sign; a bit unless
/// it is a line end.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[allow(clippy::cast_possible_truncation, reason = "it has 64 bits here")]
fn weigh_with_avx2<'a>(
    first: u8,
    blocks: impl Iterator<Item = (&'a Block, &'a Block)>,
    weights: &Weights,
) -> usize {
    // By the upper half: the kind of most bytes, and the bit of bytes that are signs instead. By the lower half: where.
    const KINDS: u128 = 0x4F4F_4F4F_4F4F_4F4F_4040_4545_4A5F_002F;
    const ROWS: u128 = 0x1008_1008_0402_2001;
    const SIGNS: u128 = 0x3737_3637_3726_2223_2323_2323_2323_2329;
    let table = |bytes: [u8; 16]| {
        // SAFETY: they are the 16 bytes that are read.
        let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        _mm256_broadcastsi128_si256(bytes)
    };
    let [most, rows, signs] = [KINDS, ROWS, SIGNS].map(|bytes| table(bytes.to_le_bytes()));
    let (pairs, rests) = (table(weights.pairs), table(weights.rests));
    let splat = |byte: u8| _mm256_set1_epi8(byte.cast_signed());
    let zero = _mm256_setzero_si256();
    let kinds_of = |bytes| {
        let upper = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), splat(0x0F));
        let rows = _mm256_shuffle_epi8(rows, upper);
        let sign = _mm256_and_si256(_mm256_shuffle_epi8(signs, bytes), rows);
        _mm256_or_si256(
            _mm256_shuffle_epi8(most, upper),
            _mm256_cmpgt_epi8(sign, zero),
        )
    };
    let (mut last, mut sums) = (kinds_of(splat(first)), zero);
    for (now, before) in blocks {
        let (nows, befores) = (now.as_chunks::<32>().0, before.as_chunks::<32>().0);
        for (now, before) in nows.iter().zip(befores) {
            // SAFETY: each is the 32 bytes that are read.
            let (now, before) = unsafe {
                let load = |bytes: &[u8; 32]| _mm256_loadu_si256(bytes.as_ptr().cast());
                (load(now), load(before))
            };
            let kinds = kinds_of(now);
            let across = _mm256_permute2x128_si256(last, kinds, 0x21);
            last = kinds;
            let lasts = _mm256_alignr_epi8(kinds, across, 15);
            let joined = |mask: u8, other: u8| {
                _mm256_or_si256(
                    _mm256_and_si256(kinds, splat(mask)),
                    _mm256_and_si256(lasts, splat(other)),
                )
            };
            let same = _mm256_and_si256(_mm256_cmpeq_epi8(now, before), splat(8));
            let rest = _mm256_or_si256(_mm256_srli_epi16(joined(0x30, 0x40), 4), same);
            let pair = _mm256_shuffle_epi8(pairs, joined(0xF3, 0x0C));
            let weighed = _mm256_or_si256(pair, _mm256_shuffle_epi8(rests, rest));
            sums = _mm256_add_epi64(sums, _mm256_sad_epu8(weighed, zero));
        }
    }
    let sums = _mm_add_epi64(
        _mm256_castsi256_si128(sums),
        _mm256_extracti128_si256(sums, 1),
    );
    let sums = _mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums));
    _mm_cvtsi128_si64(sums).cast_unsigned() as usize
}

fn weigh_block((now, before): (&Block, &Block), weights: &[u8; 13]) -> usize {
    let mut weighed = [0; BLOCK];
    #[allow(
        clippy::needless_range_loop,
        reason = "the compiler weighs many places at once"
    )]
    for place in 0..BLOCK {
        weighed[place] = weight_of(now[place], before[place], weights);
    }
    weighed.iter().map(|&weight| usize::from(weight)).sum()
}

/// The weight of a byte. Every condition is a byte of ones or zeros, so that the compiler weighs many bytes at once.
#[inline]
fn weight_of(byte: u8, before: u8, weights: &[u8; 13]) -> u8 {
    let below = |byte: u8, n: u8| 0u8.wrapping_sub(u8::from(byte < n));
    let is = |one: u8, other: u8| 0u8.wrapping_sub(u8::from(one == other));
    let letter_of = |byte: u8| below((byte | 0x20).wrapping_sub(b'a'), 26);
    let capital_of = |byte: u8| below(byte.wrapping_sub(b'A'), 26);
    let digit_of = |byte: u8| below(byte.wrapping_sub(b'0'), 10);
    let line_of = |byte: u8| below(byte.wrapping_sub(b'\t'), 2) | is(byte, b'\r');
    let (letter, after_letter) = (letter_of(byte), letter_of(before));
    let (capital, after_capital) = (capital_of(byte), capital_of(before));
    let (digit, after_digit) = (digit_of(byte), digit_of(before));
    let (line, after_line) = (line_of(byte), line_of(before));
    let space = is(byte, b' ');
    let sign = !(letter | digit | line | space) & below(byte, 0x80);
    (letter & weights[0].wrapping_add(!after_letter & weights[1]))
        .wrapping_add(
            capital
                & weights[2].wrapping_add(
                    after_letter & ((after_capital & weights[3]) | (!after_capital & weights[4])),
                ),
        )
        .wrapping_add(((letter & after_digit) | (digit & after_letter)) & weights[5])
        .wrapping_add(digit & weights[6].wrapping_add(!after_digit & weights[7]))
        .wrapping_add(sign & weights[8].wrapping_add(is(byte, before) & weights[9]))
        .wrapping_add(space & is(before, b' ') & weights[10])
        .wrapping_add(line & ((after_line & weights[12]) | (!after_line & weights[11])))
}

/// A quarter of a block at a time. Wider registers gain less than a tenth of an embedding.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn with_sse2(blocks: &[Block], lowered: &mut [Block], masks: &mut [u64]) -> bool {
    const QUARTER: usize = BLOCK / 4;
    let splat = |byte: u8| _mm_set1_epi8(byte.cast_signed());
    let within = |bytes, first: u8, last: u8| {
        let above = _mm_cmpgt_epi8(bytes, splat(first - 1));
        _mm_and_si128(above, _mm_cmpgt_epi8(splat(last + 1), bytes))
    };
    let mut high = _mm_setzero_si128();
    for ((block, lowered), mask) in blocks.iter().zip(lowered).zip(masks) {
        *mask = 0;
        let quarters = block.as_chunks::<QUARTER>().0.iter();
        let quarters = quarters.zip(lowered.as_chunks_mut::<QUARTER>().0);
        for (number, (quarter, lowered)) in quarters.enumerate() {
            // SAFETY: a quarter of a block is the 16 bytes that are read.
            let bytes = unsafe { _mm_loadu_si128(quarter.as_ptr().cast()) };
            high = _mm_or_si128(high, bytes);
            let upper = _mm_and_si128(within(bytes, b'A', b'Z'), splat(b'a' - b'A'));
            let lower = _mm_add_epi8(bytes, upper);
            let word = _mm_or_si128(within(lower, b'a', b'z'), within(lower, b'0', b'9'));
            *mask |= u64::from(_mm_movemask_epi8(word).cast_unsigned()) << (number * QUARTER);
            // SAFETY: a quarter of a block is the 16 bytes that are written.
            unsafe { _mm_storeu_si128(lowered.as_mut_ptr().cast(), lower) };
        }
    }
    _mm_movemask_epi8(high) == 0
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The reference implementation, byte by byte; None for a text that is not ASCII.
    fn by_the_byte(text: &[u8]) -> Option<(Vec<u8>, Vec<u64>)> {
        let mut bytes = text.to_ascii_lowercase();
        bytes.resize((text.len() / BLOCK + 1) * BLOCK, b' ');
        let mut masks = vec![0; bytes.len() / BLOCK];
        for (place, byte) in bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| byte.is_ascii_alphanumeric())
        {
            masks[place / BLOCK] |= u64::from(byte.is_ascii()) << (place % BLOCK);
        }
        text.is_ascii().then_some((bytes, masks))
    }

    fn check(text: &[u8]) {
        let mut folded = Folded::default();
        let is_ascii = folded.fold(text);
        let found = is_ascii.then(|| {
            let bytes = &folded.padded()[..folded.masks().len() * BLOCK];
            (bytes.to_vec(), folded.masks().to_vec())
        });
        assert_eq!(found, by_the_byte(text));
        let (blocks, _) = text.as_chunks::<BLOCK>();
        let (mut lowered, mut masks) = (vec![[0; BLOCK]; blocks.len()], vec![0; blocks.len()]);
        let is_ascii = scalar(blocks, &mut lowered, &mut masks);
        let expected = by_the_byte(blocks.as_flattened()).map(|(mut bytes, mut masks)| {
            bytes.truncate(blocks.len() * BLOCK);
            masks.truncate(blocks.len());
            (bytes, masks)
        });
        let found = is_ascii.then(|| (lowered.as_flattened().to_vec(), masks));
        assert_eq!(found, expected, "the twin");
    }

    #[test]
    fn every_byte_is_told_at_every_place_of_a_block() {
        for byte in 0..=u8::MAX {
            for place in [0, 1, 31, 32, 62, 63, 64, 70, 127, 128] {
                for length in [place + 1, 129, 192] {
                    let mut text = vec![b'x'; length];
                    if let Some(there) = text.get_mut(place) {
                        *there = byte;
                    }
                    check(&text);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn every_level_weighs_what_byte_by_byte_weighs(
            runs in vec((any::<u8>(), "[a-cX-Z0-2 \\n\\t-/]{0,40}", any::<bool>()), 0..30),
            plain in any::<[u8; 13]>(),
        ) {
            let bytes = |(byte, run, twice): (u8, String, bool)| [vec![byte; 1 + usize::from(twice)], run.into()].concat();
            let text: Vec<u8> = runs.into_iter().flat_map(bytes).collect();
            let before = [b' '].into_iter().chain(text.iter().copied());
            let pairs = text.iter().zip(before);
            let twin: usize = pairs.map(|(&byte, before)| usize::from(weight_of(byte, before, &plain))).sum();
            for level in Level::all() {
                prop_assert_eq!(weigh(level, &text, &Weights::new(plain)), twin);
            }
        }

        #[test]
        fn blocks_are_folded_as_byte_by_byte(text in "[ -~\\t]{0,400}", bytes in vec(any::<u8>(), 0..300)) {
            check(text.as_bytes());
            check(&bytes);
        }
    }
}
