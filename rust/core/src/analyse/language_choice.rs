//! The languages that the texts of a store are read in: detected for each text, or chosen by the user.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use rustc_hash::FxHashSet;

use super::normal::hash;
use super::stop_words::{is_english_stop_word, votes};
use super::words::{Says, Scanner};
use crate::error::Error;

/// The languages that a text in Latin letters may be read in, and the default for a text whose language is not
/// detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LanguageChoice {
    usual: Language,
    /// A bit for each language, with that of the default.
    among: u16,
}

/// The name of [`LanguageChoice::AUTO`].
const AUTO: &str = "auto";

impl LanguageChoice {
    /// All languages, with English as the default.
    pub const AUTO: Self = Self {
        usual: Language::English,
        among: every(),
    };

    /// Only these languages; the first one is the default. None where `languages` is empty.
    pub fn of(languages: impl IntoIterator<Item = Language>) -> Option<Self> {
        let mut languages = languages.into_iter();
        let usual = languages.next()?;
        let among = languages.fold(bit(usual), |among, each| among | bit(each));
        Some(Self { usual, among })
    }

    /// The default language.
    #[must_use]
    pub fn usual(self) -> Language {
        self.usual
    }

    /// The others, in the order of their codes, English first.
    pub fn others(self) -> impl Iterator<Item = Language> {
        let others = self.among & !bit(self.usual);
        std::iter::once(Language::English)
            .chain(LANGUAGES)
            .filter(move |&each| others & bit(each) != 0)
    }

    /// Whether there is only one language, so that none need be detected.
    #[must_use]
    pub(crate) fn is_settled(self) -> bool {
        self.among == bit(self.usual)
    }
}

impl Default for LanguageChoice {
    fn default() -> Self {
        Self::AUTO
    }
}

/// `auto`, or language codes with commas between them: the default first, then the others in the order of their
/// codes.
impl Display for LanguageChoice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if *self == Self::AUTO {
            return f.write_str(AUTO);
        }
        f.write_str(self.usual.code())?;
        self.others()
            .try_for_each(|each| write!(f, ",{}", each.code()))
    }
}

impl FromStr for LanguageChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == AUTO {
            return Ok(Self::AUTO);
        }
        let language = |code: &str| {
            let known = std::iter::once(Language::English).chain(LANGUAGES);
            let found = known.into_iter().find(|each| each.code() == code);
            found.ok_or_else(|| {
                let message = format!("language must be 'auto' or known codes, got {text:?}");
                Error::refused("language", text, message)
            })
        };
        let languages = text
            .split(',')
            .map(language)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::of(languages).unwrap_or_default())
    }
}

const fn bit(language: Language) -> u16 {
    1 << language.number()
}

const fn every() -> u16 {
    let (mut every, mut at) = (bit(Language::English), 0);
    while at < LANGUAGES.len() {
        every |= bit(LANGUAGES[at]);
        at += 1;
    }
    every
}

// The languages whose words are stemmed. They are written in Latin letters, so the text has to show which one it
// is.

/// A language in Latin letters. The languages of other scripts are recognized by the script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// `en`, and every text whose language is not detected
    #[default]
    English,
    /// `da`
    Danish,
    /// `de`
    German,
    /// `es`
    Spanish,
    /// `fi`
    Finnish,
    /// `fr`
    French,
    /// `hu`
    Hungarian,
    /// `it`
    Italian,
    /// `nl`
    Dutch,
    /// `no`, Bokmål
    Norwegian,
    /// `pt`
    Portuguese,
    /// `ro`
    Romanian,
    /// `sv`
    Swedish,
    /// `tr`
    Turkish,
    /// `vi`: it is detected, but read as English, since its words have only one form
    Vietnamese,
}

/// All but English, in the order of their codes.
pub(crate) const LANGUAGES: [Language; 14] = [
    Language::Danish,
    Language::German,
    Language::Spanish,
    Language::Finnish,
    Language::French,
    Language::Hungarian,
    Language::Italian,
    Language::Dutch,
    Language::Norwegian,
    Language::Portuguese,
    Language::Romanian,
    Language::Swedish,
    Language::Turkish,
    Language::Vietnamese,
];

impl Language {
    /// Its code by ISO 639-1.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Danish => "da",
            Self::German => "de",
            Self::Spanish => "es",
            Self::Finnish => "fi",
            Self::French => "fr",
            Self::Hungarian => "hu",
            Self::Italian => "it",
            Self::Dutch => "nl",
            Self::Norwegian => "no",
            Self::Portuguese => "pt",
            Self::Romanian => "ro",
            Self::Swedish => "sv",
            Self::Turkish => "tr",
            Self::Vietnamese => "vi",
        }
    }

    /// Its number: 0 for English.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// A set of languages without English.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Languages(u16);

impl Languages {
    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a language, unless it is English.
    pub fn add(&mut self, language: Language) {
        self.0 |= 1 << language.number() & !1;
    }

    /// The languages, in the order of their codes.
    pub fn iter(self) -> impl Iterator<Item = Language> {
        let has = move |each: &Language| self.0 >> each.number() & 1 == 1;
        LANGUAGES.into_iter().filter(has)
    }

    /// English, and then the languages of the set.
    pub(crate) fn with_english(self) -> impl Iterator<Item = Language> {
        std::iter::once(Language::English).chain(self.iter())
    }
}

// Detects the language of a text in Latin letters.
//
// A text is of a language if it has at least two more function words of that language than of English, also if each
// of them counts once, and if at least one in six of its words is such a function word: an identifier of a program that
// looks like such a word stands there many times. All other texts are read as English. A query is read in a language
// only if several entries are of it (`bm25::lexical`). If the user chose the languages, only these are detected, and the chosen default takes the place of
// English.

/// The least lead of a language over the default, in function words.
const LEAD: usize = 2;

/// At least one in so many words must be a function word.
const SHARE: usize = 6;

/// The language that a text is read in: English if no other one is detected.
#[must_use]
pub(crate) fn language_of(text: &str) -> Language {
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
    let (mut counts, mut english, mut words) = ([[0; 2]; LANGUAGES.len()], [0; 2], 0);
    let mut seen = FxHashSet::default();
    let mut scanner = Scanner::default();
    for piece in text.split_whitespace() {
        scanner.for_each_word(piece, &mut |word, says| {
            if says == Says::Inside {
                return;
            }
            words += 1;
            let (is_english, votes) = (is_english_stop_word(word), votes(word));
            if !is_english && votes == 0 {
                return;
            }
            // All of them, and the different ones.
            let add = [1, usize::from(seen.insert(hash(word)))];
            for (at, add) in add.into_iter().enumerate() {
                english[at] += add * usize::from(is_english);
                for (language, count) in counts.iter_mut().enumerate() {
                    count[at] += add * usize::from(votes >> language & 1);
                }
            }
        });
    }
    let count = |language: Language| {
        let place = LANGUAGES.iter().position(|&each| each == language);
        place.map_or(english, |place| counts[place])
    };
    let others: Vec<Language> = choice.others().collect();
    // The first of equal ones.
    let best = others.into_iter().rev().max_by_key(|&each| count(each)[0]);
    let [usual, different] = count(choice.usual());
    let certain = best.filter(|&each| {
        let [all, once] = count(each);
        is_certain(all, usual, words) && once >= different + LEAD
    });
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
    use std::collections::BTreeSet;

    #[test]
    fn a_choice_is_read_back_from_its_name() {
        for (text, name) in [
            ("auto", "auto"),
            ("de", "de"),
            ("de,de", "de"),
            ("de,fr,en", "de,en,fr"),
            ("en", "en"),
        ] {
            let choice: LanguageChoice = text.parse().unwrap();
            assert_eq!(choice.to_string(), name);
            assert_eq!(name.parse::<LanguageChoice>().unwrap(), choice);
        }
        let every = std::iter::once(Language::English).chain(LANGUAGES);
        assert_eq!(LanguageChoice::of(every), Some(LanguageChoice::AUTO));
        assert_eq!(LanguageChoice::of([]), None);
    }

    #[test]
    fn an_unknown_code_is_refused() {
        for text in ["", "DE", "german", "de,", "de, fr", "ru"] {
            let error = text.parse::<LanguageChoice>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument, "{text}");
        }
    }

    #[test]
    fn languages_have_their_numbers_and_are_in_the_order_of_their_codes() {
        assert!(LANGUAGES.is_sorted_by_key(|each| each.code()));
        let numbers: BTreeSet<u8> = LANGUAGES.iter().map(|each| each.number()).collect();
        assert!(numbers.into_iter().eq(1..=14));
        let mut some = Languages::default();
        some.add(Language::English);
        assert!(some.is_empty());
        some.add(Language::Turkish);
        some.add(Language::German);
        let codes: Vec<_> = some.with_english().map(Language::code).collect();
        assert_eq!(codes, ["en", "de", "tr"]);
    }

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
            ("os.path.join(os.sep, os.curdir, path)", "en"),
            (
                "deg = deg % 360\nif deg == 90 or deg == 270: return io, sin",
                "en",
            ),
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
