//! `words-1`: Unicode words in lower case, CJK as bigrams. Frozen, since stored data depends on it.
//!
//! A word is a run of alphanumeric code points and combining marks, in lower case. It begins with an alphanumeric
//! code point that is not a mark: otherwise every emoji followed by a variation selector (U+FE0F, a mark) would
//! leave behind the same meaningless word.
//!
//! A run of Han, kana or Hangul becomes its overlapping pairs of code points, since these scripts do not separate
//! words. A single code point stays as it is, and marks count as code points of the run they follow. A run is split
//! where CJK and other letters meet: `abc漢字def` is `abc`, `漢字`, `def`.
//!
//! Lower case maps one code point to one: the first of its lower case mapping, with final sigma as sigma. Every
//! other character is a separator, the underscore too.

use super::class::{Class, fold};

/// The name of this rule; stores keep it with the data that depends on it.
pub const ID: &str = "words-1";

/// Calls `visit` with each word of `text`, in order.
///
/// ```
/// use siltstone_core::tokenize::words;
///
/// let mut found = Vec::new();
/// words::for_each_word("Über_3 漢字仮 ☕", |word| found.push(word.to_owned()));
/// assert_eq!(found, ["über", "3", "漢字", "字仮"]);
/// ```
pub fn for_each_word(text: &str, mut visit: impl FnMut(&str)) {
    if !text.is_ascii() {
        return for_each_unicode_word(text, &mut visit);
    }
    let lowered = text.to_ascii_lowercase();
    let mut start = 0;
    for (end, byte) in lowered.bytes().chain([b' ']).enumerate() {
        if !byte.is_ascii_alphanumeric() {
            if start < end {
                visit(&lowered[start..end]);
            }
            start = end + 1;
        }
    }
}

/// The rule itself, one code point at a time; it is right for ASCII too.
fn for_each_unicode_word(text: &str, visit: &mut impl FnMut(&str)) {
    let mut open = String::new();
    let run = &mut open;
    let mut kind = Class::Separator; // of the open run; a separator if there is none
    for c in text.chars() {
        let (class, lowered) = fold(c);
        let goes_on = class == kind || class == Class::Mark;
        if !goes_on {
            close(run, kind, visit);
            kind = class;
        }
        if kind != Class::Separator {
            run.push(lowered);
        }
    }
    close(run, kind, visit);
}

/// Visits the words of `run`, and clears it.
fn close(run: &mut String, kind: Class, visit: &mut impl FnMut(&str)) {
    match kind {
        Class::Cjk => for_each_bigram(run, visit),
        Class::Letter => visit(run),
        Class::Mark | Class::Separator => {}
    }
    run.clear();
}

/// Visits the overlapping pairs of code points of `run`, or the whole of a single one.
fn for_each_bigram(run: &str, visit: &mut impl FnMut(&str)) {
    let ends = || run.char_indices().map(|(start, c)| start + c.len_utf8());
    let starts = run.char_indices().map(|(start, _)| start);
    let mut alone = true;
    for (start, end) in starts.zip(ends().skip(1)) {
        visit(&run[start..end]);
        alone = false;
    }
    if alone {
        visit(run);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for_each_word(text, |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn a_word_never_begins_with_a_mark() {
        assert_eq!(
            words("❤\u{FE0F} \u{301}a 1\u{FE0F}\u{20E3}"),
            ["a", "1\u{FE0F}\u{20E3}"]
        );
    }

    #[test]
    fn a_run_is_split_where_cjk_and_other_letters_meet() {
        assert_eq!(words("abc漢字def"), ["abc", "漢字", "def"]);
        assert_eq!(words("か\u{3099}く x"), ["か\u{3099}", "\u{3099}く", "x"]);
    }

    proptest! {
        #[test]
        fn a_text_of_ascii_has_the_words_of_the_rule(text in "[ -~\\t\\n\\x00\\x7f]{0,150}") {
            let mut by_rule = Vec::new();
            for_each_unicode_word(&text, &mut |word| by_rule.push(word.to_owned()));
            prop_assert_eq!(words(&text), by_rule);
        }
    }
}
