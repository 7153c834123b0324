//! The language of a text in Latin letters.
//!
//! A text is of a language where that leads English by two function words, and has a word in six of the text.
//! So nothing but the text decides, and what is of none of these languages is read as English.

use super::function_words::votes;
use super::language::{LANGUAGES, Language};
use super::stop::is_english_stop_word;
use super::words::{Says, Scanner};

/// How many function words of a language a text has more than English ones, at least.
const LEAD: usize = 2;

/// A function word among so many words, at least.
const SHARE: usize = 6;

/// The language that a text is read in: English where it is of no other one.
#[must_use]
pub fn language_of(text: &str) -> Language {
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
    // Of equal ones the first.
    let found = LANGUAGES.into_iter().zip(counts).rev();
    let best = found.max_by_key(|&(_, count)| count);
    let certain = best.filter(|&(_, count)| is_certain(count, english, words));
    let language = certain.map_or(Language::English, |(language, _)| language);
    // Its words have one form.
    if language == Language::Vietnamese {
        Language::English
    } else {
        language
    }
}

/// Whether so many function words of a language, or of all of them, may be enough among so many words.
pub(super) fn is_certain(count: usize, english: usize, words: usize) -> bool {
    count >= english + LEAD && count * SHARE >= words
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
}
