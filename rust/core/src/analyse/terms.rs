//! Turns a text into its terms: its content words in their normal forms.

use std::ops::Range;

use super::analyser::with_kept;
use super::language_choice::{Language, Languages, is_certain};
use super::memo::{Flags, Memo, SHORT, TERMS, Told, is_plain_word, long_key, short_key};
use super::normal::{Normalizer, hash};
use super::stop_words::{
    is_english_stop_word, is_stop_word, is_stop_word_of_script, says_nothing, votes,
};
use super::words::{Says, Scanner, is_name, short_hash};

/// Calls `visit` with each term of `text`, read in that language, in order.
///
/// Stop words and grammatical characters of Chinese are left out, unless the text has nothing else.
///
/// ```
/// use siltstone_core::analyse::{Language, for_each_term_in};
///
/// let mut found = Vec::new();
/// let text = "What did the children's mothers paint?";
/// for_each_term_in(text, Language::English, |term| found.push(term.to_owned()));
/// assert_eq!(found, ["child", "mom", "paint"]); // `mother` and `mom` are one
/// ```
pub fn for_each_term_in(text: &str, language: Language, mut visit: impl FnMut(&str)) {
    let normalizer = Normalizer::of(language);
    for_each_word(text, language, |word| visit(&normalizer.normal(word)));
}

/// The terms of a query's word where texts are in several languages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternatives {
    /// The English term first, then those of the other languages in their order; each once. There is at least one.
    pub terms: Vec<String>,
    /// Whether the word is a stop word in one of the languages.
    pub(crate) is_silent: bool,
}

/// For each word of a query, in order, its terms in English and in each of `languages`.
///
/// Words that are stop words in all of the languages are left out, unless the query has nothing else.
#[must_use]
pub(crate) fn alternatives(text: &str, languages: Languages) -> Vec<Alternatives> {
    let every: Vec<Language> = languages.with_english().collect();
    let normalizers: Vec<Normalizer> = every.iter().copied().map(Normalizer::of).collect();
    let of = |word: &str, says: &dyn Fn(Language) -> bool| {
        let mut found = Alternatives {
            terms: Vec::with_capacity(every.len()),
            is_silent: false,
        };
        for (&language, normalizer) in every.iter().zip(&normalizers) {
            if !says(language) {
                found.is_silent = true;
                continue;
            }
            let term = normalizer.normal(word);
            if found.terms.iter().all(|known| **known != *term) {
                found.terms.push(term.into_owned());
            }
        }
        found
    };
    let mut found = Vec::new();
    let mut scanner = Scanner::default();
    for piece in text.split_whitespace() {
        scanner.for_each_word(piece, &mut |word, says| {
            // An English stop word may be a content word in another language; grammatical characters of Chinese are
            // not.
            let is_silent = says == Says::Nothing && !is_stop_word(word);
            let is_of_script = is_stop_word_of_script(word);
            let says_in = |each: Language| !is_silent && !is_of_script && !says_nothing(each, word);
            if says != Says::Inside {
                found.push((of(word, &says_in), of(word, &|_| true)));
            }
        });
    }
    let says_something = found.iter().any(|(own, _)| !own.terms.is_empty());
    let chosen = found
        .into_iter()
        .map(|(own, all)| if says_something { own } else { all });
    chosen.filter(|each| !each.terms.is_empty()).collect()
}

/// The hashes of the terms of `text`, read as English, in order.
#[must_use]
pub fn terms(text: &str) -> Vec<u64> {
    with_kept(|analyser| analyser.read_all(text))
}

/// Calls `read` with the hashes of the terms of `text`, in ascending order: for callers that count them.
pub(crate) fn with_sorted_terms<T>(text: &str, read: impl FnOnce(&[u64]) -> T) -> T {
    with_kept(|analyser| analyser.with_sorted(text, read))
}

/// Calls `visit` with each content word of `text`, in order; with every word if it has no content words.
pub(super) fn for_each_word(text: &str, language: Language, mut visit: impl FnMut(&str)) {
    let mut scanner = Scanner::of(language);
    let says_something = text.split_whitespace().any(|piece| {
        let mut found = false;
        scanner.for_each_word(piece, &mut |_, says| found |= says == Says::Something);
        found
    });
    for piece in text.split_whitespace() {
        scanner.for_each_word(piece, &mut |word, says| match says {
            Says::Something => visit(word),
            Says::Nothing if !says_something => visit(word),
            Says::Nothing | Says::Inside => {}
        });
    }
}

// Turns the clusters of a text into terms: by the memo, and for unknown clusters by the rules.

/// The number of clusters that are looked up together, and of terms that are handed on together.
pub(super) const AT_ONCE: usize = 32;

/// A cluster to be looked up.
#[derive(Clone, Copy, Default)]
pub(super) struct Cluster {
    key: [u64; 2],
    start: usize,
    end: usize,
}

impl Cluster {
    /// The cluster in this range of `text`.
    #[inline]
    pub(super) fn of(text: &str, Range { start, end }: Range<usize>) -> Self {
        let key = short_key(text.as_bytes(), start, end);
        Self { key, start, end }
    }
}

/// Looks clusters up in the memo, and reads unknown ones by the rules.
pub(super) struct Reader {
    language: Language,
    memo: Memo,
    scanner: Scanner,
    terms: Terms,
}

impl Reader {
    /// A reader for texts in a language.
    pub(super) fn of(language: Language) -> Self {
        Self {
            language,
            memo: Memo::default(),
            scanner: Scanner::of(language),
            terms: Terms::of(language),
        }
    }

    pub(super) fn language(&self) -> Language {
        self.language
    }

    /// Frees the buffers after an unusually long cluster.
    pub(super) fn shrink(&mut self) {
        self.scanner = Scanner::of(self.language);
    }

    /// Finds the terms of at most [`AT_ONCE`] clusters, in order.
    #[inline(never)]
    pub(super) fn look_up(&mut self, text: &str, clusters: &[Cluster], found: &mut Found<'_>) {
        let mut told = [Told::default(); AT_ONCE];
        let keys = clusters.iter().map(|cluster| cluster.key);
        let known = self.memo.words(keys, &mut told);
        for ((cluster, &told), bit) in clusters.iter().zip(&told).zip(0..) {
            if known >> bit & 1 == 1 {
                found.push_word(told, self.language, &text[cluster.start..cluster.end]);
            } else {
                self.learn(text, cluster, found);
            }
        }
    }

    /// Finds the terms of a cluster that is not in the table of single terms.
    #[inline(never)]
    fn learn(&mut self, text: &str, cluster: &Cluster, found: &mut Found<'_>) {
        let Cluster { key, start, end } = *cluster;
        if is_plain_word(&text[start..end]) && short_hash(&text[start..end]).is_none() {
            // It may have been stored since the batch was looked up.
            let known = self.memo.word(key);
            let told = || self.terms.told(&mut self.memo, key, &text[start..end]);
            let told = known.unwrap_or_else(told);
            found.push_word(told, self.language, &text[start..end]);
            return;
        }
        let long = long_key(text.as_bytes(), start, end);
        if let Some(known) = long.and_then(|long| self.memo.compound(long)) {
            known.for_each(|told| found.push(told));
            return;
        }
        // Room for one term more than is remembered, to see that there are too many.
        let (mut terms, mut count) = ([Told::default(); TERMS + 1], 0);
        self.read(&text[start..end], |told| {
            terms[count.min(TERMS)] = told;
            count += 1;
            found.push(told);
        });
        match (&terms[..count.min(TERMS + 1)], long) {
            (&[told], _) if end - start <= SHORT => self.memo.keep_word(key, told),
            (terms, Some(long)) => self.memo.keep_compound(long, terms),
            _ => {}
        }
    }

    /// Calls `visit` with the terms of a cluster, in order.
    fn read(&mut self, cluster: &str, mut visit: impl FnMut(Told)) {
        let Self {
            memo,
            scanner,
            terms,
            ..
        } = self;
        // The cluster may contain white space outside of ASCII.
        for piece in cluster.split_whitespace() {
            scanner.for_each_word(piece, &mut |word, says| {
                visit(Told {
                    term: terms.term(memo, word),
                    flags: flags(word, says),
                });
            });
        }
    }
}

/// Turns words into terms by the rules.
struct Terms {
    language: Language,
    normalizer: Normalizer,
    /// A buffer for a word in lower case.
    lower: String,
}

impl Terms {
    fn of(language: Language) -> Self {
        Self {
            language,
            normalizer: Normalizer::of(language),
            lower: String::new(),
        }
    }

    /// The term of a word in lower case.
    fn term(&mut self, memo: &mut Memo, word: &str) -> u64 {
        // Words with other letters are remembered only as part of their cluster.
        if word.len() > SHORT || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return hash(&self.normalizer.normal(word));
        }
        let key = short_key(word.as_bytes(), 0, word.len());
        let known = memo.word(key);
        known.unwrap_or_else(|| self.told(memo, key, word)).term
    }

    /// The term of a plain word that the memo does not have, by the rules.
    fn told(&mut self, memo: &mut Memo, key: [u64; 2], word: &str) -> Told {
        self.lower.clear();
        self.lower.push_str(word);
        self.lower.make_ascii_lowercase();
        let says = if says_nothing(self.language, &self.lower) {
            Says::Nothing
        } else {
            Says::Something
        };
        let told = Told {
            term: hash(&self.normalizer.normal(&self.lower)),
            flags: flags(&self.lower, says),
        };
        memo.keep_word(key, told);
        told
    }
}

/// The properties of a word, as the memo stores them.
fn flags(word: &str, says: Says) -> Flags {
    Flags(match says {
        Says::Inside => Flags::INSIDE,
        says => {
            let bit = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
            bit(says == Says::Something, Flags::SAYS)
                | bit(is_english_stop_word(word), Flags::ENGLISH)
                | bit(votes(word) != 0, Flags::FOREIGN)
        }
    })
}

/// A character inside of a run of CJK: the number of terms before it, and its own term.
pub(super) type Inside = (usize, u64);

/// The terms that were found: only content words, or all words.
pub(super) struct Found<'a> {
    terms: &'a mut Vec<u64>,
    /// Characters inside of words, if the caller wants them.
    inside: Option<&'a mut Vec<Inside>>,
    /// The number of terms in `terms` at the start.
    before: usize,
    all: bool,
    newest: [u64; AT_ONCE],
    count: usize,
    words: usize,
    english: usize,
    foreign: usize,
}

impl<'a> Found<'a> {
    pub(super) fn new(
        terms: &'a mut Vec<u64>,
        inside: Option<&'a mut Vec<Inside>>,
        all: bool,
    ) -> Self {
        Self {
            before: terms.len(),
            terms,
            inside,
            all,
            newest: [0; AT_ONCE],
            count: 0,
            words: 0,
            english: 0,
            foreign: 0,
        }
    }

    /// Adds a term. It is always written, and only counted if it is wanted: a branch here could not be predicted.
    #[inline]
    fn push(&mut self, told: Told) {
        let flags = told.flags.0;
        if flags & Flags::INSIDE != 0 {
            return self.push_inside(told.term);
        }
        self.words += 1;
        self.english += usize::from(flags & Flags::ENGLISH != 0);
        self.foreign += usize::from(flags & Flags::FOREIGN != 0);
        self.newest[self.count % AT_ONCE] = told.term;
        self.count += usize::from((flags & Flags::SAYS != 0) | self.all);
        if self.count == AT_ONCE {
            self.flush();
        }
    }

    /// Adds the term of a cluster that is one word, and of a name among the stop words.
    #[inline]
    fn push_word(&mut self, told: Told, language: Language, word: &str) {
        self.push(told);
        let is_silent = told.flags.0 & (Flags::SAYS | Flags::INSIDE) == 0;
        if is_silent && is_name(language, word) && is_plain_word(word) {
            self.push_inside(told.term);
        }
    }

    /// Whether the caller wants what is found beside words.
    pub(super) fn has_inside(&self) -> bool {
        self.inside.is_some()
    }

    #[cold]
    pub(super) fn push_inside(&mut self, term: u64) {
        let at = self.terms.len() - self.before + self.count;
        if let Some(inside) = &mut self.inside {
            inside.push((at, term));
        }
    }

    #[inline(never)]
    pub(super) fn flush(&mut self) {
        self.terms.extend_from_slice(&self.newest[..self.count]);
        self.count = 0;
    }

    /// Whether the text may be of another language than English.
    pub(super) fn may_be_foreign(&self) -> bool {
        is_certain(self.foreign, self.english, self.words)
    }
}
