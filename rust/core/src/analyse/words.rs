//! Finds the words of texts that mix prose, identifiers, paths and JSON.
//!
//! A text is cut at white space. Each piece is folded (accents are removed), and then read from left to right:
//!
//! - A run of Han, kana or Hangul becomes its overlapping pairs of code points; a single code point stays alone.
//! - A run of Thai, Lao, Tibetan, Burmese or Khmer, which are written without spaces, becomes its overlapping
//!   triples of code points (marks count); a shorter run stays whole.
//! - A word is a run of other letters, digits and the marks that follow them, in lower case. An apostrophe between
//!   letters is dropped, and so are `'s` at the end of the word and a comma between a digit and exactly three
//!   digits: `don't`, `Ann's`, `10,000` become `dont`, `ann`, `10000`.
//! - An elided article of French or Italian is left out: `l'eau` and `dell'acqua` become `eau` and `acqua`.
//! - A word is cut before a capital that does not follow a capital, and before the last of several capitals if a
//!   lower case letter follows it: `parseHTTPBody` becomes `parse`, `http`, `body`.
//! - Words that are joined only by a hyphen, by underscores, or by a dot between digits are a compound: its parts
//!   are words, and the whole is a word too, without hyphens and underscores. `in_progress` becomes `in`,
//!   `progress`, `inprogress`; `v1.2.3` becomes `v1`, `2`, `3`, `1.2.3`: the `v` of a version is left out.
//!
//! - A date in digits, `2026-05-07` or `7.5.2026`, becomes its year, month and day as people say them, and the whole.
//! - An emoji is a word.
//!
//! Every other character separates words. The first seven digits of a long hexadecimal number, as people write a commit,
//! and a stop word with a capital, which may be a name, are found, but do not count as words of the text.
//!
//! Each word comes with a mark whether it has content. A stop word has none. In Chinese (a run of Han characters
//! only), a pair with a grammatical character has none either. In Japanese, where kana stand beside it, such a
//! character is often part of a noun, so all pairs are kept.

use crate::tokenize::{Class, fold as class_of};

use super::fields::MONTHS;
use super::language_choice::Language;
use super::normal::fold_into;
use super::stop_words::{is_function_character, is_stop_word_of_script, says_nothing};

/// The role of a word in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// It is a content word.
    Something,
    /// It is a stop word, or purely grammatical.
    Nothing,
    /// It is a single character inside of a run of Han, kana or Hangul, or another part or reading of a word: a query
    /// for it alone finds it, but it does not count as a word of the text.
    Inside,
}

impl Says {
    fn something(says: bool) -> Self {
        if says { Self::Something } else { Self::Nothing }
    }
}

/// Articles and similar words that French, Italian and related languages join to the next word by an apostrophe.
const ELIDED: [&str; 14] = [
    "all", "c", "d", "dall", "dell", "j", "jusqu", "l", "lorsqu", "n", "nell", "puisqu", "qu",
    "sull",
];

/// Finds words, and keeps its buffers from one piece to the next.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    language: Language,
    piece: Vec<char>,
    /// The current word, as it was written.
    word: Vec<char>,
    /// The current compound.
    whole: String,
    /// The parts of the compound one after the other, and where each ends.
    parts: String,
    ends: Vec<usize>,
}

impl Scanner {
    /// A scanner that knows the stop words of a language.
    pub(super) fn of(language: Language) -> Self {
        Self {
            language,
            ..Self::default()
        }
    }

    /// Calls `visit` with each word of `piece`, a text without white space, in order, and with the role of the
    /// word.
    pub(super) fn for_each_word(&mut self, piece: &str, visit: &mut impl FnMut(&str, Says)) {
        if let Some(word) = plain_word(piece) {
            self.parts.clear();
            self.parts.push_str(word);
            self.parts.make_ascii_lowercase();
            let says = self.says(&self.parts);
            visit(&self.parts, says);
            if says == Says::Nothing && is_name(self.language, word) {
                visit(&self.parts, Says::Inside);
            }
            return;
        }
        fold_into(&mut self.piece, piece);
        let mut at = 0;
        while at < self.piece.len() {
            if is_emoji(self.piece[at]) {
                visit(self.piece[at].encode_utf8(&mut [0; 4]), Says::Something);
                at += 1;
                continue;
            }
            at = match self.class(at) {
                Class::Separator | Class::Mark => at + 1,
                Class::Cjk => self.read_run(at, visit),
                Class::Letter if is_unspaced(self.piece[at]) => self.read_unspaced(at, visit),
                Class::Letter => self.read_compound(at, visit),
            };
        }
    }

    /// Reads a run of CJK that begins at `at`; returns its end.
    fn read_run(&mut self, at: usize, visit: &mut impl FnMut(&str, Says)) -> usize {
        let goes_on = |&place: &usize| matches!(self.class(place), Class::Cjk | Class::Mark);
        let end = (at..self.piece.len()).take_while(goes_on).count() + at;
        let run = &self.piece[at..end];
        let is_chinese = run.iter().all(|&c| is_han(c));
        let is_silent = |c| is_chinese && is_function_character(c);
        self.parts.clear();
        self.parts.extend(run);
        if let &[c] = run {
            visit(&self.parts, Says::something(!is_silent(c)));
            return end;
        }
        let mut rest = &*self.parts;
        let mut before = is_silent(run[0]);
        for (&one, &next) in run.iter().zip(&run[1..]) {
            let after = is_silent(next);
            let (first, pair) = (one.len_utf8(), one.len_utf8() + next.len_utf8());
            visit(&rest[..first], Says::Inside);
            visit(&rest[..pair], Says::something(!(before | after)));
            rest = &rest[first..];
            before = after;
        }
        visit(rest, Says::Inside);
        end
    }

    /// Reads a run of a script without spaces that begins at `at`; returns its end.
    fn read_unspaced(&mut self, at: usize, visit: &mut impl FnMut(&str, Says)) -> usize {
        let goes_on = |&place: &usize| match self.class(place) {
            Class::Letter => is_unspaced(self.piece[place]),
            class => class == Class::Mark,
        };
        let end = (at..self.piece.len()).take_while(goes_on).count() + at;
        let run = &self.piece[at..end];
        let width = run.len().min(3);
        for stretch in run.windows(width) {
            self.parts.clear();
            self.parts.extend(stretch.iter().map(|&c| class_of(c).1));
            visit(&self.parts, Says::Something);
        }
        end
    }

    /// Reads a word that begins at `at`, with all words that are joined to it; returns the end.
    fn read_compound(&mut self, mut at: usize, visit: &mut impl FnMut(&str, Says)) -> usize {
        self.whole.clear();
        self.parts.clear();
        self.ends.clear();
        let first = at;
        loop {
            at = self.read_word(at);
            self.cut_word();
            match self.joined(at) {
                Some(next) => at = next,
                None => break,
            }
        }
        if let Some([year, month, day]) = self.date() {
            for word in [year, MONTHS[month.parse().unwrap_or(1) - 1], day] {
                visit(word.trim_start_matches('0'), Says::Something);
            }
            visit(&self.whole, Says::Something);
            return at;
        }
        let mut start = 0;
        for &end in &self.ends {
            let part = &self.parts[start..end];
            let says = self.says(part);
            visit(part, says);
            let is_capital = start == 0 && end > 1 && self.piece[first].is_ascii_uppercase();
            if is_capital && says == Says::Nothing && self.language == Language::English {
                visit(part, Says::Inside);
            }
            if let Some(short) = short_hash(part) {
                visit(short, Says::Inside);
            }
            start = end;
        }
        if self.ends.len() > 1 {
            let whole = without_v(&self.whole);
            visit(whole, self.says(whole));
        }
        at
    }

    /// Year, month and day, if the compound is a date.
    fn date(&self) -> Option<[&str; 3]> {
        let &[one, two, three] = &self.ends[..] else {
            return None;
        };
        let [a, b, c] = [
            &self.parts[..one],
            &self.parts[one..two],
            &self.parts[two..three],
        ];
        let is_dotted = self.whole.contains('.');
        let [year, month, day] = if is_dotted { [c, b, a] } else { [a, b, c] };
        let is_of = |text: &str, most: u8| {
            text.parse()
                .is_ok_and(|number| (1..=most).contains(&number))
        };
        let is_short = |text: &str| text.len() == 2 || is_dotted && text.len() == 1;
        let is_date = year.len() == 4
            && is_short(month)
            && is_short(day)
            && self.parts.bytes().all(|byte| byte.is_ascii_digit())
            && !year.starts_with('0');
        (is_date && is_of(month, 12) && is_of(day, 31)).then_some([year, month, day])
    }

    fn says(&self, word: &str) -> Says {
        Says::something(!says_nothing(self.language, word) && !is_stop_word_of_script(word))
    }

    /// Reads one word into `word`; returns its end, with a closing `'s`.
    fn read_word(&mut self, start: usize) -> usize {
        self.word.clear();
        let mut at = start;
        while at < self.piece.len() {
            let c = self.piece[at];
            if is_apostrophe(c) {
                let possessive = self
                    .piece
                    .get(at + 1)
                    .is_some_and(|c| matches!(c, 's' | 'S'));
                if possessive && !self.is_of_word(at + 2) {
                    return at + 2;
                }
                if self.is_elided() && self.is_letter(at + 1) {
                    self.word.clear();
                    at += 1;
                    continue;
                }
                if !self.is_letter(at + 1) {
                    return at;
                }
            } else if self.is_of_word(at) {
                self.word.push(c);
            } else if !(c == ',' && self.is_thousands(at)) {
                return at;
            }
            at += 1;
        }
        at
    }

    /// Whether the current word is an elided article.
    fn is_elided(&self) -> bool {
        let is = |elided: &&str| {
            let same = |(known, &c): (char, &char)| known == c.to_ascii_lowercase();
            elided.len() == self.word.len() && elided.chars().zip(&self.word).all(same)
        };
        ELIDED.iter().any(is)
    }

    /// Adds the current word to the compound, cut at its capitals.
    fn cut_word(&mut self) {
        for (at, &c) in self.word.iter().enumerate() {
            if at > 0 && self.begins_part(at) {
                self.ends.push(self.parts.len());
            }
            let lower = class_of(c).1;
            self.parts.push(lower);
            self.whole.push(lower);
        }
        self.ends.push(self.parts.len());
    }

    fn begins_part(&self, at: usize) -> bool {
        let next = || self.word.get(at + 1).is_some_and(|c| c.is_lowercase());
        self.word[at].is_uppercase() && (!self.word[at - 1].is_uppercase() || next())
    }

    /// The start of the next word of the compound, if the character at `at` joins it.
    fn joined(&mut self, at: usize) -> Option<usize> {
        let next = match self.piece.get(at)? {
            '-' => at + 1,
            '_' => at + self.piece[at..].iter().take_while(|&&c| c == '_').count(),
            '.' if self.is_digit(at.wrapping_sub(1)) && self.is_digit(at + 1) => {
                self.whole.push('.');
                at + 1
            }
            _ => return None,
        };
        self.is_letter(next).then_some(next)
    }

    /// Whether the comma at `at` groups the digits of a number.
    fn is_thousands(&self, at: usize) -> bool {
        at > 0
            && self.is_digit(at - 1)
            && (at + 1..at + 4).all(|place| self.is_digit(place))
            && !self.is_digit(at + 4)
    }

    fn is_digit(&self, at: usize) -> bool {
        self.piece.get(at).is_some_and(char::is_ascii_digit)
    }

    fn is_letter(&self, at: usize) -> bool {
        self.is_of_word(at) && self.class(at) == Class::Letter
    }

    fn is_of_word(&self, at: usize) -> bool {
        let of_word = |&c| match class_of(c).0 {
            Class::Letter => !is_apostrophe(c) && !is_unspaced(c),
            class => class == Class::Mark && !is_apostrophe(c),
        };
        self.piece.get(at).is_some_and(of_word)
    }

    fn class(&self, at: usize) -> Class {
        let c = self.piece[at];
        if is_apostrophe(c) {
            Class::Separator // U+02BC is an apostrophe here, but a letter in Unicode
        } else {
            class_of(c).0
        }
    }
}

/// The word of a piece that is one ASCII word (only the first letter may be a capital) with ASCII separators around
/// it: most pieces are of this kind.
fn plain_word(piece: &str) -> Option<&str> {
    let around = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
    let bytes = piece.as_bytes();
    let start = bytes.iter().position(|byte| !around(byte))?;
    let letters = bytes[start..]
        .iter()
        .skip(1)
        .take_while(|byte| byte.is_ascii_lowercase());
    let end = start + 1 + letters.count();
    let is_plain = bytes[start].is_ascii_alphabetic() && bytes[end..].iter().all(around);
    is_plain.then(|| &piece[start..end])
}

/// Whether an English stop word, as it was written, may be a name: `The Who`, `Will`, `IT`.
pub(super) fn is_name(language: Language, word: &str) -> bool {
    language == Language::English && word.len() > 1 && word.as_bytes()[0].is_ascii_uppercase()
}

/// The first seven digits of a hexadecimal number of eight to 64 digits, with letters and digits, in lower case.
pub(super) fn short_hash(word: &str) -> Option<&str> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_hash = (8..=64).contains(&word.len())
        && word.bytes().all(is_hex)
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_lowercase());
    is_hash.then(|| &word[..7])
}

fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{2600}'..='\u{27BF}' | '\u{2B50}' | '\u{2B55}' | '\u{1F000}'..='\u{1F3FA}'
        | '\u{1F400}'..='\u{1FAFF}')
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '\u{2019}' | '\u{2BC}')
}

/// Whether a letter is of a script that is written without spaces. Digits of these scripts are not: a number is one
/// word.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{E01}'..='\u{E4E}' // Thai
        | '\u{E81}'..='\u{ECF}' | '\u{EDC}'..='\u{EDF}' // Lao
        | '\u{F40}'..='\u{FBC}' // Tibetan
        | '\u{1000}'..='\u{103F}' | '\u{1050}'..='\u{108F}' | '\u{109A}'..='\u{109F}' // Burmese
        | '\u{A9E0}'..='\u{A9EF}' | '\u{A9FA}'..='\u{A9FE}' | '\u{AA60}'..='\u{AA7F}'
        | '\u{1780}'..='\u{17DD}' // Khmer
    )
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// A version without its leading `v`.
fn without_v(whole: &str) -> &str {
    match whole.strip_prefix('v') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains('.') => rest,
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut scanner = Scanner::default();
        for piece in text.split_whitespace() {
            scanner.for_each_word(piece, &mut |word, says| {
                found.extend((says != Says::Inside).then(|| word.to_owned()));
            });
        }
        found
    }

    #[test]
    fn elided_articles_are_left_out() {
        assert_eq!(
            words("l’Eau dell'acqua qu'il d'un l' L'"),
            ["eau", "acqua", "il", "un", "l", "l"]
        );
    }

    #[test]
    fn characters_inside_of_a_run_are_told_beside_its_pairs() {
        let mut found = Vec::new();
        Scanner::default().for_each_word("漢字仮x猫", &mut |word, says| {
            found.push((word.to_owned(), says));
        });
        let inside: Vec<_> = found
            .iter()
            .filter(|(_, says)| *says == Says::Inside)
            .collect();
        assert_eq!(
            inside.iter().map(|(word, _)| &word[..]).collect::<String>(),
            "漢字仮"
        );
        assert_eq!(found.last(), Some(&("猫".to_owned(), Says::Something)));
    }

    #[test]
    fn a_compound_is_its_parts_and_its_whole() {
        assert_eq!(words("in_progress"), ["in", "progress", "inprogress"]);
        assert_eq!(
            words("parseHTTPBody2"),
            ["parse", "http", "body2", "parsehttpbody2"]
        );
        assert_eq!(
            words("well-being, --status"),
            ["well", "being", "wellbeing", "status"]
        );
        assert_eq!(
            words("src/memoryStore.rs"),
            ["src", "memory", "store", "memorystore", "rs"]
        );
        assert_eq!(
            words("{\"file_path\":1}"),
            ["file", "path", "filepath", "1"]
        );
    }

    #[test]
    fn a_word_alone_is_read_as_among_others() {
        // Before the slash it stands alone; behind it the piece is read letter by letter.
        for word in [
            "silt", "Silt", "(silt)", "silt's", "_silt_", "'silt'", "siltX", "si1t", "--silt.,",
            "İ",
        ] {
            let (alone, among) = (words(word), words(&format!("7/{word}")));
            assert_eq!(alone, among[1..], "{word}");
        }
    }

    #[test]
    fn numbers_and_versions_keep_together() {
        assert_eq!(words("10,000 1,2 3,0000"), ["10000", "1", "2", "3", "0000"]);
        assert_eq!(
            words("v1.2.3 0x1f 3."),
            ["v1", "2", "3", "1.2.3", "0x1f", "3"]
        );
    }

    #[test]
    fn a_date_in_digits_is_one_in_words() {
        assert_eq!(words("2026-05-07,"), ["2026", "may", "7", "20260507"]);
        assert_eq!(words("7.5.2026"), ["2026", "may", "7", "7.5.2026"]);
        assert_eq!(words("2026-15-07"), ["2026", "15", "07", "20261507"]);
    }

    #[test]
    fn names_and_short_hashes_are_found_beside_words() {
        let inside = |text: &str| {
            let mut found = Vec::new();
            Scanner::default().for_each_word(text, &mut |word, says| {
                found.extend((says == Says::Inside).then(|| word.to_owned()));
            });
            found
        };
        assert_eq!(inside("Will"), ["will"]);
        assert_eq!(inside("AT&T"), ["at"]);
        assert_eq!(inside("will"), [] as [&str; 0]);
        assert_eq!(
            inside("9fceb02d0ae598e95dc970b74767f19372d61af8"),
            ["9fceb02"]
        );
        assert_eq!(inside("12345678"), [] as [&str; 0]);
    }

    #[test]
    fn apostrophes_are_dropped() {
        assert_eq!(
            words("don't Ann's O’Brien dogs' 'quoted'"),
            ["dont", "ann", "o", "brien", "obrien", "dogs", "quoted"]
        );
    }

    #[test]
    fn cjk_is_read_in_pairs_and_an_emoji_is_a_word() {
        assert_eq!(
            words("abc漢字仮def 猫 😀❤\u{FE0F}"),
            ["abc", "漢字", "字仮", "def", "猫", "😀", "❤"]
        );
        assert_eq!(words("Übergröße か\u{3099}く"), ["ubergroße", "がく"]);
    }

    #[test]
    fn scripts_without_spaces_are_read_in_triples() {
        assert_eq!(words("แมวดำ"), ["แมว", "มวด", "วด\u{E4D}", "ด\u{E4D}า"]);
        assert_eq!(
            words("ปี 2567 abcปลาdef"),
            ["ปี", "2567", "abc", "ปลา", "def"]
        );
        assert_eq!(words("๒๕๖๗ปี"), ["2567", "ปี"]);
        assert_eq!(words("ខ្មែរ"), ["ខ្ម", "្មែ", "មែរ"]);
        assert_eq!(words("བོད་ཡིག"), ["བོད", "ཡིག"]);
    }

    #[test]
    fn grammar_says_nothing_in_chinese_alone() {
        let silent = |text: &str| {
            let mut found = Vec::new();
            Scanner::default().for_each_word(text, &mut |word, says| {
                found.extend((says == Says::Nothing).then(|| word.to_owned()));
            });
            found
        };
        assert_eq!(silent("我的公园"), ["我的", "的公"]);
        assert_eq!(silent("的"), ["的"]);
        assert_eq!(silent("目的は公園"), [] as [&str; 0]);
        assert_eq!(silent("what_silt"), ["what"]);
    }
}
