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

// Cuts a text into stretches that are ASCII and stretches that are not, never inside a word.
//
// Most texts are ASCII except for a dash here and an emoji there; the ASCII between these is read by the fast
// path.

/// The shortest ASCII stretch that is worth a cut, in bytes.
const MIN_ASCII: usize = 64;

/// A piece of a text that ends with the text or after an ASCII separator, which ends every word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stretch<'a> {
    /// All of it is ASCII.
    Ascii(&'a str),
    /// Some of it is not.
    Mixed(&'a str),
}

/// The stretches of `text`, in order; together they are the text.
pub(super) fn stretches(text: &str) -> impl Iterator<Item = Stretch<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (stretch, after) = (!rest.is_empty()).then(|| first(rest))?;
        rest = after;
        Some(stretch)
    })
}

/// The first stretch of `text`, and the rest of the text.
fn first(text: &str) -> (Stretch<'_>, &str) {
    if text.is_ascii() {
        return (Stretch::Ascii(text), "");
    }
    let bytes = text.as_bytes();
    let ascii = ascii_prefix(bytes);
    let separator = bytes[..ascii].iter().rposition(|&byte| is_separator(byte));
    let cut = separator.map_or(0, |place| place + 1);
    if cut >= MIN_ASCII {
        let (stretch, after) = text.split_at(cut);
        return (Stretch::Ascii(stretch), after);
    }
    let (stretch, after) = text.split_at(mixed_end(bytes, ascii));
    (Stretch::Mixed(stretch), after)
}

/// The end of a stretch whose first non-ASCII byte is at `from`: after the next separator that is followed by
/// ASCII.
fn mixed_end(text: &[u8], from: usize) -> usize {
    let mut seen = from;
    while let Some(place) = text[seen..].iter().position(|&byte| is_separator(byte)) {
        let end = seen + place + 1;
        let next = &text[end..text.len().min(end + MIN_ASCII)];
        let ascii = ascii_prefix(next);
        if ascii == next.len() {
            return end;
        }
        seen = end + ascii;
    }
    text.len()
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric()
}

/// How many bytes of ASCII `text` begins with.
fn ascii_prefix(text: &[u8]) -> usize {
    let whole: usize = text
        .chunks(64)
        .take_while(|chunk| chunk.is_ascii())
        .map(<[u8]>::len)
        .sum();
    let rest = &text[whole..];
    whole
        + rest
            .iter()
            .position(|byte| !byte.is_ascii())
            .unwrap_or(rest.len())
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

    #[test]
    fn a_dash_costs_its_surroundings_only() {
        let long = "word ".repeat(20);
        let text = format!("{long}— {long}");
        let found: Vec<_> = stretches(&text).collect();
        assert_eq!(
            found,
            [
                Stretch::Ascii(&long),
                Stretch::Mixed("— "),
                Stretch::Ascii(&long)
            ]
        );
    }

    #[test]
    fn no_stretch_begins_inside_a_word() {
        let word = "w".repeat(200);
        let text = format!("a {word}é{word} b");
        let found: Vec<_> = stretches(&text).collect();
        let mixed = format!("a {word}é{word} ");
        assert_eq!(found, [Stretch::Mixed(&mixed), Stretch::Ascii("b")]);
    }
}
