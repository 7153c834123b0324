//! Other spellings: words at an edit distance of one from an unknown word, and numbers that are written in groups.

use std::ops::{Range, RangeInclusive};

use super::language_choice::Language;
use super::normal::{Normalizer, hash};
use super::stop_words::is_stop_word;
use super::terms::for_each_word;
use super::words::short_hash;

/// The length of words that are corrected, in letters: a shorter word is near too many others, and a longer one is
/// hardly a word.
const LETTERS: RangeInclusive<usize> = 5..=24;

/// Calls `visit` with each word of a query that may have a typo, in order, and with its term. These are words of
/// letters only, without stop words, and long hexadecimal numbers.
pub(crate) fn for_each_correctable(text: &str, mut visit: impl FnMut(&str, u64)) {
    let normalizer = Normalizer::default();
    for_each_word(text, Language::English, |word| {
        let is_letters = word.chars().all(|c| alphabet(c).is_some());
        let is_word = is_letters && LETTERS.contains(&word.chars().count()) && !is_stop_word(word);
        if is_word || short_hash(word).is_some() {
            visit(word, hash(&normalizer.normal(word)));
        }
    });
}

/// The terms of content words at one edit from a word, with their normal forms: those that `is_asked`, by any of
/// `normalizers`. Some occur twice. Of a long hexadecimal number it is the short form.
///
/// An edit removes, adds or replaces one letter, or swaps two adjacent letters. The first letter is only changed by
/// a swap. There is none if the first letter is of a script that is not corrected.
pub(crate) fn corrections(
    word: &str,
    normalizers: &[Normalizer],
    is_asked: impl Fn(u64) -> bool,
) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    if let Some(short) = short_hash(word) {
        found.extend(Some((hash(short), short.to_owned())).filter(|&(term, _)| is_asked(term)));
        return found;
    }
    let Some(alphabet) = word.chars().next().and_then(alphabet) else {
        return found;
    };
    let mut offer = |edited: &str| {
        for normalizer in normalizers {
            let normal = normalizer.normal(edited);
            let term = hash(&normal);
            // Few are asked for, so this comes first.
            if is_asked(term) && !is_stop_word(edited) {
                found.push((term, normal.into_owned()));
            }
        }
    };
    // Nearly all words are plain. They are edited as bytes, without a string for each edit.
    if alphabet == LATIN && word.bytes().all(|letter| letter.is_ascii_lowercase()) {
        let alphabet: Vec<u8> = (b'a'..=b'z').collect();
        for_each_edit(word.as_bytes(), &alphabet, |edited| {
            str::from_utf8(edited).into_iter().for_each(&mut offer);
        });
        return found;
    }
    let (letters, alphabet): (Vec<char>, Vec<char>) = (word.chars().collect(), alphabet.collect());
    let mut text = String::new();
    for_each_edit(&letters, &alphabet, |edited| {
        text.clear();
        text.extend(edited);
        offer(&text);
    });
    found
}

/// Calls `visit` with the letters of all words at one edit from a word; some occur twice.
fn for_each_edit<L: Copy + PartialEq>(word: &[L], alphabet: &[L], mut visit: impl FnMut(&[L])) {
    let mut edited = word.to_vec();
    for at in 1..word.len() {
        if word[at - 1] != word[at] {
            edited.swap(at - 1, at);
            visit(&edited);
            edited.swap(at - 1, at);
        }
        for &letter in alphabet.iter().filter(|&&letter| letter != word[at]) {
            edited[at] = letter;
            visit(&edited);
        }
        edited[at] = word[at];
    }
    for at in 1..word.len() {
        let removed = edited.remove(at);
        visit(&edited);
        edited.insert(at, removed);
    }
    for at in 1..=word.len() {
        edited.insert(at, word[at - 1]);
        // Added behind the same letter, a letter makes the word that it makes before it.
        let is_new = |letter: &&L| at == 1 || **letter != word[at - 1];
        for &letter in alphabet.iter().filter(is_new) {
            edited[at] = letter;
            visit(&edited);
        }
        edited.remove(at);
    }
}

/// The letters of Latin words after folding.
const LATIN: RangeInclusive<char> = 'a'..='z';

/// The folded letters of the script of a letter; None for a script that is not corrected.
fn alphabet(c: char) -> Option<RangeInclusive<char>> {
    match c {
        'a'..='z' | 'ß' | 'ı' | 'ø' | 'æ' | 'œ' | 'đ' | 'ł' | 'þ' | 'ð' => Some(LATIN),
        'α'..='ω' => Some('α'..='ω'),
        'а'..='ѿ' => Some('а'..='я'),
        'ء'..='ي' => Some('ء'..='ي'),
        'ँ'..='्' => Some('ँ'..='्'),
        _ => None,
    }
}

// Numbers that are written in groups: `0171 555 0199`, `12 345`, `14:30`, `5 kg`, an IBAN, a MAC address. A query finds
// them in any other grouping.

/// The most characters of such a number: those of an IBAN.
const LONGEST: usize = 34;

/// What may stand between two groups, and around a code in brackets.
const BETWEEN: &[&str] = &[
    " ", "\u{A0}", "\u{202F}", "\u{2009}", "-", "/", ") ", " (", ")-", ":", ".",
];
const SPACES: &[&str] = BETWEEN.split_at(4).0;

/// Calls `visit` with each number of a text that is written in groups, as one word, and with the place of the white
/// space behind it.
pub(crate) fn for_each_grouped(text: &str, mut visit: impl FnMut(usize, &str)) {
    let bytes = text.as_bytes();
    let (mut groups, mut at) = (Vec::<Range<usize>>::new(), 0);
    loop {
        let start = bytes[at..].iter().position(u8::is_ascii_alphanumeric);
        let Some(start) = start.map(|start| at + start) else {
            break;
        };
        let rest = &bytes[start..];
        let is_other = |byte: &u8| !byte.is_ascii_alphanumeric();
        at = start + rest.iter().position(is_other).unwrap_or(rest.len());
        let group = &bytes[start..at];
        // A number or a part of one, or a unit.
        let may_be_one = group.len() <= 4 || group.iter().any(u8::is_ascii_digit);
        let is_next = |last: &Range<usize>| {
            may_be_one && start - last.end <= 3 && BETWEEN.contains(&&text[last.end..start])
        };
        if !groups.last().is_some_and(is_next) {
            Groups {
                text,
                groups: &groups,
            }
            .for_each(&mut visit);
            groups.clear();
        }
        if may_be_one {
            groups.push(start..at);
        }
    }
    Groups {
        text,
        groups: &groups,
    }
    .for_each(&mut visit);
}

/// Groups of letters and digits side by side.
struct Groups<'a> {
    text: &'a str,
    groups: &'a [Range<usize>],
}

impl Groups<'_> {
    fn for_each(&self, visit: &mut impl FnMut(usize, &str)) {
        // One group alone is no number in groups.
        for first in 0..self.groups.len().saturating_sub(1) {
            let (number, thousands) = (self.number(first), self.thousands(first));
            let thousands = if thousands == number { 0 } else { thousands };
            let lengths = [number, thousands, self.other(first)];
            for length in lengths.into_iter().filter(|&length| length > 1) {
                let groups = &self.groups[first..first + length];
                let word: String = groups
                    .iter()
                    .map(|group| &self.text[group.clone()])
                    .collect();
                if word.len() <= LONGEST {
                    let end = groups[length - 1].end;
                    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
                    let space = self.text.as_bytes()[end..].iter().position(is_space);
                    let end = space.map_or(self.text.len(), |space| end + space);
                    visit(end, &word.to_ascii_lowercase());
                }
            }
        }
    }

    fn group(&self, place: usize) -> &[u8] {
        &self.text.as_bytes()[self.groups[place].clone()]
    }

    /// How many groups from `first` on stand behind one of `between` and are `of` a kind, or, for the first, what it
    /// `begins` with; 0 where such a one stands before it.
    fn run(
        &self,
        first: usize,
        between: &[&str],
        begins: impl Fn(&[u8]) -> bool,
        of: impl Fn(&[u8]) -> bool,
    ) -> usize {
        let follows = |place: &usize| {
            let pair = place
                .checked_sub(1)
                .and_then(|last| self.groups.get(last..=*place));
            pair.is_some_and(|pair| between.contains(&&self.text[pair[0].end..pair[1].start]))
        };
        if !begins(self.group(first)) || follows(&first) && begins(self.group(first - 1)) {
            return 0;
        }
        let goes_on = |place: &usize| follows(place) && of(self.group(*place));
        // More groups are no number: none is so long.
        let others = (first + 1..self.groups.len()).take(LONGEST);
        1 + others.take_while(goes_on).count()
    }

    /// A number of seven digits or more. One with hyphens alone is a word already.
    fn number(&self, first: usize) -> usize {
        let length = self.run(first, &BETWEEN[..9], is_digits, is_digits);
        let groups = &self.groups[first..first + length];
        let digits: usize = groups.iter().map(Range::len).sum();
        let is_compound = groups.is_sorted_by(|one, next| &self.text[one.end..next.start] == "-");
        if digits < 7 || is_compound { 0 } else { length }
    }

    /// A number in groups of three digits.
    fn thousands(&self, first: usize) -> usize {
        let begins = |group: &[u8]| group.len() < 4 && is_digits(group);
        self.run(first, SPACES, begins, |group| {
            group.len() == 3 && is_digits(group)
        })
    }

    /// A time, an address of hardware, an account, or a number with its unit.
    fn other(&self, first: usize) -> usize {
        let same = |sign: &str, of: &dyn Fn(&[u8]) -> bool| self.run(first, &[sign], of, of);
        let is_hex = |group: &[u8]| group.iter().all(u8::is_ascii_hexdigit);
        let time = same(":", &|group| group.len() < 3 && is_digits(group));
        let pairs = same(":", &|group| group.len() == 2 && is_hex(group));
        let fours = same(".", &|group| group.len() == 4 && is_hex(group));
        let is_upper = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        let begins = |group: &[u8]| {
            let [a, b, rest @ ..] = group else {
                return false;
            };
            a.is_ascii_uppercase() && b.is_ascii_uppercase() && rest.len() == 2 && is_digits(rest)
        };
        let of_account = |group: &[u8]| group.len() <= 4 && group.iter().all(is_upper);
        let account = self.run(first, SPACES, begins, of_account);
        let is_unit = |group: &[u8]| group.len() < 4 && group.iter().all(u8::is_ascii_alphabetic);
        match (time, pairs, fours, account) {
            (2 | 3, ..) => time,
            (_, 6, ..) => pairs,
            (_, _, 3, _) => fours,
            (.., 3..) => account,
            _ => self.run(first, SPACES, is_digits, is_unit).min(2),
        }
    }
}

fn is_digits(group: &[u8]) -> bool {
    !group.is_empty() && group.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn corrected(word: &str) -> Vec<String> {
        let found = corrections(word, &[Normalizer::default()], |_| true);
        found.into_iter().map(|(_, normal)| normal).collect()
    }

    /// Whether a word is at one edit from another, by the definition.
    fn is_near(word: &[char], edited: &[char], alphabet: &[char]) -> bool {
        let (short, long) = if word.len() < edited.len() {
            (word, edited)
        } else {
            (edited, word)
        };
        let same = word
            .iter()
            .zip(edited)
            .take_while(|(one, other)| one == other);
        let same = same.count();
        match long.len() - short.len() {
            0 => {
                let differ = (0..word.len()).filter(|&at| word[at] != edited[at]);
                match differ.collect::<Vec<_>>()[..] {
                    [at] => at > 0 && alphabet.contains(&edited[at]),
                    [at, next] => {
                        next == at + 1 && word[at] == edited[next] && word[next] == edited[at]
                    }
                    _ => false,
                }
            }
            1 => (1..long.len()).any(|at| {
                let rest = long[..at].iter().chain(&long[at + 1..]);
                rest.eq(short) && at <= same && (long == word || alphabet.contains(&long[at]))
            }),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn the_edits_are_all_words_at_one_edit(
            word in prop_oneof!["[abc]{2,6}", "[ßab]{2,5}"],
            others in prop::collection::vec("[abcßd]{1,7}", 100),
        ) {
            let letters = |word: &str| word.chars().collect::<Vec<char>>();
            let (word, alphabet) = (letters(&word), letters("abcd"));
            let mut edits = BTreeSet::new();
            for_each_edit(&word, &alphabet, |edited| { edits.insert(edited.to_vec()); });
            for edited in &edits {
                prop_assert!(is_near(&word, edited, &alphabet), "{word:?} {edited:?}");
            }
            for other in others.iter().map(|other| letters(other)) {
                prop_assert_eq!(is_near(&word, &other, &alphabet), edits.contains(&other), "{:?}", other);
            }
        }
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
            assert!(corrected(typo).iter().any(|found| found == meant), "{typo}");
        }
        for (other, far) in [
            ("fountain", "mountain"),
            ("ountain", "mountain"),
            ("moutian", "mountain"),
        ] {
            assert!(
                !corrected(other).iter().any(|found| found == far),
                "{other}"
            );
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
