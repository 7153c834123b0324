//! The normal form of a word: the base of an irregular form, and then the stem.

use std::borrow::Cow;

use frostem::{Algorithm, Stemmer};
use xxhash_rust::xxh3::xxh3_64;

use super::ends::may_have_stem;
use super::irregular::base;
use super::language::Language;

/// The longest word that is stemmed, in letters.
const LONGEST: usize = 40;

/// The Snowball stemmers: one for the language in Latin letters (for English, only words of ASCII letters are
/// stemmed), and those of the languages that are recognized by their script. Other words are their own normal form.
pub struct Normalizer {
    language: Language,
    latin: Stemmer,
    russian: Stemmer,
    greek: Stemmer,
    arabic: Stemmer,
    hindi: Stemmer,
}

impl Default for Normalizer {
    fn default() -> Self {
        Self::of(Language::English)
    }
}

impl Normalizer {
    /// The normalizer for texts in a language.
    #[must_use]
    pub fn of(language: Language) -> Self {
        let latin = match language {
            Language::English | Language::Vietnamese => Algorithm::English,
            Language::Danish => Algorithm::Danish,
            Language::German => Algorithm::German,
            Language::Spanish => Algorithm::Spanish,
            Language::Finnish => Algorithm::Finnish,
            Language::French => Algorithm::French,
            Language::Hungarian => Algorithm::Hungarian,
            Language::Italian => Algorithm::Italian,
            Language::Dutch => Algorithm::Dutch,
            Language::Norwegian => Algorithm::Norwegian,
            Language::Portuguese => Algorithm::Portuguese,
            Language::Romanian => Algorithm::Romanian,
            Language::Swedish => Algorithm::Swedish,
            Language::Turkish => Algorithm::Turkish,
        };
        Self {
            language,
            latin: Stemmer::new(latin),
            russian: Stemmer::new(Algorithm::Russian),
            greek: Stemmer::new(Algorithm::Greek),
            arabic: Stemmer::new(Algorithm::Arabic),
            hindi: Stemmer::new(Algorithm::Hindi),
        }
    }
}

/// Whether a letter in lower case is Latin, with or without the accents that folding leaves.
fn is_latin(c: char) -> bool {
    matches!(c, 'a'..='z' | 'ß'..='ö' | 'ø'..='\u{24F}' | '\u{1E00}'..='\u{1EFF}')
}

/// Whether a word has only the letters `a` to `z`, and is short enough to be stemmed.
fn is_plain(word: &str) -> bool {
    word.len() <= LONGEST && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Whether a letter is Cyrillic. All Cyrillic words are stemmed as Russian.
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
        if self.language == Language::English {
            let word = base(word.as_bytes()).unwrap_or(word);
            if is_plain(word) {
                return self.stem_if_any(word);
            }
            return self.normal_by_script(word);
        }
        if is_plain(word) {
            return self.stem_if_any(word);
        }
        if word.chars().all(is_latin) && word.chars().count() <= LONGEST {
            return self.stem(word);
        }
        self.normal_by_script(word)
    }

    /// The stem of a plain word. Most are their own stem, and skip the stemmer.
    fn stem_if_any<'a>(&self, word: &'a str) -> Cow<'a, str> {
        if !may_have_stem(self.language, word.as_bytes()) {
            return Cow::Borrowed(word);
        }
        self.stem(word)
    }

    /// The stem of a word of Latin letters, by Snowball.
    pub(super) fn stem<'a>(&self, word: &'a str) -> Cow<'a, str> {
        self.latin.stem(word)
    }

    fn normal_by_script<'a>(&self, word: &'a str) -> Cow<'a, str> {
        match self.of_script(word) {
            Some(stemmer) if word.chars().count() <= LONGEST => stemmer.stem(word),
            _ => Cow::Borrowed(word),
        }
    }

    /// The stemmer for a word if all its letters are of one script that tells the language.
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

/// The term of a normal form: the 64-bit hash that represents it everywhere.
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
        for (language, word, normal) in [
            (Language::German, "häuser", "haus"),
            (Language::Turkish, "kapısından", "kapı"),
            (Language::Vietnamese, "защиты", "защит"),
            (Language::Romanian, "защиты", "защит"),
        ] {
            assert_eq!(Normalizer::of(language).normal(word), normal, "{word}");
        }
        let long = "ing".repeat(14);
        assert_eq!(normalizer.normal(&long), long);
    }
}
