//! Estimates of the number of tokens of a text, without a tokenizer.

use std::array;
use std::sync::OnceLock;

use crate::simd::Level;
use crate::simd::classify::{Weights, weigh};

/// The size of a text, or the sum of the sizes of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextSize {
    /// Bytes of UTF-8. A lone surrogate counts as three.
    pub bytes: usize,
    /// Code points. A lone surrogate counts as one.
    pub code_points: usize,
}

impl TextSize {
    /// The size of `text`, which is UTF-8, or UTF-8 with lone surrogates in their three-byte form.
    ///
    /// Every byte that is no continuation byte begins a code point.
    #[must_use]
    #[inline]
    pub fn of(text: &[u8]) -> Self {
        Self {
            bytes: text.len(),
            code_points: count_bytes(text, |byte| byte & 0xC0 != 0x80),
        }
    }

    /// The sum of both sizes.
    #[must_use]
    #[inline]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            code_points: self.code_points + other.code_points,
        }
    }
}

/// The rule `bytes/4`: a quarter of the bytes, rounded down.
#[must_use]
pub fn bytes_over_four(size: TextSize) -> usize {
    size.bytes / 4
}

/// The rule `chars/3`: a third of the code points, rounded up.
#[must_use]
pub fn chars_over_three(size: TextSize) -> usize {
    size.code_points.div_ceil(3)
}

/// The weights of characters of one rule: of a family of tokenizers, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Family(u8);

impl Family {
    /// The rule `blocks`: a quarter of the bytes, or what numbers, ids and signs weigh if that is more.
    pub const BLOCKS: Self = Self(11);

    /// The family of the rule with that name: `blocks`, `weights` for a tokenizer that is not known, or `weights/qwen`.
    #[must_use]
    pub fn of(rule: &str) -> Option<Self> {
        let found = FAMILIES.iter().position(|&known| known == rule)?;
        u8::try_from(found).ok().map(Self)
    }

    /// The tokens of a block: its characters by their weights, but at least 1; none if it is empty.
    #[must_use]
    pub fn tokens(self, text: &[u8]) -> usize {
        let least = usize::from(!text.is_empty());
        let weight = self.weight(text);
        let tokens = if self == Self::BLOCKS {
            (text.len() / 4).max(weight / TOKEN)
        } else {
            weight.div_ceil(TOKEN)
        };
        tokens.max(least)
    }

    /// The weights of the characters of a text together, in parts of which [`TOKEN`] are a token.
    ///
    /// `text` is UTF-8, or UTF-8 with lone surrogates in their three-byte form. The weight of a character depends on
    /// its kind and the kind before it; before the first one is a space.
    #[must_use]
    pub fn weight(self, text: &[u8]) -> usize {
        static TABLES: [OnceLock<Tables>; FAMILIES.len()] =
            [const { OnceLock::new() }; FAMILIES.len()];
        let family = usize::from(self.0) % FAMILIES.len();
        let Tables(plain, wide) = TABLES[family].get_or_init(|| Tables::of(family));
        let sum = weigh(Level::current(), text, plain);
        if text.is_ascii() {
            return sum;
        }
        sum + weigh_wide(text, wide)
    }
}

/// The weights of one family, and those of the characters that are not ASCII by their cells.
struct Tables(Weights, [u16; CELLS]);

impl Tables {
    fn of(family: usize) -> Self {
        let row = |cell: usize| match cell {
            PICTURES => SCRIPTS.len() - 1,
            0 => 0,
            _ => SCRIPTS.partition_point(|row| row.0 <= cell << 7) - 1,
        };
        let plain = PLAIN[family].map(|weight| weight.to_le_bytes()[0]);
        Self(
            Weights::new(plain),
            array::from_fn(|cell| SCRIPTS[row(cell)].1[family]),
        )
    }
}

/// The weights of the characters that are not ASCII. Their first bytes are found in eight bytes at once.
fn weigh_wide(text: &[u8], weights: &[u16; CELLS]) -> usize {
    let (words, rest) = text.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut sum = 0;
    for (number, word) in words.iter().chain([&last]).enumerate() {
        let word = u64::from_le_bytes(*word);
        let mut firsts = word & (word << 1) & 0x8080_8080_8080_8080;
        while firsts != 0 {
            let at = number * 8 + firsts.trailing_zeros() as usize / 8;
            sum += usize::from(weights[cell(text[at], text.get(at + 1).copied())]);
            firsts &= firsts - 1;
        }
    }
    sum
}

/// The parts of a token in which weights are given.
pub const TOKEN: usize = 64;

/// The weight of a mark or a quote of JSON around a text.
pub const MARK: usize = TOKEN / 4;

/// The names of the rules by weights: for a tokenizer that is not known, for each family, and the default rule. Their
/// weights stand in this order below.
#[rustfmt::skip]
const FAMILIES: [&str; 12] = [
    "weights", "weights/o200k", "weights/cl100k", "weights/llama3", "weights/llama4", "weights/qwen", "weights/qwen3.5",
    "weights/gemma", "weights/mistral", "weights/deepseek", "weights/claude", "blocks",
];

/// The weights of ASCII for each family, fitted on texts of 120 kinds. The first row is at least what any family
/// counts; the last is so light for letters that prose and code count by their bytes. A row has: a letter, the first of a word, a capital, one after another, one after a small letter, a letter beside a digit; a digit, the first of a number; a sign, the same again; a space after another; a line end, another.
const PLAIN: [[i16; 13]; 12] = [
    [23, 0, 68, -51, -3, 22, 62, 58, 63, -37, 7, 53, 64],
    [12, 13, 42, -42, 14, 4, 18, 91, 39, -37, 5, 50, 12],
    [10, 28, 44, -45, 25, 0, 18, 92, 34, -28, 4, 57, 12],
    [15, 7, 48, -50, 1, 6, 18, 96, 34, -29, 5, 39, 13],
    [12, 10, 41, -40, 14, 7, 19, 88, 41, -39, 5, 45, 17],
    [16, 0, 47, -50, -15, 13, 57, 81, 35, -31, 4, 54, 10],
    [14, 0, 44, -46, -2, 14, 60, 73, 45, -45, 6, 64, 25],
    [15, 3, 30, -30, 3, 19, 62, 59, 50, -48, 7, 59, 25],
    [14, 7, 36, -26, 15, 11, 62, 63, 38, -15, 4, 51, 23],
    [12, 19, 35, -30, 26, 5, 19, 84, 38, -31, 4, 53, 20],
    [11, 30, 64, -69, 51, 5, 18, 85, 46, -39, 6, 64, 9],
    [3, 39, 30, -11, 103, -39, 66, 97, 36, -9, 6, 34, 20],
];

/// The weights of the other characters, by the first code point of their script. The last row is for pictures.
#[rustfmt::skip]
const SCRIPTS: [(usize, [u16; 12]); 47] = [
    (0x0080, [327, 34, 99, 50, 44, 77, 56, 45, 33, 82, 112, 82]), // Latin-1
    (0x0100, [161, 104, 159, 92, 69, 123, 93, 86, 111, 137, 112, 137]), // Latin of other languages
    (0x0280, [178, 143, 155, 167, 126, 114, 151, 112, 159, 110, 145, 167]), // phonetic letters and accents
    (0x0380, [92, 29, 70, 30, 28, 67, 29, 30, 30, 36, 52, 67]), // Greek
    (0x0400, [45, 23, 40, 25, 21, 32, 25, 23, 25, 29, 31, 32]), // Cyrillic
    (0x0500, [151, 31, 144, 128, 73, 78, 60, 46, 34, 47, 58, 128]), // Armenian
    (0x0580, [84, 34, 80, 80, 39, 33, 43, 41, 39, 41, 58, 80]), // Hebrew
    (0x0600, [80, 25, 57, 29, 28, 39, 26, 27, 24, 32, 53, 39]), // Arabic
    (0x0780, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare scripts
    (0x0900, [94, 29, 83, 43, 30, 77, 41, 26, 33, 49, 60, 77]), // Devanagari
    (0x0980, [142, 33, 97, 97, 40, 85, 43, 24, 40, 39, 72, 97]), // Bengali
    (0x0A00, [217, 55, 136, 136, 64, 124, 72, 56, 62, 82, 161, 136]), // Gurmukhi
    (0x0A80, [215, 43, 136, 136, 52, 132, 62, 40, 55, 75, 87, 136]), // Gujarati
    (0x0B00, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare scripts
    (0x0B80, [144, 27, 102, 102, 50, 82, 39, 23, 30, 41, 61, 102]), // Tamil
    (0x0C00, [165, 39, 134, 134, 53, 116, 52, 35, 40, 63, 81, 134]), // Telugu
    (0x0C80, [163, 42, 135, 135, 50, 116, 58, 41, 47, 64, 151, 135]), // Kannada
    (0x0D00, [170, 30, 122, 118, 45, 99, 51, 34, 41, 71, 88, 118]), // Malayalam
    (0x0D80, [214, 48, 145, 144, 54, 129, 66, 46, 208, 79, 85, 208]), // Sinhala
    (0x0E00, [123, 32, 66, 35, 28, 41, 24, 30, 40, 30, 64, 41]), // Thai
    (0x0E80, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare scripts
    (0x1000, [140, 38, 138, 138, 46, 117, 44, 31, 39, 62, 89, 138]), // Burmese
    (0x1080, [144, 27, 140, 140, 33, 74, 45, 36, 37, 56, 54, 140]), // Georgian
    (0x1100, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare scripts
    (0x1200, [218, 144, 197, 197, 67, 100, 137, 65, 196, 156, 110, 197]), // Ethiopic
    (0x1400, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare scripts
    (0x1780, [209, 47, 113, 112, 50, 86, 75, 48, 196, 92, 85, 196]), // Khmer
    (0x1800, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare scripts
    (0x1E00, [64, 32, 32, 32, 32, 32, 32, 32, 32, 32, 35, 32]), // Latin with two accents
    (0x1F00, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare scripts
    (0x2000, [58, 70, 69, 87, 41, 131, 118, 19, 123, 43, 107, 55]), // quotes, dashes
    (0x2080, [203, 133, 133, 137, 111, 98, 136, 105, 151, 119, 165, 151]), // signs
    (0x2500, [96, 24, 40, 32, 20, 35, 31, 24, 54, 29, 35, 54]), // lines of boxes
    (0x2580, [203, 133, 133, 137, 111, 98, 136, 105, 151, 119, 165, 151]), // signs
    (0x3000, [95, 55, 77, 51, 44, 54, 48, 46, 48, 57, 64, 57]), // Kana
    (0x3100, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare Han
    (0x4E00, [105, 57, 82, 59, 48, 53, 46, 46, 72, 47, 83, 72]), // Han
    (0xA000, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare scripts
    (0xAC00, [107, 56, 92, 58, 49, 64, 56, 59, 52, 62, 92, 64]), // Hangul
    (0xD780, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare scripts
    (0xF900, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare Han
    (0xFB00, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare scripts
    (0xFE00, [144, 32, 224, 92, 60, 32, 120, 32, 177, 32, 32, 144]), // selectors
    (0xFE80, [192, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]), // rare scripts
    (0xFF00, [64, 121, 201, 93, 97, 32, 38, 166, 32, 32, 32, 64]), // full width
    (0x10000, [320, 264, 262, 252, 261, 205, 294, 264, 276, 222, 320, 294]), // beyond the basic plane
    (0xFE_FF00, [256, 140, 181, 181, 142, 96, 181, 103, 254, 140, 209, 254]), // pictures
];

/// Scripts are looked up by 128 code points; after the basic plane are pictures, and the rest.
const CELLS: usize = PICTURES + 2;

const PICTURES: usize = 512;

/// The place of a character among the cells, by its first two bytes.
#[inline]
fn cell(first: u8, second: Option<u8>) -> usize {
    let (first, second) = (usize::from(first), usize::from(second.unwrap_or(0)));
    match first {
        0xF0.. => PICTURES + usize::from((first, second) != (0xF0, 0x9F)),
        0xE0.. => (first & 0xF) << 5 | (second & 0x3F) >> 1,
        _ => (first & 0x1F) >> 1,
    }
}

/// The number of bytes that are counted together: seven registers of 32 bytes. A counter of one byte cannot overflow.
pub(crate) const BLOCK: usize = 224;

/// The number of bytes of `text` that satisfy `predicate`.
///
/// In blocks of at most 255 bytes, the counter can be a byte, so the compiler counts a whole
/// vector register at a time.
fn count_bytes(text: &[u8], predicate: impl Fn(u8) -> bool) -> usize {
    text.chunks(BLOCK)
        .map(|block| {
            let count: u8 = block.iter().map(|&byte| u8::from(predicate(byte))).sum();
            usize::from(count)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_worked_by_hand() {
        // "naïve ☕": n a ï(2) v e space ☕(3) = 10 bytes, 7 code points
        let size = TextSize::of("naïve ☕".as_bytes());
        assert_eq!((size.bytes, size.code_points), (10, 7));
        assert_eq!(bytes_over_four(size), 2); // floor(2.5)
        assert_eq!(chars_over_three(size), 3); // ceil(2.33)
        let family = Family::default();
        assert_eq!(family.weight(b"aB 12"), 23 + (23 + 68 - 3) + (62 + 58) + 62);
        assert_eq!(
            (
                family.tokens(b""),
                family.tokens(b" "),
                family.tokens(b"--")
            ),
            (0, 1, 2)
        );
    }

    #[test]
    fn a_lone_surrogate_is_three_bytes_and_one_code_point() {
        let size = TextSize::of(&[0xED, 0xA0, 0x80]); // U+D800 in its three-byte form
        assert_eq!((size.bytes, size.code_points), (3, 1));
    }

    #[test]
    fn the_sizes_of_two_texts_make_the_size_of_both() {
        for (one, other) in [("", "é"), ("naïve", " ☕"), ("☕☕", "")] {
            let both = TextSize::of(format!("{one}{other}").as_bytes());
            let sum = TextSize::of(one.as_bytes()).plus(TextSize::of(other.as_bytes()));
            assert_eq!(sum, both, "{one:?} and {other:?}");
        }
    }

    #[test]
    fn counting_in_blocks_is_counting() {
        for length in [0, 1, 223, 224, 225, 448, 449, 10_000] {
            let text = vec![b'x'; length];
            assert_eq!(count_bytes(&text, |byte| byte == b'x'), length);
            assert_eq!(count_bytes(&text, |byte| byte == b'y'), 0);
        }
    }
}
