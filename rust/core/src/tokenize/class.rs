//! The class of a code point under `words-1`, and its lower case.

use std::array;
use std::sync::LazyLock;

use unicode_normalization::char::is_combining_mark;

/// The role of a code point in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Ends a word.
    Separator,
    /// Continues a word, never begins one: general category M.
    Mark,
    /// Begins or continues a word: alphabetic or numeric, but neither a mark nor CJK.
    Letter,
    /// Begins or continues a run that is read as bigrams: Han, kana or Hangul.
    Cjk,
}

/// The ranges of Han, kana and Hangul. Frozen: part of the definition of `words-1`.
///
/// Only alphanumeric code points of these ranges are [`Class::Cjk`]; U+30FB (a middle dot) is a separator, and
/// U+3099 (a voicing mark) is a mark. Bopomofo and circled or parenthesised forms are not included.
const CJK: [(u32, u32); 22] = [
    (0x1100, 0x11FF),   // Hangul jamo
    (0x3005, 0x3007),   // ideographic iteration mark, closing mark, zero
    (0x3021, 0x3029),   // Hangzhou numerals
    (0x3031, 0x3035),   // vertical kana repeat marks
    (0x3038, 0x303C),   // Hangzhou numerals, iteration mark, masu mark
    (0x3041, 0x30FF),   // hiragana, katakana
    (0x3131, 0x318E),   // Hangul compatibility jamo
    (0x31F0, 0x31FF),   // katakana phonetic extensions
    (0x3400, 0x4DBF),   // Han, extension A
    (0x4E00, 0x9FFF),   // Han
    (0xA960, 0xA97F),   // Hangul jamo, extended A
    (0xAC00, 0xD7A3),   // Hangul syllables
    (0xD7B0, 0xD7FF),   // Hangul jamo, extended B
    (0xF900, 0xFAFF),   // Han, compatibility
    (0xFF66, 0xFF9F),   // halfwidth katakana
    (0xFFA0, 0xFFDC),   // halfwidth Hangul
    (0x16FE3, 0x16FE3), // old Chinese iteration mark
    (0x16FF2, 0x16FF6), // small Han forms and numerals
    (0x1AFF0, 0x1AFFF), // kana, extended B
    (0x1B000, 0x1B16F), // kana supplement, extended A, small forms
    (0x20000, 0x2FFFF), // Han, plane 2
    (0x30000, 0x3FFFF), // Han, plane 3
];

/// The class of `c` in `words-1`.
///
/// Marks are tested first: many of them are alphabetic too.
#[must_use]
pub fn classify(c: char) -> Class {
    if c.is_ascii() {
        return if c.is_ascii_alphanumeric() {
            Class::Letter
        } else {
            Class::Separator
        };
    }
    if is_combining_mark(c) {
        Class::Mark
    } else if !c.is_alphanumeric() {
        Class::Separator
    } else if is_in_cjk(c) {
        Class::Cjk
    } else {
        Class::Letter
    }
}

/// The lower case of `c`: always one code point, independent of its neighbours.
///
/// Final sigma becomes sigma, and İ becomes i without its dot above.
#[must_use]
pub fn lower(c: char) -> char {
    match c {
        _ if c.is_ascii() => c.to_ascii_lowercase(),
        'ς' => 'σ',
        _ => c.to_lowercase().next().unwrap_or(c),
    }
}

/// [`classify`] and [`lower`] in one, with fast paths for the most common characters.
#[inline]
pub(crate) fn fold(c: char) -> (Class, char) {
    match c {
        '\0'..='\u{7FF}' => TWO_BYTES[c as usize],
        '一'..='\u{9FFF}' | 'ぁ'..='ゖ' | 'ァ'..='ヺ' | '가'..='힣' => (Class::Cjk, c),
        '\u{2000}'..='\u{206F}' | '\u{3000}'..='\u{3004}' | '\u{1F300}'..='\u{1FAFF}' => {
            (Class::Separator, c)
        }
        _ => (classify(c), lower(c)),
    }
}

/// The classes and lower cases of all code points of at most two bytes: the alphabets of Europe and the Near East.
static TWO_BYTES: LazyLock<[(Class, char); 0x800]> = LazyLock::new(|| {
    array::from_fn(|code| {
        let c = u32::try_from(code).ok().and_then(char::from_u32);
        let c = c.expect("surrogates begin at U+D800");
        (classify(c), lower(c))
    })
});

fn is_in_cjk(c: char) -> bool {
    let code = u32::from(c);
    let above = CJK.partition_point(|&(first, _)| first <= code);
    above > 0 && code <= CJK[above - 1].1
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::Xxh3;

    use super::*;

    fn all() -> impl Iterator<Item = char> {
        '\0'..=char::MAX
    }

    #[test]
    fn the_quick_look_up_says_what_the_rule_says() {
        for c in all() {
            assert_eq!(fold(c), (classify(c), lower(c)), "{c:?}");
        }
    }

    #[test]
    fn lower_case_is_stable_and_changes_no_class() {
        for c in all() {
            assert_eq!(lower(lower(c)), lower(c), "{c:?}");
            assert_eq!(classify(lower(c)), classify(c), "{c:?}");
        }
        assert_eq!(
            ['İ', 'ς', 'ẞ', 'Σ', 'Ǆ'].map(lower),
            ['i', 'σ', 'ß', 'σ', 'ǆ']
        );
    }

    /// A hash of the classes that `words-1` gives all code points, by the Unicode tables of the versions named.
    /// Newer tables may classify code points that were unassigned; nothing else may change.
    #[test]
    fn the_rule_is_frozen() {
        let tables = (
            char::UNICODE_VERSION.0,
            unicode_normalization::UNICODE_VERSION.0,
        );
        let mut hash = Xxh3::new();
        for c in all() {
            hash.update(&[classify(c) as u8]);
            hash.update(&u32::from(lower(c)).to_le_bytes());
        }
        if tables == (17, 18) {
            assert_eq!(hash.digest(), 6_777_356_158_028_747_473);
        }
    }
}
