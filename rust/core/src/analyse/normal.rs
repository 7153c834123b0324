//! One form for all forms of a word: the base of an irregular one, and then its stem.

use std::borrow::Cow;

use frostem::{Algorithm, Stemmer};
use xxhash_rust::xxh3::xxh3_64;

use super::irregular::base;

/// Letters of the longest word that is stemmed: longer ones are no words of English.
const LONGEST: usize = 40;

/// Snowball's English stemmer, for words of ASCII letters; others are their own normal form.
pub(super) struct Normalizer(Stemmer);

impl Default for Normalizer {
    fn default() -> Self {
        Self(Stemmer::new(Algorithm::English))
    }
}

impl Normalizer {
    /// The normal form of a word in lower case.
    pub(super) fn normal<'a>(&self, word: &'a str) -> Cow<'a, str> {
        let word = base(word);
        if word.len() <= LONGEST && word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            self.0.stem(word)
        } else {
            Cow::Borrowed(word)
        }
    }
}

/// The number that stands for a normal form everywhere: its term.
#[must_use]
pub fn hash(normal: &str) -> u64 {
    xxh3_64(normal.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_meet() {
        let normalizer = Normalizer::default();
        for (word, normal) in [
            ("went", "go"),
            ("children", "child"),
            ("paintings", "paint"),
            ("v1", "v1"),
            ("naïve", "naïve"),
        ] {
            assert_eq!(normalizer.normal(word), normal, "{word}");
        }
        let long = "ing".repeat(14);
        assert_eq!(normalizer.normal(&long), long);
    }
}
