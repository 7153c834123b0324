//! Texts and numbers as JSON, and the size of a text as a JSON string.

use std::fmt::Write as _;

use crate::tokens::{BLOCK, TextSize};

/// The size of `text` as a JSON string literal, quotes included.
///
/// The form is that of Python's `json.dumps(text, ensure_ascii=False)`: `\"`, `\\`, `\n`, `\r`, `\t`,
/// `\b` and `\f` take two bytes, any other code point below U+0020 takes six (`\u001f`), and
/// everything else is written as it is. `text` is UTF-8, or UTF-8 with lone surrogates in their
/// three-byte form.
#[must_use]
pub fn string_size(text: &[u8]) -> TextSize {
    const QUOTES: usize = 2;
    const LONG: usize = 5; // the bytes that \u001f adds to the one of the character
    const SAVED: usize = 4; // the bytes by which \n is shorter than \u000a
    let (mut added, mut continued) = (QUOTES, 0);
    for block in text.chunks(BLOCK) {
        // One pass counts the bytes that every text needs; escapes of control characters are rare.
        let (mut behind, mut slashed, mut control) = (0_u8, 0_u8, 0_u8);
        for &byte in block {
            behind += u8::from(byte & 0xC0 == 0x80);
            slashed += u8::from(byte == b'"' || byte == b'\\');
            control += u8::from(byte < 0x20);
        }
        continued += usize::from(behind);
        added += usize::from(slashed) + usize::from(control) * LONG;
        if control > 0 {
            let is_short = |byte| matches!(byte, b'\n' | b'\r' | b'\t' | 0x08 | 0x0C);
            let short: u8 = block.iter().map(|&byte| u8::from(is_short(byte))).sum();
            added -= usize::from(short) * SAVED;
        }
    }
    TextSize {
        bytes: text.len() + added,
        code_points: text.len() - continued + added,
    }
}

/// Appends `text` as the literal that [`string_size`] measures.
pub fn write_string(text: &str, literal: &mut String) {
    literal.push('"');
    let mut rest = text;
    while let Some(at) = first_escaped(rest.as_bytes()) {
        let (plain, escaped) = rest.split_at(at);
        literal.push_str(plain);
        let byte = escaped.as_bytes()[0];
        match byte {
            b'"' => literal.push_str("\\\""),
            b'\\' => literal.push_str("\\\\"),
            b'\n' => literal.push_str("\\n"),
            b'\r' => literal.push_str("\\r"),
            b'\t' => literal.push_str("\\t"),
            0x08 => literal.push_str("\\b"),
            0x0C => literal.push_str("\\f"),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                literal.push_str("\\u00");
                for digit in [byte >> 4, byte & 0x0F] {
                    literal.push(char::from(DIGITS[usize::from(digit)]));
                }
            }
        }
        rest = &escaped[1..];
    }
    literal.push_str(rest);
    literal.push('"');
}

/// The place of the first byte that is written as an escape. No byte of a longer code point is one.
fn first_escaped(text: &[u8]) -> Option<usize> {
    const RUN: usize = 32;
    let is_escaped = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let (runs, _) = text.as_chunks::<RUN>();
    // The whole run is looked at, which the compiler does at once.
    let is_plain = |run: &&[u8; RUN]| !run.iter().fold(false, |any, byte| any | is_escaped(byte));
    let plain = runs.iter().take_while(is_plain).count() * RUN;
    let rest = text[plain..].iter().position(is_escaped);
    rest.map(|at| plain + at)
}

// A number as JSON text.

/// Appends `number` as Python's `json.dumps` writes it: the fewest digits that give the same number, with an exponent
/// below 0.0001 and from 1e16 on. `number` is finite.
pub(crate) fn write_float(number: f64, text: &mut String) {
    let size = number.abs();
    // Writing into a string does not fail.
    if size == 0.0 || (1e-4..1e16).contains(&size) {
        let _ = write!(text, "{number:?}");
        return;
    }
    let start = text.len();
    let _ = write!(text, "{number:e}");
    // Python writes the sign of the exponent, and at least two digits of it.
    if let Some(at) = text[start..].find('e').map(|at| start + at + 1) {
        let exponent = text.split_off(at);
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent.as_str()),
        };
        let _ = write!(text, "{sign}{digits:0>2}");
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

    #[test]
    fn a_literal_is_as_large_as_it_is_measured() {
        let mut literal = String::new();
        write_string("a\"\\\n\u{1f}☕\u{7f}", &mut literal);
        assert_eq!(literal, "\"a\\\"\\\\\\n\\u001f☕\u{7f}\"");
        for text in ["", "plain", "\r\t\u{8}\u{c}\0", "naïve ☕ \"quoted\""] {
            literal.clear();
            write_string(text, &mut literal);
            assert_eq!(
                TextSize::of(literal.as_bytes()),
                string_size(text.as_bytes())
            );
        }
    }

    #[test]
    fn an_escape_is_found_at_every_place_of_a_long_text() {
        for escaped in ['"', '\\', '\n', '\u{1f}'] {
            for at in 0..70 {
                let mut text = "é".repeat(at);
                text.push(escaped);
                text.push_str(&"ü".repeat(40));
                assert_eq!(first_escaped(text.as_bytes()), Some(2 * at), "{escaped:?}");
                assert_eq!(first_escaped(&text.as_bytes()[2 * at + 1..]), None);
            }
        }
    }

    #[test]
    fn numbers_as_python_writes_them() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.300_000_000_000_000_04, "0.30000000000000004"),
            (0.0001, "0.0001"),
            (0.000_123_45, "0.00012345"),
            (0.000_099, "9.9e-05"),
            (1e-5, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (5e-324, "5e-324"),
            (-1.5e-300, "-1.5e-300"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            let mut text = String::from("[");
            write_float(number, &mut text);
            assert_eq!(text, format!("[{expected}"));
        }
    }
}
