//! Sums weights of kinds of bytes, 64 bytes at a time.

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

type Block = [u8; BLOCK];

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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

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
    }
}
