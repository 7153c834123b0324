//! Finds the words of an ASCII text, 64 bytes at a time.

use std::ops::Range;

use crate::simd::classify::mask_of;

/// Bytes in one mask.
const BLOCK: usize = 64;

const SPACES: &str = match str::from_utf8(&[b' '; BLOCK]) {
    Ok(spaces) => spaces,
    Err(_) => panic!("spaces are UTF-8"),
};

/// `text` in lower case, in `buffer`, padded with spaces to the end of a block.
///
/// There is at least one space, so every word ends.
pub(super) fn lower<'a>(buffer: &'a mut String, text: &str) -> &'a str {
    buffer.clear();
    buffer.push_str(text);
    buffer.make_ascii_lowercase();
    buffer.push_str(&SPACES[text.len() % BLOCK..]);
    buffer
}

/// Calls `visit` with the range of each maximal run of letters and digits, in order.
#[inline]
pub(super) fn for_each_run(lowered: &str, visit: impl FnMut(Range<usize>)) {
    let (blocks, rest) = lowered.as_bytes().as_chunks();
    debug_assert!(rest.is_empty());
    for_each_run_of(blocks.iter().map(word_mask), visit);
}

/// The same for masks: a bit for each byte of a block, set where the byte belongs to a word. The last bit of all
/// must be clear.
///
/// A word begins at a set bit after a clear one, and ends before a clear bit after a set one, so the loop runs once
/// a word and not once a byte.
#[inline]
fn for_each_run_of(masks: impl Iterator<Item = u64>, mut visit: impl FnMut(Range<usize>)) {
    let mut start = 0; // of the open run, if there is one
    let mut open = 0; // 1 if the last byte of the previous block belongs to a word
    for (number, mask) in masks.enumerate() {
        let place = |bits: u64| number * BLOCK + bits.trailing_zeros() as usize;
        let before = mask << 1 | open;
        let (mut starts, mut ends) = (mask & !before, before & !mask);
        if open == 0 {
            start = place(starts);
            starts = without_lowest(starts);
        }
        open = mask >> (BLOCK - 1);
        while ends != 0 {
            visit(start..place(ends));
            ends = without_lowest(ends);
            start = place(starts);
            starts = without_lowest(starts);
        }
    }
}

fn without_lowest(bits: u64) -> u64 {
    bits & bits.wrapping_sub(1)
}

/// Bit `i` says whether byte `i` of `block` is a lower-case letter or a digit.
#[inline]
fn word_mask(block: &[u8; BLOCK]) -> u64 {
    mask_of(&block.map(|byte| byte.is_ascii_lowercase() | byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_says_of_each_byte_whether_it_belongs_to_a_word() {
        for byte in 0..0x80_u8 {
            for place in 0..BLOCK {
                let mut block = [b' '; BLOCK];
                block[place] = byte;
                let expected = byte.is_ascii_lowercase() || byte.is_ascii_digit();
                assert_eq!(word_mask(&block), u64::from(expected) << place, "{byte:#x}");
            }
        }
    }

    #[test]
    fn runs_end_where_blocks_and_texts_end() {
        let mut buffer = String::new();
        for length in [0, 1, 62, 63, 64, 65, 127, 128, 129, 200] {
            for before in ["", " ", "  -"] {
                let word = "w".repeat(length);
                let lowered = lower(&mut buffer, &format!("{before}{word}"));
                assert!(lowered.len().is_multiple_of(BLOCK) && lowered.ends_with(' '));
                let mut words = Vec::new();
                for_each_run(lowered, |run| words.push(&lowered[run]));
                assert_eq!(words, if length == 0 { vec![] } else { vec![&word] });
            }
        }
    }
}
