//! The fields of an entry that are searched with its text: the speaker and the date.

use std::ops::Range;

use super::analyser::with_kept;
use super::language_choice::{Language, LanguageChoice};
use super::normal::hash;
use super::question_words::{is_greeting, only_asks};
use super::terms::{Inside, terms};

/// Roles that are not names of people. Every other role is searched as a name.
const ROLES: [&str; 11] = [
    "agent",
    "ai",
    "assistant",
    "bot",
    "developer",
    "function",
    "human",
    "model",
    "system",
    "tool",
    "user",
];

/// The roles that people speak in.
const PEOPLE: [&str; 2] = ["human", "user"];

/// The beginnings of the kinds of entries that are tool calls or tool results.
const TOOLS: [&str; 2] = ["function", "tool"];

/// The terms of an entry, by field. All fields have the same weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The terms of the text, in order.
    pub text: Vec<u64>,
    /// Characters inside of words of Han, kana or Hangul: each with the number of terms before it.
    pub inside: Vec<Inside>,
    /// The name of the speaker or of the tool, or a role that is a name.
    pub name: Vec<u64>,
    /// Month, year and day, in UTC.
    pub(crate) date: Vec<u64>,
}

impl Fields {
    /// The fields of a text, said by `name` in that `role` at a moment in milliseconds since 1970; the text is read
    /// in a language of `choice`.
    #[must_use]
    pub fn of(
        text: &str,
        role: &str,
        name: Option<&str>,
        created_at: i64,
        choice: LanguageChoice,
    ) -> Self {
        let date = words(created_at);
        let (mut own, mut inside) = (Vec::new(), Vec::new());
        with_kept(|analyser| analyser.read_own(text, choice, &mut own, &mut inside));
        Self {
            text: own,
            inside,
            name: name_of(role, name).map(terms).unwrap_or_default(),
            date: date.iter().flat_map(|word| terms(word)).collect(),
        }
    }

    /// The passages of the text, as ranges of its terms. There is at least one.
    pub fn passages(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        passages(self.text.len())
    }

    /// The terms of the text in a passage, and its characters inside of words.
    #[must_use]
    pub fn text_of(&self, passage: Range<usize>) -> Vec<u64> {
        let terms = self.text.len();
        let inside = self.inside.iter();
        let inside = inside.filter(|(at, _)| has_character(&passage, *at, terms));
        let words = self.text[passage.clone()].iter().copied();
        words.chain(inside.map(|&(_, term)| term)).collect()
    }
}

/// The speaker of an entry: the terms of the name, or of a role that is a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// In ascending order, each once; none of a user without a name.
    pub terms: Vec<u64>,
    /// Whether it is the name of a person, and not of a tool.
    pub(crate) is_person: bool,
}

impl Speaker {
    /// The speaker of an entry in that `role`, of that `name` and `kind`; None where it has no name and is not said
    /// by a user.
    ///
    /// A person speaks in a user role, or in a role that is the person's name. Calls of an assistant, and the
    /// answers to them, come from tools.
    #[must_use]
    pub fn of(role: &str, name: Option<&str>, kind: &str) -> Option<Self> {
        let mut terms = name_of(role, name).map(terms).unwrap_or_default();
        terms.sort_unstable();
        terms.dedup();
        let is_user = PEOPLE.iter().any(|known| known.eq_ignore_ascii_case(role));
        let is_tool = |word: &str| {
            let start = kind.as_bytes().get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        };
        let is_person = (is_user || !is_generic(role)) && !TOOLS.iter().any(|word| is_tool(word));
        let is_anybody = !terms.is_empty() || (is_user && is_person);
        is_anybody.then_some(Self { terms, is_person })
    }
}

/// Calls `visit` for each passage of an entry: with its terms in ascending order, the number of terms that are
/// words, and the language of the text, which is one of `choice`. The terms are those of the text, the name and the date; this
/// is the faster way for callers that only count them.
pub(crate) fn for_each_passage(
    text: &str,
    role: &str,
    name: Option<&str>,
    created_at: i64,
    choice: LanguageChoice,
    visit: impl FnMut(&[u64], usize, Language),
) {
    let name = name_of(role, name);
    with_kept(|analyser| analyser.for_each_passage(text, name, created_at, choice, visit));
}

/// The text that is searched as the name.
fn name_of<'a>(role: &'a str, name: Option<&'a str>) -> Option<&'a str> {
    name.or_else(|| Some(role).filter(|role| !is_generic(role)))
}

fn is_generic(role: &str) -> bool {
    ROLES.iter().any(|known| known.eq_ignore_ascii_case(role))
}

// What is compared where equal and nearly equal texts are one hit.

/// The most bytes of a line of a log.
const LINE: usize = 500;

/// Three numbers of a text: the first two are what equal texts and nearly equal ones have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gist {
    /// Of the text in lower case, without white space and stops around it.
    pub(crate) whole: u64,
    /// Of the same with one sign for each number, time and id, if it has two or more, and is no
    /// longer than a line of a log: a single number is a name.
    pub(crate) shape: u64,
    /// The bits of its words, if it only asks; 0 for a text that states something.
    pub(crate) asks: u64,
}

impl Gist {
    /// The numbers of a text.
    pub(crate) fn of(text: &str) -> Self {
        let mut asks = 0;
        let only_asks = only_asks(text, |question| asks |= word_bits(question));
        let is_around =
            |c: char| c.is_whitespace() || matches!(c, '.' | '?' | '!' | '。' | '？' | '！');
        let said = plain(text.trim_matches(is_around));
        let whole = hash(&said);
        let may_be_line = said.len() <= LINE && said.contains(char::is_numeric);
        Self {
            whole,
            shape: may_be_line.then(|| shape(&said)).flatten().unwrap_or(whole),
            asks: if only_asks { asks } else { 0 },
        }
    }
}

/// A text in lower case, with one space for each white space.
fn plain(text: &str) -> String {
    if text.is_ascii() {
        let mut bytes = text.to_ascii_lowercase().into_bytes();
        for byte in &mut bytes {
            *byte = if matches!(byte, b'\t'..=b'\r') {
                b' '
            } else {
                *byte
            };
        }
        bytes.dedup_by(|byte, before| *byte == b' ' && *before == b' ');
        return String::from_utf8(bytes).unwrap_or_default();
    }
    let mut plain = String::with_capacity(text.len());
    for piece in text.split_whitespace() {
        plain.push_str(if plain.is_empty() { "" } else { " " });
        plain.extend(piece.chars().flat_map(char::to_lowercase));
    }
    plain
}

/// The number of a text in lower case with one sign for each number; None if it has fewer than two.
fn shape(said: &str) -> Option<u64> {
    let (mut shape, mut numbers) = (String::with_capacity(said.len()), 0);
    for piece in said.split_inclusive(' ') {
        numbers += mask_into(&mut shape, piece);
    }
    (numbers > 1).then(|| hash(&shape))
}

/// One bit of 64 for each term of a text, without those of a greeting. Two different terms may have the same bit.
pub(crate) fn word_bits(text: &str) -> u64 {
    let terms = terms(text).into_iter().filter(|&term| !is_greeting(term));
    terms.fold(0, |all, term| all | 1 << (term % 64))
}

/// Adds a piece in lower case, with `0` for each run of letters and digits that has a digit, and for each group of an
/// id behind one; returns the number of these.
fn mask_into(shape: &mut String, piece: &str) -> usize {
    if piece.is_ascii() && !piece.bytes().any(|byte| byte.is_ascii_digit()) {
        shape.push_str(piece);
        return 0;
    }
    let (mut is_number, mut numbers) = (false, 0);
    for run in piece.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let word = run.trim_end_matches(|c: char| !c.is_alphanumeric());
        let is_hex = word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_number = word.chars().any(char::is_numeric) || is_number && is_hex;
        numbers += usize::from(is_number);
        shape.push_str(if is_number { "0" } else { word });
        shape.push_str(&run[word.len()..]);
    }
    numbers
}

// Cuts a long text into overlapping passages, so that one good paragraph is not diluted by the rest.

/// The length of a passage, in terms.
const SIZE: usize = 160;

/// The overlap of two consecutive passages, in terms.
const OVERLAP: usize = 40;

/// The passages of a text of that many terms: at least one, and the last ends with the text.
pub(super) fn passages(terms: usize) -> impl Iterator<Item = Range<usize>> {
    let count = terms.saturating_sub(SIZE).div_ceil(SIZE - OVERLAP) + 1;
    (0..count).map(move |number| {
        let start = number * (SIZE - OVERLAP);
        start..terms.min(start + SIZE)
    })
}

/// Whether a passage has a character with `before` of the text's `terms` terms before it. The last passage also has
/// the characters behind all terms.
pub(super) fn has_character(passage: &Range<usize>, before: usize, terms: usize) -> bool {
    passage.contains(&before.min(terms.saturating_sub(1)))
}

// The words of a date: its month, year and day, in UTC.

pub(super) const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const MILLISECONDS_OF_DAY: i64 = 86_400_000;

/// Month, year and day of a moment, as people write them: `may`, `2023`, `8`.
pub(super) fn words(milliseconds: i64) -> [String; 3] {
    let (year, month, day) = civil(milliseconds);
    [MONTHS[month].to_owned(), year.to_string(), day.to_string()]
}

/// The day of a moment, after 1970-01-01.
pub(crate) fn day(milliseconds: i64) -> i64 {
    milliseconds.div_euclid(MILLISECONDS_OF_DAY)
}

/// Year, month (0 is January) and day of a moment.
///
/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`: years begin in
/// March, eras of 400 years are alike.
pub(crate) fn civil(milliseconds: i64) -> (i64, usize, i64) {
    let days = day(milliseconds) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    (year, usize::try_from(month).unwrap_or(0), day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::hash;

    fn hashes(words: &[&str]) -> Vec<u64> {
        words.iter().map(|word| hash(word)).collect()
    }

    /// The terms of one passage with those of the other fields.
    fn whole(fields: &Fields, passage: Range<usize>) -> Vec<u64> {
        [&fields.text_of(passage)[..], &fields.name, &fields.date].concat()
    }

    #[test]
    fn a_name_is_searched_and_a_generic_role_is_not() {
        let choice = LanguageChoice::AUTO;
        let name = |role, name| Fields::of("silt", role, name, 0, choice).name;
        assert_eq!(name("user", Some("Ann")), hashes(&["ann"]));
        assert_eq!(name("Ann", None), hashes(&["ann"]));
        assert_eq!(name("Assistant", None), []);
    }

    #[test]
    fn a_person_has_a_name_and_is_no_tool() {
        let is_person = |role, name, kind| Some(Speaker::of(role, name, kind)?.is_person);
        assert_eq!(is_person("user", Some("Ann"), "message"), Some(true));
        assert_eq!(is_person("Ann", None, "fact"), Some(true));
        assert_eq!(is_person("user", None, "message"), Some(true));
        assert_eq!(is_person("Human", Some(" "), "message"), Some(true));
        assert_eq!(is_person("user", None, "tool_result"), None);
        assert_eq!(is_person("assistant", None, "message"), None);
        for (role, kind) in [
            ("assistant", "message"),
            ("tool", "message"),
            ("user", "tool_result"),
            ("user", "Function call"),
        ] {
            assert_eq!(
                is_person(role, Some("Bash"), kind),
                Some(false),
                "{role} {kind}"
            );
        }
        let terms = Speaker::of("user", Some("Lee Ann Lee"), "").unwrap().terms;
        assert_eq!((terms.len(), terms.is_sorted()), (2, true));
    }

    #[test]
    fn passages_that_are_counted_have_the_terms_of_the_fields() {
        let long = (0..500).fold(String::new(), |text, n| {
            text + "silt word" + &n.to_string() + " "
        });
        let day = 86_400_000;
        for (text, role, name, created_at) in [
            ("", "user", None, 0),
            ("The silt settles.", "user", Some("Ann Lee"), 3 * day),
            ("Where, where?", "Ann", None, 3 * day + 5),
            (&long, "tool", Some("read_file"), -day),
            (&long, "Assistant", None, i64::MAX),
            ("it", "user", Some(""), i64::MIN),
            ("我今天去公园 猫", "user", Some("小明"), 0),
            (&"公园".repeat(300), "user", None, day),
            (
                "Der Schlamm ist in den Häusern",
                "user",
                Some("Häuser"),
                day,
            ),
        ] {
            let choice = LanguageChoice::AUTO;
            let fields = Fields::of(text, role, name, created_at, choice);
            let mut expected: Vec<Vec<u64>> = fields
                .passages()
                .map(|passage| whole(&fields, passage))
                .collect();
            for terms in &mut expected {
                terms.sort_unstable();
            }
            let mut found = Vec::new();
            for_each_passage(text, role, name, created_at, choice, |terms, words, _| {
                assert!(words <= terms.len());
                found.push(terms.to_vec());
            });
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn every_passage_has_the_name_and_the_date() {
        let fields = Fields::of(
            &"silt ".repeat(161),
            "user",
            Some("Ann"),
            0,
            LanguageChoice::AUTO,
        );
        let lengths: Vec<usize> = fields
            .passages()
            .map(|passage| whole(&fields, passage).len())
            .collect();
        assert_eq!(lengths, [164, 45]);
    }

    #[test]
    fn nearly_equal_texts_differ_in_numbers_times_and_ids_only() {
        let shape = |text| Gist::of(text).shape;
        let line = shape("2026-05-07T12:00:03Z INFO pump-3 beat 17 in 4.5 ms (id 9f3c-beef-01)");
        for text in [
            "2026-05-08T13:10:53Z INFO pump-3 beat 18 in 14.5 ms (id 1f3c-0eef-01)",
            "2026-05-08T13:10:53Z  info pump-12 beat 1800 in 0.5 ms (id 1f3c-feed-07).",
        ] {
            assert_eq!(shape(text), line, "{text}");
        }
        for text in [
            "2026-05-08T13:10:53Z WARN pump-3 beat 18 in 14.5 ms (id 1f3c-0eef-01)",
            "2026-05-08T13:10:53Z INFO kiln-3 beat 18 in 14.5 ms (id 1f3c-0eef-01)",
        ] {
            assert_ne!(shape(text), line, "{text}");
        }
        let whole = |text| Gist::of(text).whole;
        assert_eq!(whole("The kiln is hot"), whole(" the kiln\nis hot. "));
        assert_ne!(whole("kiln 3 is hot"), whole("kiln 4 is hot"));
        assert_ne!(whole("x += 1"), whole("x -= 1"));
        assert_ne!(shape("kiln 3 is hot"), shape("kiln 4 is hot"));
        assert_eq!(whole("Where is it?"), whole("where is it"));
        let asks = |text| Gist::of(text).asks;
        assert_eq!(asks("The kiln is hot."), 0);
        for text in [
            "Is the kiln hot?",
            "Hi! Is the kiln hot?",
            "hello, is the kiln hot?",
        ] {
            assert_eq!(asks(text), word_bits("hot kiln"), "{text}");
        }
    }

    #[test]
    fn passages_overlap_and_cover_the_text() {
        let of = |terms| -> Vec<(usize, usize)> {
            passages(terms).map(|each| (each.start, each.end)).collect()
        };
        assert_eq!(of(0), [(0, 0)]);
        assert_eq!(of(160), [(0, 160)]);
        assert_eq!(of(161), [(0, 160), (120, 161)]);
        assert_eq!(of(280), [(0, 160), (120, 280)]);
        assert_eq!(of(281), [(0, 160), (120, 280), (240, 281)]);
    }

    #[test]
    fn days_have_their_dates() {
        for (days, date) in [
            (0, (1970, 0, 1)),
            (-1, (1969, 11, 31)),
            (11_016, (2000, 1, 29)),
            (11_017, (2000, 2, 1)),
            (19_485, (2023, 4, 8)),
            (-719_162, (1, 0, 1)),
            (2_932_896, (9999, 11, 31)),
        ] {
            assert_eq!(civil(days * MILLISECONDS_OF_DAY), date, "{days}");
        }
        assert_eq!(
            words(19_485 * MILLISECONDS_OF_DAY + 1),
            ["may", "2023", "8"]
        );
    }

    #[test]
    fn any_number_of_milliseconds_has_a_date() {
        for milliseconds in [i64::MIN, i64::MAX] {
            assert_eq!(words(milliseconds).len(), 3);
        }
    }
}
