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

use xxhash_rust::xxh3::xxh3_64;

use super::ascii;
use super::ascii::{Stretch, stretches};
use super::by_length::ByLength;
use super::class::{Class, fold};
use crate::simd::classify::Folded;
use crate::simd::edges::{Edges, Runs};

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
pub fn for_each_word(text: &str, visit: impl FnMut(&str)) {
    Scanner::default().for_each_word(text, visit);
}

/// Finds words, and keeps its buffers from one text to the next.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    lowered: String,
    folded: Folded,
    edges: Edges,
    by_length: ByLength,
}

impl Scanner {
    /// Calls `visit` with each word of `text`, in order. A word borrows the scanner's buffer.
    pub fn for_each_word(&mut self, text: &str, mut visit: impl FnMut(&str)) {
        for stretch in stretches(text) {
            match stretch {
                Stretch::Ascii(text) => {
                    let lowered = ascii::lower(&mut self.lowered, text);
                    ascii::for_each_run(lowered, |run| visit(&lowered[run]));
                }
                Stretch::Mixed(text) => for_each_unicode_word(text, &mut self.lowered, &mut visit),
            }
        }
    }

    /// The size of its buffers in bytes; they grow with the longest text.
    pub(crate) fn room(&self) -> usize {
        self.lowered.capacity() + self.folded.room()
    }

    /// Calls `visit` with the XXH3-64 hashes of the words of `text`, many at a time and in no order: for callers
    /// that count words.
    #[inline]
    pub fn for_each_hashes(&mut self, text: &str, mut visit: impl FnMut(&[u64])) {
        if !self.hash_ascii(text, &mut visit) {
            for stretch in stretches(text) {
                match stretch {
                    Stretch::Ascii(text) => {
                        self.hash_ascii(text, &mut visit);
                    }
                    Stretch::Mixed(text) => {
                        for_each_unicode_word(text, &mut self.lowered, &mut |word| {
                            visit(&[xxh3_64(word.as_bytes())]);
                        });
                    }
                }
            }
        }
    }

    /// Visits the hashes of the words of an ASCII text; false, without any visit, for another text.
    #[inline]
    fn hash_ascii(&mut self, text: &str, visit: &mut impl FnMut(&[u64])) -> bool {
        let Self {
            folded,
            edges,
            by_length,
            ..
        } = self;
        if !folded.fold(text.as_bytes()) {
            return false;
        }
        let (bytes, masks) = (folded.padded(), folded.masks());
        // Words are hashed one by one, and those of like length together.
        edges.for_each_runs(masks, |runs| match runs {
            Runs::Behind(first, runs) => by_length.push_all(bytes, first, runs, visit),
            Runs::Reaching(run) => visit(&[xxh3_64(&bytes[run])]),
        });
        by_length.drain(bytes, visit);
        true
    }
}

/// The rule itself, one code point at a time, with `run` as its buffer; it is right for ASCII too.
fn for_each_unicode_word(text: &str, run: &mut String, visit: &mut impl FnMut(&str)) {
    run.clear();
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
        fn the_fast_ways_find_what_the_rule_finds(
            pieces in prop::collection::vec(
                prop_oneof!["[ -~\\t\\n\\x00\\x7f]{0,150}", "\\PC{0,5}", "[漢字かーñ\u{301}— ]{1,5}"],
                0..6,
            ),
        ) {
            let text = pieces.concat();
            let mut by_rule = Vec::new();
            for_each_unicode_word(&text, &mut String::new(), &mut |word| by_rule.push(word.to_owned()));
            prop_assert_eq!(&words(&text), &by_rule);

            let mut expected: Vec<u64> = by_rule.iter().map(|word| xxh3_64(word.as_bytes())).collect();
            expected.sort_unstable();
            let mut scanner = Scanner::default();
            let mut hashes = Vec::new();
            scanner.for_each_hashes(&text, |some| hashes.extend_from_slice(some));
            hashes.sort_unstable();
            prop_assert_eq!(&hashes, &expected);
        }
    }
}
