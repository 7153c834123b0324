//! The number of tokens of a text, without a tokenizer: estimates from its size.

/// The size of a text, or the sum of the sizes of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextSize {
    /// Bytes of UTF-8; a lone surrogate counts three.
    pub bytes: usize,
    /// Code points; a lone surrogate is one.
    pub code_points: usize,
}

impl TextSize {
    /// The size of `text`: UTF-8, or UTF-8 with lone surrogates in their three-byte form.
    ///
    /// Every byte that does not continue a code point begins one.
    #[must_use]
    #[inline]
    pub fn of(text: &[u8]) -> Self {
        Self {
            bytes: text.len(),
            code_points: count_bytes(text, |byte| byte & 0xC0 != 0x80),
        }
    }

    /// Both sizes, added up.
    #[must_use]
    #[inline]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            code_points: self.code_points + other.code_points,
        }
    }
}

/// Rule `bytes/4`: a quarter of the bytes, rounded down.
#[must_use]
pub fn bytes_over_four(size: TextSize) -> usize {
    size.bytes / 4
}

/// Rule `chars/3`: a third of the code points, rounded up.
#[must_use]
pub fn chars_over_three(size: TextSize) -> usize {
    size.code_points.div_ceil(3)
}

/// What a block counts by rule `blocks`: a quarter of its bytes, rounded down, but never nothing.
#[must_use]
pub fn at_least_one(size: TextSize) -> usize {
    bytes_over_four(size).max(1)
}

/// Bytes that are counted together: seven registers of 32 bytes, and no counter of a byte can overflow.
pub(crate) const BLOCK: usize = 224;

/// How many bytes of `text` satisfy `predicate`.
///
/// Blocks of at most 255 bytes let the counter be a byte, so that the compiler counts a whole
/// vector register at a time.
pub(crate) fn count_bytes(text: &[u8], predicate: impl Fn(u8) -> bool) -> usize {
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
        assert_eq!(at_least_one(size), 2);
        assert_eq!(at_least_one(TextSize::of(b"abc")), 1); // floor(0.75), lifted
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
