//! The languages whose words are stemmed. They are written in Latin letters, so the text has to show which one it
//! is.

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
pub const LANGUAGES: [Language; 14] = [
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
    pub fn with_english(self) -> impl Iterator<Item = Language> {
        std::iter::once(Language::English).chain(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
}
