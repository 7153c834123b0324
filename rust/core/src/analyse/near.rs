//! Words that are one typo away from a word that is not known: what somebody may have meant.

use super::language::Language;
use super::normal::{Normalizer, hash};
use super::stop::is_stop_word;
use super::terms::for_each_word;

/// Letters of a word that may be a typo: what is shorter is near too many others, what is longer is no word.
const LETTERS: std::ops::RangeInclusive<usize> = 5..=24;

/// Calls `visit` with each word of a query that may have a typo, in order, and with its term: words of letters
/// alone that say something.
pub fn for_each_correctable(text: &str, mut visit: impl FnMut(&str, u64)) {
    let normalizer = Normalizer::default();
    for_each_word(text, Language::English, |word| {
        let is_letters = word.chars().all(|c| alphabet(c).is_some());
        if is_letters && LETTERS.contains(&word.chars().count()) && !is_stop_word(word) {
            visit(word, hash(&normalizer.normal(word)));
        }
    });
}

/// All words at one edit from `word` that say something, some of them twice.
///
/// An edit leaves a letter out, adds or changes one, or swaps two that follow each other. The first letter stays,
/// unless it is swapped.
#[must_use]
pub fn edits(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    let Some(alphabet) = letters.first().and_then(|&first| alphabet(first)) else {
        return Vec::new();
    };
    let mut edits = Vec::new();
    let mut offer = |before: &[char], added: &[char], after: &[char]| {
        let edited: String = before.iter().chain(added).chain(after).collect();
        if edited != word && !is_stop_word(&edited) {
            edits.push(edited);
        }
    };
    for at in 0..letters.len() {
        let (before, after) = letters.split_at(at);
        if let [one, next, rest @ ..] = after {
            offer(before, &[*next, *one], rest);
        }
        if at > 0 {
            offer(before, &[], &after[1..]);
            for added in alphabet.clone() {
                offer(before, &[added], after);
                offer(before, &[added], &after[1..]);
            }
        }
    }
    for added in alphabet {
        offer(&letters, &[added], &[]);
    }
    edits
}

/// The letters of the script of a letter, as they are after folding; None for a script that words are not
/// corrected in.
fn alphabet(c: char) -> Option<std::ops::RangeInclusive<char>> {
    match c {
        'a'..='z' | 'ß' | 'ı' | 'ø' | 'æ' | 'œ' | 'đ' | 'ł' | 'þ' | 'ð' => Some('a'..='z'),
        'α'..='ω' => Some('α'..='ω'),
        'а'..='ѿ' => Some('а'..='я'),
        'ء'..='ي' => Some('ء'..='ي'),
        'ँ'..='्' => Some('ँ'..='्'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(word: &str) -> Vec<String> {
        let normalizer = Normalizer::default();
        let normal = |word: &String| normalizer.normal(word).into_owned();
        edits(word).iter().map(normal).collect()
    }

    #[test]
    fn one_edit_leads_to_what_was_meant() {
        for (typo, meant) in [
            ("mountian", "mountain"),
            ("omuntain", "mountain"),
            ("moutain", "mountain"),
            ("mounntain", "mountain"),
            ("mountaim", "mountain"),
            ("mountai", "mountain"),
            ("paintng", "paint"),
            ("защта", "защит"),
        ] {
            assert!(near(typo).iter().any(|found| found == meant), "{typo}");
        }
        for (other, far) in [
            ("fountain", "mountain"),
            ("ountain", "mountain"),
            ("moutian", "mountain"),
        ] {
            assert!(!near(other).iter().any(|found| found == far), "{other}");
        }
    }

    #[test]
    fn short_words_numbers_and_stop_words_are_as_they_are() {
        let mut found = Vec::new();
        for_each_correctable(
            "Which silt settles in v1.2.3 at ปลาปลา mud42 rivers?",
            |word, _| {
                found.push(word.to_owned());
            },
        );
        assert_eq!(found, ["settles", "rivers"]);
    }
}
