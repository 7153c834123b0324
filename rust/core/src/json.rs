//! How large a text is as a JSON string, without writing it.

use crate::tokens::{TextSize, count_bytes};

/// The size of `text` as a JSON string literal, quotes included.
///
/// The form is that of Python's `json.dumps(text, ensure_ascii=False)`: `\"`, `\\`, `\n`, `\r`, `\t`,
/// `\b` and `\f` take two bytes, any other code point below U+0020 takes six (`\u001f`), and
/// everything else is written as it is. `text` is UTF-8, or UTF-8 with lone surrogates in their
/// three-byte form.
#[must_use]
pub fn string_size(text: &[u8]) -> TextSize {
    const QUOTES: usize = 2;
    const LONG: usize = 5; // what \u001f adds to its one byte
    const SAVED: usize = 4; // what \n is shorter than \u000a
    let size = TextSize::of(text);
    let slashed = count_bytes(text, |byte| byte == b'"' || byte == b'\\');
    let control = count_bytes(text, |byte| byte < 0x20);
    let short = count_bytes(text, |byte| {
        matches!(byte, b'\n' | b'\r' | b'\t' | 0x08 | 0x0C)
    });
    let added = QUOTES + slashed + control * LONG - short * SAVED;
    TextSize {
        bytes: size.bytes + added,
        code_points: size.code_points + added,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_worked_by_hand() {
        // "a\"\\\n\u001f☕\u007f" is 1 + 2 + 2 + 2 + 6 + 3 + 1 bytes and two quotes
        let size = string_size("a\"\\\n\u{1f}☕\u{7f}".as_bytes());
        assert_eq!(size.bytes, 19);
        assert_eq!(size.code_points, 17);
    }
}
