//! Detects the language of a text in Latin letters.
//!
//! A text is of a language if it has at least two more function words of that language than of English, and if at
//! least one in six of its words is such a function word. Only the text decides; all other texts are read as
//! English. If the user chose the languages, only these are detected, and the chosen default takes the place of
//! English.

use super::choice::LanguageChoice;
use super::function_words::votes;
use super::language::{LANGUAGES, Language};
use super::stop::is_english_stop_word;
use super::words::{Says, Scanner};

/// The least lead of a language over the default, in function words.
const LEAD: usize = 2;

/// At least one in so many words must be a function word.
const SHARE: usize = 6;

/// The language that a text is read in: English if no other one is detected.
#[must_use]
pub fn language_of(text: &str) -> Language {
    language_in(text, LanguageChoice::AUTO)
}

/// The same among the languages of `choice`: its default if no other one is detected.
#[must_use]
pub fn language_in(text: &str, choice: LanguageChoice) -> Language {
    let language = if choice.is_settled() {
        choice.usual()
    } else {
        told(text, choice)
    };
    // Vietnamese words have only one form, so they are read as English.
    if language == Language::Vietnamese {
        Language::English
    } else {
        language
    }
}

/// The detected language, which may be Vietnamese.
fn told(text: &str, choice: LanguageChoice) -> Language {
    let (mut counts, mut english, mut words) = ([0; LANGUAGES.len()], 0, 0);
    let mut scanner = Scanner::default();
    for piece in text.split_whitespace() {
        scanner.for_each_word(piece, &mut |word, says| {
            if says == Says::Inside {
                return;
            }
            words += 1;
            english += usize::from(is_english_stop_word(word));
            let votes = votes(word);
            for (language, count) in counts.iter_mut().enumerate() {
                *count += usize::from(votes >> language & 1);
            }
        });
    }
    let count = |language: Language| {
        let place = LANGUAGES.iter().position(|&each| each == language);
        place.map_or(english, |place| counts[place])
    };
    let others: Vec<Language> = choice.others().collect();
    // The first of equal ones.
    let best = others.into_iter().rev().max_by_key(|&each| count(each));
    let usual = count(choice.usual());
    let certain = best.filter(|&each| is_certain(count(each), usual, words));
    certain.unwrap_or(choice.usual())
}

/// Whether `count` function words of a language (or of all other languages) are enough to detect it, in a text of
/// `words` words with `usual` function words of the default language.
pub(super) fn is_certain(count: usize, usual: usize, words: usize) -> bool {
    count >= usual + LEAD && count * SHARE >= words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_tells_its_language_by_its_function_words() {
        for (text, language) in [
            ("Where does the silt settle, and why is it there?", "en"),
            (
                "Der Schlamm setzt sich dort ab, wo das Wasser ruhig ist.",
                "de",
            ),
            ("Dove si deposita il limo del fiume?", "it"),
            ("Irmağın çamuru nerede ve nasıl çöküyor?", "tr"),
            ("Où se dépose le limon de la rivière?", "fr"),
            ("de la", "es"),
            ("GET /de/index.html 200 ms, usr/local/lib/python3", "en"),
            ("", "en"),
            ("Bùn lắng ở đâu và vì sao nó ở đó?", "en"),
        ] {
            assert_eq!(language_of(text).code(), language, "{text}");
        }
    }

    #[test]
    fn languages_that_nobody_chose_are_not_looked_for() {
        let german = "Der Schlamm setzt sich dort ab, wo das Wasser ruhig ist.";
        let french = "Où se dépose le limon de la rivière?";
        for (choice, text, language) in [
            ("de", french, "de"),
            ("de", "silt", "de"),
            ("en", german, "en"),
            ("vi", german, "en"), // read as English is
            ("en,fr", german, "en"),
            ("en,fr", french, "fr"),
            ("de,fr", "silt", "de"),
            ("de,fr", french, "fr"),
            (
                "de,en",
                "Where does the silt settle, and why is it there?",
                "en",
            ),
            ("de,en", "silt", "de"),
            ("de,vi", "Bùn lắng ở đâu và vì sao nó ở đó?", "en"),
        ] {
            let choice = choice.parse().unwrap();
            assert_eq!(
                language_in(text, choice).code(),
                language,
                "{choice} {text}"
            );
        }
    }
}
