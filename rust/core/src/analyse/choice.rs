//! The languages that the texts of a store are read in: detected for each text, or chosen by the user.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::language::{LANGUAGES, Language};
use crate::error::{Error, ErrorKind};

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
    pub fn is_settled(self) -> bool {
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
                Error::new(ErrorKind::InvalidArgument, message)
                    .with("field", "language")
                    .with("value", text)
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        }
    }
}
