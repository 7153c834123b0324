//! Estimates of the number of tokens of a text from its size, without a tokenizer.

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

/// The tokens of a block by the rule `blocks`: a quarter of its bytes, rounded down, but at least 1.
#[must_use]
pub fn at_least_one(size: TextSize) -> usize {
    bytes_over_four(size).max(1)
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
