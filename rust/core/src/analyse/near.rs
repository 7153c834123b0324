//! Words at an edit distance of one from an unknown word: its possible corrections.

use super::language::Language;
use super::normal::{Normalizer, hash};
use super::stop::is_stop_word;
use super::terms::for_each_word;

/// The length of words that are corrected, in letters: a shorter word is near too many others, and a longer one is
/// hardly a word.
const LETTERS: std::ops::RangeInclusive<usize> = 5..=24;

/// Calls `visit` with each word of a query that may have a typo, in order, and with its term. These are words of
/// letters only, without stop words.
pub fn for_each_correctable(text: &str, mut visit: impl FnMut(&str, u64)) {
    let normalizer = Normalizer::default();
    for_each_word(text, Language::English, |word| {
        let is_letters = word.chars().all(|c| alphabet(c).is_some());
        if is_letters && LETTERS.contains(&word.chars().count()) && !is_stop_word(word) {
            visit(word, hash(&normalizer.normal(word)));
        }
    });
}

/// All content words at one edit from a word; some occur twice.
///
/// An edit removes, adds or replaces one letter, or swaps two adjacent letters. The first letter is only changed by
/// a swap.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// The words one after the other, and where each ends.
    words: String,
    ends: Vec<usize>,
}

impl Edits {
    /// The edits of `word`; none if its first letter is of a script that is not corrected.
    #[must_use]
    pub fn of(word: &str) -> Self {
        let mut edits = Self::default();
        let first = word.chars().next();
        let Some(alphabet) = first.and_then(alphabet) else {
            return edits;
        };
        for (at, letter) in word.char_indices() {
            let (before, after) = word.split_at(at);
            let rest = &after[letter.len_utf8()..];
            if let Some(next) = rest.chars().next() {
                edits.offer(word, before, &[next, letter], &rest[next.len_utf8()..]);
            }
            if at > 0 {
                edits.offer(word, before, &[], rest);
                for added in alphabet.clone() {
                    edits.offer(word, before, &[added], after);
                    edits.offer(word, before, &[added], rest);
                }
            }
        }
        for added in alphabet {
            edits.offer(word, word, &[added], "");
        }
        edits
    }

    /// Each edited word.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .map(|(&start, &end)| &self.words[start..end])
    }

    fn offer(&mut self, word: &str, before: &str, letters: &[char], after: &str) {
        let start = self.words.len();
        self.words.push_str(before);
        self.words.extend(letters);
        self.words.push_str(after);
        let edited = &self.words[start..];
        if edited == word || is_stop_word(edited) {
            self.words.truncate(start);
        } else {
            self.ends.push(self.words.len());
        }
    }
}

/// The folded letters of the script of a letter; None for a script that is not corrected.
fn alphabet(c: char) -> Option<std::ops::RangeInclusive<char>> {
    match c {
        'a'..='z' | 'ß' | 'ı' | 'ø' | 'æ' | 'œ' | 'đ' | 'ł' | 'þ' | 'ð' => Some('a'..='z'),
        'α'..='ω' => Some('α'..='ω'),
        'а'..='ѿ' => Some('а'..='я'),
        'ء'..='ي' => Some('ء'..='ي'),
        'ँ'..='्' => Some('ँ'..='्'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(word: &str) -> Vec<String> {
        let normalizer = Normalizer::default();
        let edits = Edits::of(word);
        let normal = |word| normalizer.normal(word).into_owned();
        edits.iter().map(normal).collect()
    }

    #[test]
    fn one_edit_leads_to_what_was_meant() {
        for (typo, meant) in [
            ("mountian", "mountain"),
            ("omuntain", "mountain"),
            ("moutain", "mountain"),
            ("mounntain", "mountain"),
            ("mountaim", "mountain"),
            ("mountai", "mountain"),
            ("paintng", "paint"),
            ("защта", "защит"),
        ] {
            assert!(near(typo).iter().any(|found| found == meant), "{typo}");
        }
        for (other, far) in [
            ("fountain", "mountain"),
            ("ountain", "mountain"),
            ("moutian", "mountain"),
        ] {
            assert!(!near(other).iter().any(|found| found == far), "{other}");
        }
    }

    #[test]
    fn short_words_numbers_and_stop_words_are_as_they_are() {
        let mut found = Vec::new();
        for_each_correctable(
            "Which silt settles in v1.2.3 at ปลาปลา mud42 rivers?",
            |word, _| {
                found.push(word.to_owned());
            },
        );
        assert_eq!(found, ["settles", "rivers"]);
    }
}
