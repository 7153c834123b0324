//! The endings that a stemmer looks for. A word with none of them is its own stem, and need not be stemmed.
//!
//! The endings are taken from the tables that the stemmers search from the end of a word, cut to their last three
//! letters, and a few single letters. A word with such an ending may still be its own stem.

use super::language::Language;

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
pub(super) fn may_have_stem(language: Language, word: &[u8]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::{LANGUAGES, Normalizer};

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
}
