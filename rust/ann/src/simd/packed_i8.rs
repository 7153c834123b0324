//! The form of rows and queries of bytes, -127 to 127, which every path can multiply.
//!
//! A row is stored as words of two bytes: the second byte above the first, to which 128 is added:
//!
//! ```text
//! word = 256 * second + (first + 128)
//! ```
//!
//! The instructions that every processor has multiply words of 16 bits. With `q` for the bytes of the query, two
//! multiplications a word are enough, and no byte has to be widened:
//!
//! ```text
//! word * q_second + (first + 128) * (256 * q_first - q_second)
//!     = 256 * (first * q_first + second * q_second) + 256 * 128 * q_first
//! ```
//!
//! The last term is known in advance. The sum of 512 bytes always fits in 32 bits, so that is how many are added up
//! before the division by 256.

use siltstone_core::simd::Level;

/// Rows are padded with zeros to a multiple of so many bytes.
pub const LANES: usize = 64;
/// Words that are added up before the division.
pub(super) const PART: usize = 256;
/// The number that is added to the first byte of a word.
const SHIFT: i16 = 128;

/// The words of a row of `codes`, padded with zeros.
///
/// # Panics
///
/// If there are more codes than places.
#[must_use]
pub fn packed(codes: &[i8], places: usize) -> Vec<u16> {
    assert!(codes.len() <= places, "more codes than places");
    let mut row = vec![word(0, 0); places.next_multiple_of(LANES) / 2];
    let (pairs, rest) = codes.as_chunks();
    for (to, &[first, second]) in row.iter_mut().zip(pairs) {
        *to = word(first, second);
    }
    if let (Some(to), &[first]) = (row.get_mut(pairs.len()), rest) {
        *to = word(first, 0);
    }
    row
}

fn word(first: i8, second: i8) -> u16 {
    ((i16::from(second) << 8) | (i16::from(first) + SHIFT)).cast_unsigned()
}

/// A query, prepared for one path.
#[derive(Clone, Debug)]
pub struct Query {
    pub(super) level: Level,
    /// `q_second` of each word, and `256 * q_first - q_second`.
    pub(super) seconds: Vec<i16>,
    pub(super) mixed: Vec<i16>,
    /// The addend of the rows' shift in the sum of each part.
    pub(super) biases: Vec<i32>,
}

impl Query {
    /// An empty query; [`set`](Self::set) fills it.
    #[must_use]
    pub fn new(level: Level) -> Self {
        Self {
            level,
            seconds: Vec::new(),
            mixed: Vec::new(),
            biases: Vec::new(),
        }
    }

    /// Sets the query to a row, as [`packed`] makes one, for the kernels of `level`.
    pub fn set(&mut self, level: Level, row: &[u16]) {
        self.level = level;
        self.biases.clear();
        self.seconds.clear();
        self.mixed.clear();
        self.seconds
            .extend(row.iter().map(|&word| word.cast_signed() >> 8));
        self.mixed.extend(row.iter().map(|&word| {
            let first = (word & 0xFF).cast_signed() - SHIFT;
            (first << 8) - (word.cast_signed() >> 8)
        }));
        let bias = |part: &[u16]| part.iter().map(|&word| first(word)).sum::<i32>() << 15;
        self.biases.extend(row.chunks(PART).map(bias));
    }

    /// Its length, in words.
    pub(super) fn len(&self) -> usize {
        self.seconds.len()
    }
}

fn first(word: u16) -> i32 {
    i32::from(word & 0xFF) - i32::from(SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_worked_by_hand() {
        // 256 * 3 + (-2 + 128); filled up with words of two zeros, 0 + 128
        let row = packed(&[-2, 3], 2);
        assert_eq!((row[0], row[1], row.len()), (894, 128, LANES / 2));
        // 894 * 7 + 126 * (256 * 5 - 7) = 256 * (-2 * 5 + 3 * 7) + 256 * 128 * 5
        assert_eq!(894 * 7 + 126 * (256 * 5 - 7), 256 * 11 + 256 * 128 * 5);
        let mut query = Query::new(Level::PORTABLE);
        query.set(Level::PORTABLE, &packed(&[5, 7], 2));
        assert_eq!((query.seconds[0], query.mixed[0]), (7, 256 * 5 - 7));
        assert_eq!(query.biases, [256 * 128 * 5]);
    }
}
