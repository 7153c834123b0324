//! The fast analyser: it turns a text into the hashes of its terms, cluster by cluster, with a memo of known words.
//!
//! The rules are those of `for_each_term_in`, the simple implementation; a property test compares the two.

use std::cell::Cell;
use std::mem;

use parking_lot::{Mutex, const_mutex};

use super::clusters::for_each_cluster;
use super::corrections::for_each_grouped;
use super::fields::{self, has_character, passages};
use super::language_choice::{Language, LanguageChoice, language_in};
use super::normal::hash;
use super::terms::{AT_ONCE, Cluster, Found, Inside, Reader};

/// The buffers of texts up to so many bytes are kept for the next text.
const USUAL: usize = 1 << 20;

thread_local! {
    /// The analyser that the thread keeps between texts.
    static KEPT: Kept = const { Kept(Cell::new(None)) };
}

/// Analysers of threads that ended, for new threads: it takes some hundred texts to fill a memo.
static LEFT: Mutex<Vec<Analyser>> = const_mutex(Vec::new());

/// The most analysers in `LEFT`.
const MOST_LEFT: usize = 8;

/// The analyser of a thread; it goes to `LEFT` when the thread ends.
struct Kept(Cell<Option<Box<Analyser>>>);

impl Drop for Kept {
    fn drop(&mut self) {
        // `try_lock`, since the lock may be held forever in a process that was forked.
        if let (Some(analyser), Some(mut left)) = (self.0.take(), LEFT.try_lock())
            && left.len() < MOST_LEFT
        {
            left.push(*analyser);
        }
    }
}

/// Calls `work` with the analyser of this thread.
pub(super) fn with_kept<T>(work: impl FnOnce(&mut Analyser) -> T) -> T {
    // The analyser is taken out of the cell: a panic does not leave a half-filled one behind, and `work` may
    // analyse other texts itself.
    let kept = KEPT.try_with(|kept| kept.0.take()).ok().flatten();
    let left = || {
        LEFT.try_lock()
            .and_then(|mut left| left.pop().map(Box::new))
    };
    let mut analyser = kept.or_else(left).unwrap_or_default();
    let made = work(&mut analyser);
    // A thread that is ending keeps none.
    let _ = KEPT.try_with(|kept| kept.0.set(Some(analyser)));
    made
}

/// Finds terms, and keeps its buffers and its memo from one text to the next.
#[derive(Default)]
pub(super) struct Analyser {
    /// One reader for each language that was met.
    readers: Vec<Reader>,
    /// Buffers, kept for their capacity: the terms of the current text, its characters inside of words, the terms
    /// of the name and the date, and the terms of a passage.
    text: Vec<u64>,
    inside: Vec<Inside>,
    beside: Vec<u64>,
    passage: Vec<u64>,
    /// The terms of numbers in groups, with the places behind them.
    grouped: Vec<(usize, u64)>,
    /// The terms of the last date.
    date: Option<Date>,
}

/// A day, counted from 1970-01-01, and the terms of its date.
struct Date {
    day: i64,
    terms: Vec<u64>,
}

impl Analyser {
    /// The hashes of the terms of `text`, read as English, in order.
    pub(super) fn read_all(&mut self, text: &str) -> Vec<u64> {
        let mut terms = Vec::new();
        self.read(text, &mut terms);
        self.shrink_after(text);
        terms
    }

    /// Adds the hashes of the terms of `text` to `terms`, in order, and those of the characters inside of its words
    /// to `inside`. The text is read in its own language, one of `choice`; the language is returned.
    pub(super) fn read_own(
        &mut self,
        text: &str,
        choice: LanguageChoice,
        terms: &mut Vec<u64>,
        inside: &mut Vec<Inside>,
    ) -> Language {
        let (before, inside_before) = (terms.len(), inside.len());
        self.grouped.clear();
        for_each_grouped(text, |end, word| self.grouped.push((end, hash(word))));
        let is_english = choice.usual() == Language::English;
        let mut language = if is_english {
            Language::English
        } else {
            language_in(text, choice)
        };
        let may_be_other = self.find(language, text, Found::new(terms, Some(inside), false));
        if is_english && may_be_other {
            language = language_in(text, choice);
            if language != Language::English {
                terms.truncate(before);
                inside.truncate(inside_before);
                self.find(language, text, Found::new(terms, Some(inside), false));
            }
        }
        if terms.len() == before {
            inside.truncate(inside_before);
            self.find(language, text, Found::new(terms, Some(inside), true));
        }
        self.shrink_after(text);
        language
    }

    /// Calls `read` with the hashes of the terms of `text`, in ascending order.
    pub(super) fn with_sorted<T>(&mut self, text: &str, read: impl FnOnce(&[u64]) -> T) -> T {
        let mut terms = mem::take(&mut self.text);
        terms.clear();
        self.read(text, &mut terms);
        terms.sort_unstable();
        let made = read(&terms);
        self.text = terms;
        self.shrink_after(text);
        made
    }

    /// Calls `visit` for each passage of a text, with its terms in ascending order, the number of terms that are
    /// words, and the language, which is one of `choice`. The terms are those of the text, of the name, of the date
    /// of `created_at` (milliseconds since 1970), and the characters inside of words.
    pub(super) fn for_each_passage(
        &mut self,
        text: &str,
        name: Option<&str>,
        created_at: i64,
        choice: LanguageChoice,
        mut visit: impl FnMut(&[u64], usize, Language),
    ) {
        let (mut terms, mut beside) = (mem::take(&mut self.text), mem::take(&mut self.beside));
        let mut inside = mem::take(&mut self.inside);
        terms.clear();
        beside.clear();
        inside.clear();
        let language = self.read_own(text, choice, &mut terms, &mut inside);
        if let Some(name) = name {
            self.read(name, &mut beside);
        }
        beside.extend_from_slice(self.date(created_at));
        for passage in passages(terms.len()) {
            self.passage.clear();
            self.passage.extend_from_slice(&terms[passage.clone()]);
            self.passage.extend_from_slice(&beside);
            let words = self.passage.len();
            let in_passage =
                |&(at, term): &Inside| has_character(&passage, at, terms.len()).then_some(term);
            self.passage.extend(inside.iter().filter_map(in_passage));
            self.passage.sort_unstable();
            visit(&self.passage, words, language);
        }
        (self.text, self.beside, self.inside) = (terms, beside, inside);
        self.shrink_after(text);
    }

    /// The terms of a date. The last date is kept, since entries come day by day.
    fn date(&mut self, milliseconds: i64) -> &[u64] {
        let day = fields::day(milliseconds);
        let known = self.date.take().filter(|date| date.day == day);
        let date = known.unwrap_or_else(|| {
            let mut terms = Vec::new();
            for word in fields::words(milliseconds) {
                self.read(&word, &mut terms);
            }
            Date { day, terms }
        });
        &self.date.insert(date).terms
    }

    fn read(&mut self, text: &str, terms: &mut Vec<u64>) {
        let before = terms.len();
        self.find(Language::English, text, Found::new(terms, None, false));
        if terms.len() == before {
            // A text of function words alone has these as terms.
            self.find(Language::English, text, Found::new(terms, None, true));
        }
    }

    /// Frees the buffers after an unusually long text.
    fn shrink_after(&mut self, text: &str) {
        if text.len() > USUAL {
            self.readers.iter_mut().for_each(Reader::shrink);
            (self.inside, self.grouped) = (Vec::new(), Vec::new());
            for terms in [&mut self.text, &mut self.beside, &mut self.passage] {
                *terms = Vec::new();
            }
        }
    }

    /// The place of the reader of a language.
    fn reader(&mut self, language: Language) -> usize {
        let known = self
            .readers
            .iter()
            .position(|each| each.language() == language);
        known.unwrap_or_else(|| {
            self.readers.push(Reader::of(language));
            self.readers.len() - 1
        })
    }

    /// Whether the text may be of another language than English.
    fn find(&mut self, language: Language, text: &str, mut found: Found<'_>) -> bool {
        let place = self.reader(language);
        let reader = &mut self.readers[place];
        let (mut batch, mut count) = ([Cluster::default(); AT_ONCE], 0);
        let mut grouped = if found.has_inside() {
            &self.grouped[..]
        } else {
            &[]
        };
        for_each_cluster(text, |range| {
            while let Some((&(end, term), rest)) = grouped.split_first()
                && end <= range.start
            {
                reader.look_up(text, &batch[..count], &mut found);
                found.push_inside(term);
                (grouped, count) = (rest, 0);
            }
            batch[count % AT_ONCE] = Cluster::of(text, range);
            count += 1;
            if count == AT_ONCE {
                reader.look_up(text, &batch, &mut found);
                count = 0;
            }
        });
        reader.look_up(text, &batch[..count], &mut found);
        for &(_, term) in grouped {
            found.push_inside(term);
        }
        found.flush();
        found.may_be_foreign()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analyse::{for_each_term_in, hash};

    fn plainly(text: &str) -> Vec<u64> {
        let mut found = Vec::new();
        for_each_term_in(text, Language::English, |term| found.push(hash(term)));
        found
    }

    fn plainly_own(text: &str, choice: LanguageChoice) -> Vec<u64> {
        let mut found = Vec::new();
        for_each_term_in(text, language_in(text, choice), |term| {
            found.push(hash(term));
        });
        found
    }

    fn quickly_own(analyser: &mut Analyser, text: &str, choice: LanguageChoice) -> Vec<u64> {
        let mut found = Vec::new();
        let language = analyser.read_own(text, choice, &mut found, &mut Vec::new());
        assert_eq!(language, language_in(text, choice));
        found
    }

    fn quickly(analyser: &mut Analyser, text: &str) -> Vec<u64> {
        let mut found = Vec::new();
        analyser.read(text, &mut found);
        found
    }

    /// Once with words that are read, and once with those that are remembered.
    fn check(analyser: &mut Analyser, text: &str) {
        let expected = plainly(text);
        for _ in 0..2 {
            assert_eq!(quickly(analyser, text), expected, "{text:?}");
        }
        for choice in ["auto", "de", "tr,en", "fr,de,it"] {
            let choice = choice.parse().unwrap();
            let own = plainly_own(text, choice);
            for _ in 0..2 {
                let found = quickly_own(analyser, text, choice);
                assert_eq!(found, own, "{choice} {text:?}");
            }
        }
    }

    #[test]
    fn words_have_their_terms_whatever_came_before() {
        let mut analyser = Analyser::default();
        for round in 0..3_u32 {
            for number in 0..20_000_u32 {
                let number = number * 7 % (17_000 + round);
                let text = format!("walking{number}ed the paintings of_mud{number} Ann's");
                assert_eq!(quickly(&mut analyser, &text), plainly(&text), "{text:?}");
            }
        }
    }

    #[test]
    fn a_text_that_is_read_again_has_the_same_terms_and_names() {
        let mut analyser = Analyser::default();
        for text in [
            "silt A_ A's",
            "silt Who_ Will it's I'm",
            "silt The A. a_ It-",
        ] {
            let mut read = || {
                let (mut terms, mut inside) = (Vec::new(), Vec::new());
                analyser.read_own(text, LanguageChoice::AUTO, &mut terms, &mut inside);
                (terms, inside)
            };
            assert_eq!(read(), read(), "{text}");
        }
    }

    #[test]
    fn an_analyser_may_be_asked_while_it_works() {
        let inner = with_kept(|_| with_kept(|analyser| quickly(analyser, "silt")));
        assert_eq!(inner, plainly("silt"));
    }

    #[test]
    fn threads_that_begin_go_on_where_others_ended() {
        for _ in 0..3 {
            let text = "The silt of Ann's delta, in_progress";
            let threads: Vec<_> = (0..2 * MOST_LEFT)
                .map(|_| std::thread::spawn(move || with_kept(|analyser| quickly(analyser, text))))
                .collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), plainly(text));
            }
        }
    }

    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "[ -~\\t\\n\\x00\\x1c\\x7f]{0,60}",
            4 => "(what|the|it|Silt|ANN|walking|parseHTTP|v1|2|10|000|of){1,3}[-_'’.,/ ]{0,2}",
            3 => "[aAbBsSvV0195'’ʼ_.,é\u{301}\u{3099}かが漢字한ﬁＡ\u{FF0E}\u{A0}\u{3000} -]{0,30}",
            2 => "\\PC{0,12}",
            1 => "[我的们公园了silt]{1,12}",
            1 => "[แมวดำ่ปี๒ខ្ម་བོAa1’_. -]{1,14}",
            2 => "(der |und |dell'|de la |Häuser |ırmağın |l'eau |ve bir |cinq ){1,4}",
            1 => "(habe |haben |alle |avaient |stata |vardı ){1,3}",
            2 => "(защиты|й|Ёлки|ΟΜΆΔΕΣ|πόντους|والكتاب|الدوري|खिलाड़ियों|किया|ту){1,2}[-’ 1a]{0,2}",
        ]
    }

    proptest! {
        #[test]
        fn the_quick_way_finds_what_the_plain_way_finds(
            texts in prop::collection::vec(prop::collection::vec(piece(), 0..12), 1..4),
        ) {
            let mut analyser = Analyser::default();
            for pieces in &texts {
                check(&mut analyser, &pieces.concat());
                check(&mut analyser, &pieces.join(" "));
            }
        }
    }
}
