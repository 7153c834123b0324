//! Scans the bytes of a text, eight at a time. For most lines the answer is no.

const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
const EIGHT: usize = size_of::<u64>();

/// The lines of `text`, as `split('\n')` gives them.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let (mut found, mut start) = (Vec::with_capacity(text.len() / 32 + 1), 0);
    for (number, word) in words(text.as_bytes()).enumerate() {
        let mut ends = equal(word, b'\n');
        while ends != 0 {
            let end = number * EIGHT + ends.trailing_zeros() as usize / 8;
            found.push(&text[start..end]);
            start = end + 1;
            ends &= ends - 1;
        }
    }
    found.push(&text[start..]);
    found
}

/// Whether two adjacent spaces lie in one 8-byte word. Wherever three adjacent spaces are, two of them lie in one
/// word.
pub(super) fn may_have_gap(text: &[u8]) -> bool {
    words(text).any(|word| {
        let spaces = equal(word, b' ');
        spaces & spaces >> 8 != 0
    })
}

/// The text in words of eight bytes, the last one padded with zeros.
fn words(text: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = text.as_chunks::<EIGHT>();
    let mut last = [0; EIGHT];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().copied().chain([last]).map(u64::from_le_bytes)
}

/// The highest bit of each byte of `word` that equals `byte`.
fn equal(word: u64, byte: u8) -> u64 {
    let differs = word ^ u64::from_ne_bytes([byte; EIGHT]);
    !((differs & LOW).wrapping_add(LOW) | differs | LOW)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_those_of_split(text in "[a\n\u{8a}é ]{0,40}") {
            prop_assert_eq!(lines(&text), text.split('\n').collect::<Vec<_>>());
        }

        #[test]
        fn three_spaces_are_never_missed_and_one_is_no_gap(text in "[a ]{0,40}") {
            let has_gap = may_have_gap(text.as_bytes());
            prop_assert!(has_gap || !text.contains("   "));
            prop_assert!(!has_gap || text.contains("  "));
        }
    }
}
