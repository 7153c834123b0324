//! Shows people where a text matches a search: the best part of the text, and the words to mark.
//!
//! A word of the text is marked if one of its terms was looked for. Texts are read as ranking reads them, so other
//! forms of a word are marked, and the corrections of misspelt words too. Marks and parts begin and end between
//! graphemes, which are the characters that people see.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unicode_segmentation::GraphemeCursor;

use super::language_choice::{Language, LanguageChoice, language_in};
use super::normal::{Normalizer, hash};
use super::terms::terms;
use super::words::{Says, Scanner, is_unspaced};
use crate::tokenize::{Class, fold as class_of};

/// Code points in one term of a script without spaces.
const TRIPLE: usize = 3;

/// The terms that a search looked for, with those of other languages and of corrections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// In ascending order, each once.
    terms: Arc<[u64]>,
    languages: LanguageChoice,
}

impl Asked {
    /// The given terms, ascending and each once, for texts in those languages.
    #[must_use]
    pub fn new(terms: Arc<[u64]>, languages: LanguageChoice) -> Self {
        debug_assert!(terms.is_sorted_by(|one, next| one < next), "terms ascend");
        Self { terms, languages }
    }

    /// The terms of a query that was not run in an index: it is read as English.
    #[must_use]
    pub fn of(query: &str) -> Self {
        let mut terms = terms(query);
        terms.sort_unstable();
        terms.dedup();
        Self::new(terms.into(), LanguageChoice::AUTO)
    }

    /// The same terms for texts in those languages.
    #[must_use]
    pub fn among(self, languages: LanguageChoice) -> Self {
        Self { languages, ..self }
    }

    /// The terms, in ascending order, each once.
    #[must_use]
    pub fn terms(&self) -> &[u64] {
        &self.terms
    }

    /// The languages that texts are read in.
    #[must_use]
    pub fn languages(&self) -> LanguageChoice {
        self.languages
    }

    /// The best part of `text` of at most `size` bytes, cut between graphemes; see [`best_window`].
    #[must_use]
    pub fn best_part(&self, text: &str, size: usize) -> Range<usize> {
        if text.len() <= size {
            return 0..text.len();
        }
        let mut reader = Reader::of(self, language_in(text, self.languages));
        best_stretch(text, size, |piece| reader.terms_in(piece))
    }

    /// The best part of at most `size` code points.
    #[must_use]
    pub fn best_part_of(&self, text: &str, size: usize) -> Range<usize> {
        let count = |part: &str| part.chars().count();
        let all = count(text);
        if all <= size {
            return 0..text.len();
        }
        // A first guess by the average length of a code point; smaller while the part has too many code points.
        let mut bytes =
            usize::try_from(text.len() as u128 * size as u128 / all as u128).unwrap_or(text.len());
        loop {
            let part = self.best_part(text, bytes);
            if count(&text[part.clone()]) <= size {
                return part;
            }
            bytes = bytes * 7 / 8;
        }
    }

    /// The words in `part` of a text that were looked for, in order: ranges of bytes of the text, which neither
    /// touch nor overlap.
    #[must_use]
    pub fn marks(&self, text: &str, part: Range<usize>) -> Vec<Range<usize>> {
        let mut reader = Reader::of(self, language_in(text, self.languages));
        let (start, read) = (part.start, &text[part]);
        let mut marks: Vec<Range<usize>> = Vec::new();
        for piece in read.split_whitespace() {
            let at = piece.as_ptr().addr() - read.as_ptr().addr();
            for mark in reader.marks_in(piece) {
                let whole = floor(read, at + mark.start)..ceil(read, at + mark.end);
                let whole = start + whole.start..start + whole.end;
                match marks.last_mut() {
                    Some(last) if last.end >= whole.start => last.end = last.end.max(whole.end),
                    _ => marks.push(whole),
                }
            }
        }
        marks
    }
}

/// The stretch of `text` of at most `size` bytes that best matches `query`.
///
/// The best stretch has the highest sum of weights of the query's terms: each term counts once, and terms that are
/// rare in the text weigh more. Of equal stretches the first is the best. The rest of `size` is used for the
/// context on both sides. The stretch begins and ends between words, or between two graphemes where a word is
/// longer than `size`. If the text has no term of the query, the stretch is its beginning.
///
/// ```
/// use siltstone_core::analyse::best_window;
///
/// let text = "It rained all day. The vault code is 7731. Nobody came.";
/// let best = &text[best_window(text, "code of the vault", 24)];
/// assert!(best.contains("vault code") && best.len() <= 24);
/// ```
#[must_use]
pub fn best_window(text: &str, query: &str, size: usize) -> Range<usize> {
    Asked::of(query).best_part(text, size)
}

/// Reads the pieces of a text; pieces are separated by white space.
struct Reader<'a> {
    asked: &'a Asked,
    scanner: Scanner,
    normalizer: Normalizer,
}

impl<'a> Reader<'a> {
    fn of(asked: &'a Asked, language: Language) -> Self {
        Self {
            asked,
            scanner: Scanner::of(language),
            normalizer: Normalizer::of(language),
        }
    }

    /// The terms of `piece` that were looked for.
    fn terms_in(&mut self, piece: &str) -> Vec<u64> {
        let mut found = Vec::new();
        self.for_each(piece, |term, _| found.push(term));
        found
    }

    fn for_each(&mut self, piece: &str, mut visit: impl FnMut(u64, Says)) {
        let (asked, normalizer) = (self.asked, &self.normalizer);
        self.scanner.for_each_word(piece, &mut |word, says| {
            let term = hash(&normalizer.normal(word));
            if asked.terms.binary_search(&term).is_ok() {
                visit(term, says);
            }
        });
    }

    /// Whether a word of `text` was looked for; single characters inside of words do not count.
    fn has(&mut self, text: &str) -> bool {
        let mut found = false;
        self.for_each(text, |_, says| found |= says != Says::Inside);
        found
    }

    /// The ranges of `piece` to mark, in order of their starts; they may overlap.
    fn marks_in(&mut self, piece: &str) -> Vec<Range<usize>> {
        let mut marks = Vec::new();
        if self.terms_in(piece).is_empty() {
            return marks;
        }
        let runs = runs(piece);
        for (kind, run) in &runs {
            match kind {
                Kind::Word => marks.extend(self.has(&piece[run.clone()]).then(|| run.clone())),
                Kind::Cjk => self.mark_stretches(piece, run, 1, &mut marks),
                Kind::Unspaced => self.mark_stretches(piece, run, TRIPLE, &mut marks),
            }
        }
        // No part of it was looked for, so it was the whole compound, such as `file_path` or `10,000`.
        if marks.is_empty() {
            marks.push(match (runs.first(), runs.last()) {
                (Some((_, first)), Some((_, last))) => first.start..last.end,
                // A sign that has a word in it, as 🉀 has 本.
                _ => 0..piece.len(),
            });
        }
        marks
    }

    /// Marks the stretches of `run` that are terms: with `least` 1, each character and each pair of characters;
    /// else each stretch of `least` code points.
    fn mark_stretches(
        &mut self,
        piece: &str,
        run: &Range<usize>,
        least: usize,
        marks: &mut Vec<Range<usize>>,
    ) {
        let starts: Vec<usize> = places(&piece[run.clone()], least == 1)
            .map(|at| run.start + at)
            .chain([run.end])
            .collect();
        let count = starts.len() - 1;
        for at in 0..count {
            let lengths = if least == 1 { 1..=2 } else { least..=least };
            for length in lengths {
                let end = (at + length).min(count);
                // A run of fewer code points stays whole.
                let is_stretch = end - at == length || at == 0;
                if is_stretch && self.has(&piece[starts[at]..starts[end]]) {
                    marks.push(starts[at]..starts[end]);
                }
            }
        }
    }
}

/// The starts of the characters of a run (each with its combining marks), or of all code points.
fn places(run: &str, with_marks: bool) -> impl Iterator<Item = usize> {
    let begins = move |&(_, c): &(usize, char)| !with_marks || class_of(c).0 != Class::Mark;
    run.char_indices().filter(begins).map(|(at, _)| at)
}

/// The way a run of characters is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    Cjk,
    Unspaced,
}

/// The runs of `piece`, in order, without separators.
fn runs(piece: &str) -> Vec<(Kind, Range<usize>)> {
    let mut runs: Vec<(Kind, Range<usize>)> = Vec::new();
    let mut goes_on = false;
    for (at, c) in piece.char_indices() {
        let end = at + c.len_utf8();
        let kind = match class_of(c).0 {
            Class::Separator => None,
            Class::Mark => runs.last().filter(|_| goes_on).map(|(kind, _)| *kind),
            Class::Cjk => Some(Kind::Cjk),
            Class::Letter if is_unspaced(c) => Some(Kind::Unspaced),
            Class::Letter => Some(Kind::Word),
        };
        match (kind, runs.last_mut()) {
            (Some(kind), Some((last, run))) if goes_on && *last == kind => run.end = end,
            (Some(kind), _) => runs.push((kind, at..end)),
            (None, _) => {}
        }
        goes_on = kind.is_some();
    }
    runs
}

// Finds the stretch of a text that best matches a query, for callers that cannot show all of the text.

/// The longest piece without white space that is read as one, in bytes; longer ones (Chinese, base64) are cut.
const LONGEST_PIECE: usize = 48;

/// The best stretch of a text that is longer than `size` bytes. `terms_in` returns the terms of a piece that are
/// looked for; [`Asked::best_part`](super::Asked::best_part) says which stretch is best.
fn best_stretch(text: &str, size: usize, terms_in: impl FnMut(&str) -> Vec<u64>) -> Range<usize> {
    let pieces = pieces(text);
    let found = matches(text, &pieces, terms_in);
    let best = densest(&pieces, &found, size).unwrap_or(0..0);
    let best = widened(text, &pieces, best, size);
    // A combining accent may stand on white space that is left out.
    let start = ceil(text, best.start);
    start..floor(text, best.end).max(start)
}

/// The pieces of `text`: its stretches without white space. Long ones are cut, with one shared grapheme.
fn pieces(text: &str) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    for piece in text.split_whitespace() {
        let mut start = piece.as_ptr().addr() - text.as_ptr().addr();
        let end = start + piece.len();
        while end - start > LONGEST_PIECE {
            let mut stop = floor(text, start + LONGEST_PIECE);
            if stop <= start {
                stop = ceil(text, start + 1).min(end); // a single grapheme with many combining marks
            }
            pieces.push(start..stop);
            let common = floor(text, stop - 1); // shared, so that no pair of Han characters is lost
            start = if common > start { common } else { stop };
        }
        pieces.push(start..end);
    }
    pieces
}

/// The pieces that have terms of the query, each with these terms.
fn matches(
    text: &str,
    pieces: &[Range<usize>],
    mut terms_in: impl FnMut(&str) -> Vec<u64>,
) -> Vec<(usize, Vec<u64>)> {
    let of = |(at, piece): (usize, &Range<usize>)| {
        let common = terms_in(&text[piece.clone()]);
        (!common.is_empty()).then_some((at, common))
    };
    pieces.iter().enumerate().filter_map(of).collect()
}

/// The run of pieces within `size` bytes whose terms have the highest weight.
fn densest(
    pieces: &[Range<usize>],
    found: &[(usize, Vec<u64>)],
    size: usize,
) -> Option<Range<usize>> {
    let mut counts = FxHashMap::<u64, usize>::default();
    for term in found.iter().flat_map(|(_, common)| common) {
        *counts.entry(*term).or_default() += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of words in one text")]
    let weight = |term: &u64| 1.0 + (pieces.len() as f64 / counts[term] as f64).ln();
    let mut inside = FxHashMap::<u64, usize>::default();
    let (mut first, mut sum, mut best) = (0, 0.0, None);
    for (last, (at, common)) in found.iter().enumerate() {
        for term in common {
            let count = inside.entry(*term).or_default();
            if *count == 0 {
                sum += weight(term);
            }
            *count += 1;
        }
        while first < last && pieces[*at].end - pieces[found[first].0].start > size {
            for term in &found[first].1 {
                if let Some(count) = inside.get_mut(term) {
                    *count -= 1;
                    if *count == 0 {
                        sum -= weight(term);
                    }
                }
            }
            first += 1;
        }
        if best
            .as_ref()
            .is_none_or(|(most, _)| sum > *most + f64::EPSILON * 64.0)
        {
            best = Some((sum, found[first].0..*at + 1));
        }
    }
    best.map(|(_, run)| run)
}

/// The bytes of the pieces of `run`, extended by pieces on both sides as far as `size` allows.
fn widened(text: &str, pieces: &[Range<usize>], run: Range<usize>, size: usize) -> Range<usize> {
    let Range { mut start, mut end } = run;
    let Some(first) = pieces.get(start) else {
        return 0..floor(text, size); // only white space
    };
    if start == end {
        end += 1;
    }
    if pieces[end - 1].end - first.start > size {
        return first.start..floor(text, first.start + size).max(first.start);
    }
    loop {
        let (from, to) = (pieces[start].start, pieces[end - 1].end);
        let after = pieces.get(end).filter(|piece| piece.end - from <= size);
        let before = start
            .checked_sub(1)
            .filter(|&at| to - pieces[at].start <= size);
        // The side with less context is extended first.
        let (left, right) = (run.start - start, end - run.end.min(end));
        match (before, after) {
            (Some(at), Some(_)) if left <= right => start = at,
            (Some(at), None) => start = at,
            (_, Some(_)) => end += 1,
            (None, None) => return from..to,
        }
    }
}

// The boundaries of graphemes, the characters that people see.

/// Whether `at`, a place between two code points, is a boundary of graphemes.
fn is_boundary(text: &str, at: usize) -> bool {
    let found = GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0);
    found.unwrap_or(true) // the cursor has the whole text, so it cannot ask for more
}

/// The last boundary of graphemes up to `at`.
pub(super) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    if is_boundary(text, at) {
        return at;
    }
    let found = GraphemeCursor::new(at, text.len(), true).prev_boundary(text, 0);
    found.ok().flatten().unwrap_or(0)
}

/// The first boundary of graphemes from `at` on.
fn ceil(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    if is_boundary(text, at) {
        return at;
    }
    let found = GraphemeCursor::new(at, text.len(), true).next_boundary(text, 0);
    found.ok().flatten().unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::best_window;
    use proptest::prelude::*;

    fn marked(asked: &Asked, text: &str) -> String {
        let mut shown = String::new();
        let mut at = 0;
        for mark in asked.marks(text, 0..text.len()) {
            shown.push_str(&text[at..mark.start]);
            shown.extend(["[", &text[mark.clone()], "]"]);
            at = mark.end;
        }
        shown + &text[at..]
    }

    #[test]
    fn words_of_the_query_are_marked_in_every_form_and_script() {
        for (query, text, expected) in [
            (
                "river kettle",
                "The Rivers, kettle-like: 'river'!",
                "The [Rivers], [kettle]-like: '[river]'!",
            ),
            (
                "went",
                "They go, and she is gone.",
                "They [go], and she is [gone].",
            ),
            ("silt", "Ann's silt's (silt)", "Ann's [silt]'s ([silt])"),
            (
                "filepath 10,000",
                "the file_path of 10000 or 10,000.",
                "the [file_path] of [10000] or [10,000].",
            ),
            ("path", "src/memoryPath.rs", "src/[memoryPath].rs"),
            ("cafe", "Le cafe\u{301} noir", "Le [cafe\u{301}] noir"),
            ("公园", "我今天去公园散步", "我今天去[公园]散步"),
            ("本", "読む 🉀 今日", "読む [🉀] 今日"),
            ("猫", "川のほとりに猫がいる", "川のほとりに[猫]がいる"),
            ("がく", "か\u{3099}くせい", "[か\u{3099}く]せい"),
            ("แมว", "ฉันมีแมวดำ", "ฉันมี[แมว]ดำ"),
            ("защита", "Без защиты нельзя", "Без [защиты] нельзя"),
            ("कुत्ता", "मेरा कुत्ता, है", "मेरा [कुत्ता], है"),
            ("silt", "nothing here", "nothing here"),
        ] {
            assert_eq!(marked(&Asked::of(query), text), expected, "{query}");
        }
    }

    #[test]
    fn a_text_is_read_in_its_language() {
        let asked = Asked::new([hash("haus")].into(), "de".parse().unwrap());
        assert_eq!(marked(&asked, "Häuser"), "[Häuser]");
        let asked = Asked::new([hash("haus")].into(), "en".parse().unwrap());
        assert_eq!(marked(&asked, "Häuser"), "Häuser");
    }

    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            3 => "[a-z]{1,6}[ .,_'-]{0,2}",
            2 => "[我的公园猫がか\u{3099}한\u{1112}\u{1161}\u{11AB}แมวดำ่ปี ]{1,6}",
            2 => "(🇩🇪|👩‍👩‍👧|e\u{301}\u{302}|क्षि|👍🏽|\r\n|\u{200d}|\u{fe0f}){1,3}",
            1 => "\\PC{0,6}",
        ]
    }

    proptest! {
        #[test]
        fn parts_and_marks_halve_no_grapheme(
            texts in prop::collection::vec(piece(), 0..30), from in 0_usize..30, size in 0_usize..80,
        ) {
            let text = texts.concat();
            let asked = Asked::of(texts.get(from).map_or("silt", |query| query));
            let part = asked.best_part(&text, size);
            prop_assert!(part.len() <= size);
            prop_assert!(is_boundary(&text, part.start) && is_boundary(&text, part.end));
            let mut at = part.start;
            for mark in asked.marks(&text, part.clone()) {
                prop_assert!(mark.start >= at && mark.start < mark.end && mark.end <= part.end);
                prop_assert!(is_boundary(&text, mark.start) && is_boundary(&text, mark.end));
                at = mark.end + 1;
            }
        }

        #[test]
        fn what_has_a_term_of_the_query_has_a_mark(texts in prop::collection::vec(piece(), 1..12), at in 0_usize..12) {
            let text = texts.join(" ");
            let query = &texts[at % texts.len()];
            let asked = Asked::of(query);
            if !asked.terms().is_empty() {
                prop_assert!(!asked.marks(&text, 0..text.len()).is_empty(), "{query:?} {text:?}");
            }
        }
    }

    #[test]
    fn a_text_that_fits_is_all_of_it() {
        assert_eq!(best_window("one two", "two", 7), 0..7);
        assert_eq!(best_window("", "two", 0), 0..0);
    }

    #[test]
    fn without_a_match_it_is_the_beginning() {
        assert_eq!(best_window("one two three four", "zebra", 8), 0..7);
    }

    #[test]
    fn the_rarer_term_of_a_text_decides() {
        let text = "pump one. pump two. pump three. pump four. the needle is here. pump five.";
        let window = best_window(text, "pump needle", 24);
        assert!(text[window].contains("needle"));
    }

    #[test]
    fn a_text_without_white_space_is_cut_between_code_points() {
        let text = format!("{}关键的密码是七{}", "山".repeat(200), "水".repeat(200));
        let window = best_window(&text, "密码", 60);
        assert!(window.len() <= 60);
        assert!(text[window].contains("密码"));
    }

    proptest! {
        #[test]
        fn a_window_holds_its_size_and_lies_between_code_points(
            text in "\\PC{0,200}", query in "\\PC{0,20}", size in 0_usize..300,
        ) {
            let window = best_window(&text, &query, size);
            prop_assert!(window.len() <= size);
            prop_assert!(text.get(window).is_some());
        }

        #[test]
        fn a_word_of_the_query_is_in_the_window_wherever_it_stands(
            before in 0_usize..60, after in 0_usize..60,
        ) {
            let text = format!("{}needle{}", "hay ".repeat(before), " hay".repeat(after));
            let window = best_window(&text, "the needles", 20);
            prop_assert!(text[window].contains("needle"));
        }
    }

    #[test]
    fn the_nearest_places_on_both_sides_halve_no_grapheme() {
        for whole in [
            "e\u{301}\u{302}",
            "🇩🇪",
            "👩‍👩‍👧",
            "👍🏽",
            "각",
            "\u{1100}\u{1161}\u{11A8}",
            "\r\n",
        ] {
            let text = format!("a{whole}b");
            for at in 0..=text.len() {
                let inside = at > 1 && at < 1 + whole.len();
                assert_eq!(
                    floor(&text, at),
                    if inside { 1 } else { at },
                    "{whole:?} {at}"
                );
                let end = 1 + whole.len();
                assert_eq!(
                    ceil(&text, at),
                    if inside { end } else { at },
                    "{whole:?} {at}"
                );
            }
            assert_eq!(floor(&text, usize::MAX), text.len());
        }
    }
}
