//! Short stretches of text as numbers, so that they can be compared and looked up without a loop over bytes.

/// The longest stretch with a key of two numbers, in bytes.
pub(super) const SHORT: usize = 16;

/// The longest stretch with a key of three numbers, in bytes.
pub(super) const LONG: usize = 24;

/// The longest stretch with a key of one number, in bytes.
const EIGHT: usize = 8;

/// The bytes `start..end` as three numbers of eight bytes each, padded with zeros; None for more than 24 bytes.
///
/// Two different stretches without a NUL never have the same key.
pub(super) fn long_key(bytes: &[u8], start: usize, end: usize) -> Option<[u64; 3]> {
    let stretch = &bytes[start..end];
    (stretch.len() <= LONG).then(|| {
        let mut padded = [0; LONG];
        padded[..stretch.len()].copy_from_slice(stretch);
        let eights = padded.as_chunks::<EIGHT>().0;
        [0, 1, 2].map(|number| u64::from_le_bytes(eights[number]))
    })
}

/// The bytes `start..end` as two numbers, for up to 16 bytes. A plain word has the key of its lower case.
///
/// A plain word has only letters and digits, all in lower case except that the first may be a capital: analysis
/// neither cuts it nor drops anything. All longer stretches share one key that no short stretch has. The stretch
/// may only have letters, digits, `_ - ' . ,` and characters outside of ASCII.
#[inline]
pub(super) fn short_key(bytes: &[u8], start: usize, end: usize) -> [u64; 2] {
    let length = (end - start).min(SHORT + 1);
    let [first, second] = numbers(first_bytes(&bytes[start..]));
    let (first, second) = (first & KEEP[length][0], second & KEEP[length][1]);
    let lower = first | (first & FIRST) >> 1;
    let first = if is_plain(first, second) {
        lower
    } else {
        first
    };
    // This key has a byte behind a NUL, which no stretch contains.
    [first, second | u64::from(length > SHORT)]
}

/// Whether a stretch with these bytes is a plain word.
#[inline]
fn is_plain(first: u64, second: u64) -> bool {
    let is_underscore = u64::from(first & 0xFF == u64::from(b'_'));
    odd(first, FIRST) | odd(second, 0) | is_underscore == 0
}

/// Whether a stretch is a plain word, and at most 16 bytes.
pub(super) fn is_plain_word(stretch: &str) -> bool {
    let (first, rest) = stretch.as_bytes().split_at(stretch.len().min(1));
    let is_lower = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_any = |byte: &u8| byte.is_ascii_alphanumeric();
    stretch.len() <= SHORT && first.iter().all(is_any) && rest.iter().all(is_lower)
}

/// The bit of each byte that is set in `@A-Z[\]^_` and in lower case.
const LETTER: u64 = 0x4040_4040_4040_4040;

/// The bit of the first byte, where a capital may stand.
const FIRST: u64 = 0x40;

/// Returns 0 if all bytes are lower case letters, digits or NUL; bytes that `allowed` marks may be capitals.
///
/// Letters have bit 6 (0x40), digits bits 5 and 4 (0x30), lower case bit 5 (0x20). `'`, `-`, `.` and `,` have only
/// bit 5, `_` has bit 6 but not bit 5, as capitals do; bytes outside of ASCII have bit 7. The shifts bring all of
/// these bits to bit 6, and the mask removes bits that come from the neighbouring byte.
#[inline]
fn odd(bytes: u64, allowed: u64) -> u64 {
    let is_word = bytes | bytes << 2;
    let is_lower = bytes << 1 | allowed;
    let is_wide = bytes >> 1;
    let is_there = bytes | bytes << 1 | bytes << 2 | bytes >> 1;
    (!(is_word & is_lower) & is_there | is_wide) & LETTER
}

#[inline]
fn numbers(bytes: [u8; SHORT]) -> [u64; 2] {
    let both = u128::from_le_bytes(bytes);
    #[expect(clippy::cast_possible_truncation, reason = "either half is meant")]
    [both as u64, (both >> u64::BITS) as u64]
}

/// The first bytes of `rest`, with zeros behind its end.
#[inline]
fn first_bytes<const COUNT: usize>(rest: &[u8]) -> [u8; COUNT] {
    match rest.first_chunk() {
        Some(read) => *read,
        None => at_the_end(rest),
    }
}

/// The last bytes of a text, with zeros behind them.
#[cold]
fn at_the_end<const COUNT: usize>(rest: &[u8]) -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

/// For each length, the mask of the bytes that are kept; 0 for stretches that are too long.
static KEEP: [[u64; 2]; SHORT + 2] = {
    let mut keep = [[0_u64; 2]; SHORT + 2];
    let mut length = 1;
    while length <= SHORT {
        keep[length] = keep[length - 1];
        let byte = length - 1;
        keep[length][byte / EIGHT] |= 0xFF << (byte % EIGHT * 8);
        length += 1;
    }
    keep
};

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &[u8]) -> [u64; 3] {
        long_key(text, 0, text.len()).unwrap()
    }

    #[test]
    fn a_key_is_its_bytes_whatever_is_around_them() {
        let text = b"siltandstoneandriveranddelta";
        for length in 1..=LONG {
            for start in 0..=text.len() - length {
                let end = start + length;
                let stretch = &text[start..end];
                assert_eq!(long_key(text, start, end), Some(whole(stretch)));
                assert_eq!(short_key(text, start, end), short_key(stretch, 0, length));
            }
        }
        assert_eq!(whole(b"abcdefgh"), [u64::from_le_bytes(*b"abcdefgh"), 0, 0]);
        assert_ne!(whole(b"silt"), whole(b"silts"));
        assert_eq!(long_key(text, 0, LONG + 1), None);
    }

    /// The rule, byte by byte.
    fn by_the_byte(text: &[u8]) -> [u64; 2] {
        if text.len() > SHORT {
            return [0, 1];
        }
        let is_plain = str::from_utf8(text).is_ok_and(is_plain_word);
        let lower = text.to_ascii_lowercase();
        let [first, second, _] = whole(if is_plain { &lower } else { text });
        [first, second]
    }

    #[test]
    fn a_plain_word_has_lower_case_letters_and_digits_behind_its_first() {
        let of_cluster = (0..=255_u8).filter(|&byte| {
            !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"_-'.,".contains(&byte)
        });
        for byte in of_cluster {
            for length in 1..=LONG {
                for place in 0..length {
                    let mut text = vec![b'x'; length];
                    text[place] = byte;
                    let found = short_key(&text, 0, length);
                    assert_eq!(found, by_the_byte(&text), "{byte:#x} {place} {length}");
                }
            }
        }
    }
}
