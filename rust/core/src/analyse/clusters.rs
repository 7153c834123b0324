//! Finds stretches of a text that have words and the signs that may join them.
//!
//! A cluster is a maximal run of letters, digits, underscores and bytes outside of ASCII, with a single apostrophe
//! or hyphen between two of these, and a single dot or comma between two digits. Everything that an analyser reads
//! as one word or one compound lies in one cluster, so clusters can be read one by one. A byte outside of ASCII may
//! be any character, so it counts as a letter and as a digit.

use std::ops::Range;

/// Calls `visit` with the range of each cluster of `text`, in order.
pub(super) fn for_each_cluster(text: &str, mut visit: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let end_of_word = |from: usize| {
        let length = bytes[from..].iter().position(|&byte| !is_word(byte));
        length.map_or(bytes.len(), |length| from + length)
    };
    let mut end = 0;
    while let Some(gap) = bytes[end..].iter().position(|&byte| is_word(byte)) {
        let start = end + gap;
        end = end_of_word(start);
        while let [sign, next, ..] = bytes[end..]
            && match sign {
                b'\'' | b'-' => is_word(next),
                b'.' | b',' => is_digit(bytes[end - 1]) && is_digit(next),
                _ => false,
            }
        {
            end = end_of_word(end + 1);
        }
        visit(start..end);
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_joins_is_of_a_cluster_between_what_it_joins_alone() {
        for (text, expected) in [
            (
                "don't 'quote' a--b a-b a-'b",
                &["don't", "quote", "a", "b", "a-b", "a", "b"][..],
            ),
            (
                "1.5 v1.a 10,000, __x__",
                &["1.5", "v1", "a", "10,000", "__x__"],
            ),
            ("été, 1.é ¿qué?", &["été", "1.é", "¿qué"]),
            ("-a-", &["a"]),
            ("", &[]),
        ] {
            let mut found = Vec::new();
            for_each_cluster(text, |range| found.push(&text[range]));
            assert_eq!(found, expected);
        }
    }
}
