//! One form for all forms of a word: the base of an irregular one, and then its stem.

use std::borrow::Cow;

use frostem::{Algorithm, Stemmer};
use xxhash_rust::xxh3::xxh3_64;

use super::irregular::base;

/// Letters of the longest word that is stemmed: longer ones are no words.
const LONGEST: usize = 40;

/// Snowball's stemmers: the English one for words of ASCII letters, and those of languages that a script tells.
/// Other words are their own normal form.
pub struct Normalizer {
    english: Stemmer,
    russian: Stemmer,
    greek: Stemmer,
    arabic: Stemmer,
    hindi: Stemmer,
}

impl Default for Normalizer {
    fn default() -> Self {
        Self {
            english: Stemmer::new(Algorithm::English),
            russian: Stemmer::new(Algorithm::Russian),
            greek: Stemmer::new(Algorithm::Greek),
            arabic: Stemmer::new(Algorithm::Arabic),
            hindi: Stemmer::new(Algorithm::Hindi),
        }
    }
}

/// Whether a letter is Cyrillic, Greek, Arabic, or of Devanagari. All of Cyrillic is stemmed as Russian.
fn is_cyrillic(c: char) -> bool {
    matches!(c, '\u{400}'..='\u{4FF}')
}

fn is_greek(c: char) -> bool {
    matches!(c, '\u{370}'..='\u{3FF}')
}

fn is_arabic(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{65F}' | '\u{66E}'..='\u{6D3}' | '\u{6D5}'..='\u{6EF}' | '\u{6FA}'..='\u{6FF}')
}

fn is_devanagari(c: char) -> bool {
    matches!(c, '\u{900}'..='\u{963}' | '\u{971}'..='\u{97F}')
}

impl Normalizer {
    /// The normal form of a word in lower case.
    #[must_use]
    pub fn normal<'a>(&self, word: &'a str) -> Cow<'a, str> {
        let word = base(word);
        if word.len() <= LONGEST && word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return self.english.stem(word);
        }
        match self.of_script(word) {
            Some(stemmer) if word.chars().count() <= LONGEST => stemmer.stem(word),
            _ => Cow::Borrowed(word),
        }
    }

    /// The stemmer for a word, all of whose letters are of one script that tells the language.
    fn of_script(&self, word: &str) -> Option<&Stemmer> {
        let (of_script, stemmer): (fn(char) -> bool, _) = match word.chars().next()? {
            c if is_cyrillic(c) => (is_cyrillic, &self.russian),
            c if is_greek(c) => (is_greek, &self.greek),
            c if is_arabic(c) => (is_arabic, &self.arabic),
            c if is_devanagari(c) => (is_devanagari, &self.hindi),
            _ => return None,
        };
        word.chars().all(of_script).then_some(stemmer)
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
            ("защиты", "защит"),
            ("ομαδεσ", "ομαδ"),
            ("الدوري", "دور"),
            ("खिलाड़ियों", "खिलाड़"),
            ("ту134", "ту134"),
        ] {
            assert_eq!(normalizer.normal(word), normal, "{word}");
        }
        let long = "ing".repeat(14);
        assert_eq!(normalizer.normal(&long), long);
    }
}
