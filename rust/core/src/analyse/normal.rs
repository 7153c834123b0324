//! The normal form of a word: folded, the base of an irregular form, and then the stem.

use std::borrow::Cow;

use frostem::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use xxhash_rust::xxh3::xxh3_64;

use super::english::base;
use super::language_choice::Language;

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
        if !word.is_ascii() && word.contains(|c| self.plainly(c).is_some()) {
            let mut plain = String::with_capacity(word.len());
            for c in word.chars() {
                match self.plainly(c) {
                    Some(letters) => plain.push_str(letters),
                    None => plain.push(c),
                }
            }
            return Cow::Owned(self.normal_of_folded(&plain).into_owned());
        }
        self.normal_of_folded(word)
    }

    /// The letters that people write in place of a letter that is no letter with an accent.
    fn plainly(&self, c: char) -> Option<&'static str> {
        Some(match c {
            'ß' => "ss",
            'æ' => "ae",
            'œ' => "oe",
            'þ' => "th",
            'ł' => "l",
            'ø' => "o",
            'đ' | 'ð' => "d",
            'ħ' => "h",
            'ŧ' => "t",
            // In Turkish it is a letter of its own.
            'ı' if self.language != Language::Turkish => "i",
            _ => return None,
        })
    }

    fn normal_of_folded<'a>(&self, word: &'a str) -> Cow<'a, str> {
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
    fn stem<'a>(&self, word: &'a str) -> Cow<'a, str> {
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

// The endings that a stemmer looks for. A word with none of them is its own stem, and need not be stemmed.
//
// The endings are taken from the tables that the stemmers search from the end of a word, cut to their last three
// letters, and a few single letters. A word with such an ending may still be its own stem.

/// Letters of the alphabet.
const LETTERS: usize = 26;

/// A bit for each combination of three letters: whether a word with that ending may have another stem.
struct Ends([u64; (LETTERS * LETTERS * LETTERS).div_ceil(64)]);

impl Ends {
    /// The endings in a list with spaces between them; each has one to three letters.
    const fn of(list: &str) -> Self {
        let list = list.as_bytes();
        let mut bits = [0; (LETTERS * LETTERS * LETTERS).div_ceil(64)];
        let mut start = 0;
        while start < list.len() {
            let mut end = start;
            // `number` is the number of the last letters, `step` the factor of the letter before them.
            let (mut number, mut step) = (0, 1);
            while end < list.len() && list[end] != b' ' {
                end += 1;
            }
            let mut at = end;
            while at > start {
                at -= 1;
                number += (list[at] - b'a') as usize * step;
                step *= LETTERS;
            }
            while number < LETTERS * LETTERS * LETTERS {
                bits[number / 64] |= 1 << (number % 64);
                number += step;
            }
            start = end + 1;
        }
        Self(bits)
    }

    /// Whether `word` ends with one of them.
    fn has_one_of(&self, word: &[u8]) -> bool {
        let Some(last) = word.last_chunk::<3>() else {
            return true;
        };
        let digit = |letter: u8| usize::from(letter.wrapping_sub(b'a'));
        let [first, second, third] = last.map(digit);
        let number = (first * LETTERS + second) * LETTERS + third;
        self.0
            .get(number / 64)
            .is_none_or(|bits| bits >> (number % 64) & 1 == 1)
    }
}

/// Whether a word of the letters `a` to `z` may have a stem that differs from it; false means that the word is its
/// own stem.
#[inline]
fn may_have_stem(language: Language, word: &[u8]) -> bool {
    let has_inside = |parts: &[[u8; 2]]| {
        let mut pairs = word.windows(2);
        pairs.any(|pair| parts.iter().any(|part| part == pair))
    };
    let ends = match language {
        Language::English | Language::Vietnamese => &ENGLISH,
        Language::Danish => &DANISH,
        Language::German => &GERMAN,
        Language::Spanish => &SPANISH,
        Language::Finnish => &FINNISH,
        Language::French => &FRENCH,
        Language::Hungarian => &HUNGARIAN,
        Language::Italian => &ITALIAN,
        Language::Dutch => &DUTCH,
        Language::Norwegian => &NORWEGIAN,
        Language::Portuguese => &PORTUGUESE,
        Language::Romanian => &ROMANIAN,
        Language::Swedish => &SWEDISH,
        Language::Turkish => &TURKISH,
    };
    ends.has_one_of(word)
        || match language {
            // These may be umlauts written without dots.
            Language::German => has_inside(&[*b"ae", *b"oe", *b"ue"]),
            // It may be the `ge` of a participle.
            Language::Dutch => has_inside(&[*b"ge"]),
            _ => false,
        }
}

static ENGLISH: Ends = Ends::of(
    "ant at bb dd e ed ent er exc ff gg ic ing ion ism ist iti iz l li mm nci nn ogi out \
     pp roc rr s tor tt ucc ven y",
);

static DANISH: Ends = Ends::of(
    "bb cc dd dt e en er et ff gd gg gt hed hh ig jj kk kt ll mm nn pp qq red rr s st tt \
     vv xx zz",
);

static GERMAN: Ends =
    Ends::of("e eit em en end er ern et ich ick ig ik lan ln rdn rin s sch st tr ung");

static SPANISH: Ends =
    Ends::of("a ad ais an ar as bil dor e ed eis en er es ic id ion ir iv o os ron");

static FINNISH: Ends = Ends::of(
    "a at bb cc dd e et ff gg hh i it jj kk ll mm n o oj ot pp qq rr ss tt u uj ut vv ww \
     xx y yt zz",
);

static FRENCH: Ends = Ends::of(
    "a abl al ant auv aux bil e ell enn ent er ett eur eux ez i ic if ill ion iqu ir it \
     iv onn ont oux s",
);

static HUNGARIAN: Ends = Ends::of(
    "a al bb cc ccs d e el ff gg ggy hez hoz i ig jj k kor ll lly m n nny o pp rr ss ssz \
     t tty ul vv zz zzs",
);

static ITALIAN: Ends = Ends::of("a ar bil ch e er gh i ic ir iv o os");

static DUTCH: Ends = Ends::of(
    "aar bb cc d der e eel en ff ger gg hh ief ig ing jj ker kk ll mm nn pp qq rij rr s \
     sel t ter vv ww xx zz",
);

static NORWEGIAN: Ends =
    Ends::of("a amm ar ast dt e en er ert et ig ind kap kk leg lt nk omm pp s v vt");

static PORTUGUESE: Ends =
    Ends::of("a ad am ar as bil dor e em er es eu i ic ir is iu iv o os ou vel");

static ROMANIAN: Ends =
    Ends::of("a am ant at au bil cal e em esc ez i ic im ind ism ist it iv lor ndu os tor ul ut");

static SWEDISH: Ends = Ends::of(
    "a ad ar ast at cit dd dit dt e en er ern et fab gd gt ig kom kt lit llt mit nit nn \
     or pak pit rak rit s sit tak tit tt uit vit xit",
);

static TURKISH: Ends =
    Ends::of("a b c d dik dir duk dur e g i iz lar ler m n sak sek tik tir tuk tur u uz");

// Folding: removes accents, and gives characters that look alike one form.
//
// `й` is kept, since it is a letter of its own and not an accented `и`: endings of Russian words are recognized by
// it.

/// Fills `folded` with `text` in compatible composition (NFKC), without combining diacritical marks (U+0300 to
/// U+036F).
///
/// So `café` becomes `cafe`, a full-width `Ａ` becomes `A`, and `ﬁ` becomes `fi`. Marks of other blocks stay: the
/// vowels of Indic scripts and the voicing of kana are not accents.
pub(super) fn fold_into(folded: &mut Vec<char>, text: &str) {
    folded.clear();
    for c in text.chars() {
        match quickly(c) {
            Some(c) => folded.push(c),
            None => return by_the_rule(folded, text),
        }
    }
}

/// The first digits of scripts with digits of their own; the others follow in order.
const ZEROS: [u32; 36] = [
    0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6,
    0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50,
    0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0x104A0,
];

/// A code point as a spelling that people use for it: a digit of any script becomes one of ASCII, Persian letters those
/// of Arabic. None for a sign without width, and for the points of Hebrew.
fn spelled(c: char) -> Option<char> {
    match c {
        '\u{AD}'
        | '\u{200B}'..='\u{200F}'
        | '\u{2060}'
        | '\u{FEFF}'
        | '\u{591}'..='\u{5BD}'
        | '\u{5BF}'
        | '\u{5C1}'
        | '\u{5C2}'
        | '\u{5C4}'
        | '\u{5C5}'
        | '\u{5C7}' => None,
        'ک' => Some('ك'),
        'ی' => Some('ي'),
        '\0'..='\u{65F}' => Some(c),
        _ => {
            let zero = ZEROS.partition_point(|&zero| zero <= u32::from(c));
            let digit = u32::from(c) - ZEROS[zero.saturating_sub(1)].min(u32::from(c));
            Some(
                char::from_digit(digit, 10)
                    .filter(|_| zero > 0)
                    .unwrap_or(c),
            )
        }
    }
}

const BREVE: char = '\u{306}';

fn by_the_rule(folded: &mut Vec<char>, text: &str) {
    let mut before = ' ';
    let bare = text.nfkd().filter(|&c| {
        let is_of_letter = c == BREVE && matches!(before, 'и' | 'И');
        before = c;
        is_of_letter || !('\u{300}'..='\u{36F}').contains(&c)
    });
    let bare = bare.filter_map(spelled);
    folded.clear();
    folded.extend(bare.nfc());
}

/// The folded form of a code point that does not depend on its neighbours of these kinds: ASCII, its full-width
/// forms, Han, kana, Hangul, and the quotation marks, dashes and stops of prose. None for all others.
fn quickly(c: char) -> Option<char> {
    match c {
        '\0'..='\x7F'
        | '一'..='\u{9FFF}'
        | 'ぁ'..='ゖ'
        | 'ァ'..='ヺ'
        | '가'..='힣'
        | '‒'..='―'
        | '‘'..='‟'
        | '、'
        | '。' => Some(c),
        '！'..='～' => char::from_u32(u32::from(c) - u32::from('！') + u32::from('!')),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::{LANGUAGES, Normalizer};
    use proptest::prelude::*;

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

    /// Letters in an order that depends on `seed` alone.
    fn letters(seed: &mut u64, count: usize) -> String {
        let letter = |_| {
            *seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let number = *seed >> 33;
            let all = if number.is_multiple_of(3) {
                "aeiouy"
            } else {
                "abcdefghijklmnopqrstuvwxyz"
            };
            char::from(all.as_bytes()[usize::try_from(number / 3).unwrap() % all.len()])
        };
        (0..count).map(letter).collect()
    }

    /// With each end of three letters so many words of each language.
    fn check(words: usize) {
        let alphabet = || 'a'..='z';
        let mut seed = 1;
        for language in LANGUAGES.into_iter().chain([Language::English]) {
            let normalizer = Normalizer::of(language);
            let (mut told, mut same) = (0, 0);
            for (first, second, third) in alphabet().flat_map(|first| {
                alphabet()
                    .flat_map(move |second| alphabet().map(move |third| (first, second, third)))
            }) {
                for round in 0..words {
                    let mut word =
                        letters(&mut seed, (round + usize::from(first as u8 - b'a')) % 10);
                    word.extend([first, second, third]);
                    let stem = normalizer.stem(&word);
                    same += usize::from(stem == word);
                    if !may_have_stem(language, word.as_bytes()) {
                        told += 1;
                        assert_eq!(stem, word, "{}", language.code());
                    }
                }
            }
            assert!(told * 3 > same * 2, "{}: {told} of {same}", language.code());
        }
    }

    #[test]
    fn a_word_without_an_end_that_its_stemmer_looks_for_is_its_own_stem() {
        check(1);
    }

    #[test]
    #[ignore = "a minute: for who changes the lists or the stemmers"]
    fn the_same_of_millions_of_words() {
        check(300);
    }

    #[test]
    fn ends_are_read_from_behind() {
        let ends = Ends::of("e ng tio");
        for (word, has) in [
            ("silence", true),
            ("being", true),
            ("ratio", true),
            ("delta", false),
            ("gn", true),
            ("tin", false),
        ] {
            assert_eq!(ends.has_one_of(word.as_bytes()), has, "{word}");
        }
    }

    fn fold(text: &str) -> String {
        let mut folded = vec!['x'];
        fold_into(&mut folded, text);
        folded.into_iter().collect()
    }

    fn slowly(text: &str) -> String {
        let mut folded = Vec::new();
        by_the_rule(&mut folded, text);
        folded.into_iter().collect()
    }

    #[test]
    fn what_folds_quickly_folds_by_the_rule() {
        let quick = |c: &char| quickly(*c).is_some();
        for c in ('\0'..=char::MAX).filter(quick) {
            let text = c.to_string();
            assert_eq!(fold(&text), slowly(&text), "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn what_folds_quickly_does_so_beside_others(
            text in "[aé\u{300}'一-\u{9FFF}ぁ-ゖァ-ヺ가-힣‒-―‘-‟、。！-～\u{3099}\u{11A8}]{0,12}",
        ) {
            prop_assert_eq!(fold(&text), slowly(&text));
        }
    }

    #[test]
    fn accents_go_and_voicing_stays() {
        assert_eq!(fold("Café naïve Ａﬁ² ёй"), "Cafe naive Afi2 ей");
        assert_eq!(fold("co\u{AD}op ٣٤٥ १२ ๔ שָׁלוֹם کی"), "coop 345 12 4 שלום كي");
        assert_eq!(fold("か\u{3099} ｶﾞ 각 हिन्दी"), "が ガ 각 हिन्दी");
    }
}
