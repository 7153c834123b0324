//! Words that are one typo away from a word that is not known: what somebody may have meant.

use super::language::Language;
use super::normal::{Normalizer, hash};
use super::stop::is_stop_word;
use super::terms::for_each_word;

/// Letters of a word that may be a typo: what is shorter is near too many others, what is longer is no word.
const LETTERS: std::ops::RangeInclusive<usize> = 5..=24;

/// Calls `visit` with each word of a query that may have a typo, in order, and with its term: words of letters
/// alone that say something.
pub fn for_each_correctable(text: &str, mut visit: impl FnMut(&str, u64)) {
    let normalizer = Normalizer::default();
    for_each_word(text, Language::English, |word| {
        let is_letters = word.chars().all(|c| alphabet(c).is_some());
        if is_letters && LETTERS.contains(&word.chars().count()) && !is_stop_word(word) {
            visit(word, hash(&normalizer.normal(word)));
        }
    });
}

/// All words at one edit from a word that say something, some of them twice.
///
/// An edit leaves a letter out, adds or changes one, or swaps two that follow each other. The first letter stays,
/// unless it is swapped.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// One after the other, and where each ends.
    words: String,
    ends: Vec<usize>,
}

impl Edits {
    /// Those of `word`; none where it begins with no letter of a script that words are corrected in.
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

    /// Each of them.
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

/// The letters of the script of a letter, as they are after folding; None for a script that words are not
/// corrected in.
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
