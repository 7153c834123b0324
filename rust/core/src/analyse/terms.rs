//! Turns a text into its terms: its content words in their normal forms.

use super::analyser::with_kept;
use super::function_words::says_nothing;
use super::language::{Language, Languages};
use super::normal::Normalizer;
use super::stop::{is_stop_word, is_stop_word_of_script};
use super::words::{Says, Scanner};

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
    pub is_silent: bool,
}

/// For each word of a query, in order, its terms in English and in each of `languages`.
///
/// Words that are stop words in all of the languages are left out, unless the query has nothing else.
#[must_use]
pub fn alternatives(text: &str, languages: Languages) -> Vec<Alternatives> {
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
pub fn with_sorted_terms<T>(text: &str, read: impl FnOnce(&[u64]) -> T) -> T {
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
