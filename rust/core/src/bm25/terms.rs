//! The terms of a passage and of a query, as BM25 counts them.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::analyse::{self, Language, Languages};
use crate::tokenize::words::for_each_word;

/// A passage as BM25 sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Each term and how often it occurs (`tf`).
    pub(super) terms: Vec<(u64, u32)>,
    /// How many terms there are (`dl`).
    pub(super) length: u64,
    /// The language of the text.
    pub(super) language: Language,
}

impl Document {
    /// The terms of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        analyse::with_sorted_terms(text, Self::of_sorted)
    }

    /// A passage of these hashes of terms, in ascending order, with repeated ones side by side.
    #[must_use]
    fn of_sorted(terms: &[u64]) -> Self {
        Self::of_text(terms, terms.len(), Language::English)
    }

    /// A passage in a given language. `words` of the terms count for the length of the text; the others can be
    /// found, but do not make the text longer.
    #[must_use]
    pub(crate) fn of_text(terms: &[u64], words: usize, language: Language) -> Self {
        debug_assert!(terms.is_sorted(), "terms ascend");
        Self {
            length: words as u64,
            terms: count(terms, |term, tf| (term, tf)),
            language,
        }
    }
}

impl From<Vec<u64>> for Document {
    fn from(mut terms: Vec<u64>) -> Self {
        terms.sort_unstable();
        Self::of_sorted(&terms)
    }
}

/// Calls `make` with each different term and its count, for terms in ascending order.
fn count<T>(sorted: &[u64], make: impl Fn(u64, u32) -> T) -> Vec<T> {
    let mut counted = Vec::with_capacity(sorted.len());
    let runs = sorted.chunk_by(|one, other| one == other);
    counted.extend(runs.map(|run| make(run[0], u32::try_from(run.len()).unwrap_or(u32::MAX))));
    counted
}

/// A term of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryTerm {
    /// Its hash.
    pub hash: u64,
    /// How often the query has it (`qtf`).
    pub count: u32,
    /// Whether it replaces a misspelt word of the query, which no entry has.
    pub(crate) is_near: bool,
    /// Whether it is an alternative, in another language, to another term for the same word. It does not raise the
    /// ceiling.
    pub(crate) is_spare: bool,
    /// Whether it only says that something is asked.
    pub(crate) is_asking: bool,
}

impl QueryTerm {
    fn of(hash: u64, count: u32) -> Self {
        Self {
            hash,
            count,
            is_near: false,
            is_spare: false,
            is_asking: false,
        }
    }
}

/// A term that replaces a word that no entry has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Correction {
    /// The hash of the unknown word, and the word itself.
    pub(super) unknown: u64,
    pub(super) word: String,
    /// The hash of the term that replaces it, and the term itself.
    pub(super) hash: u64,
    pub(super) normal: String,
}

/// A query: its terms in ascending order of hash, which is the order of every sum over them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub(super) terms: Vec<QueryTerm>,
    /// The text of the query: the words of its terms are looked up there when they are asked for.
    text: String,
    /// The languages of the entries that it is compared with, except English.
    languages: Languages,
    corrections: Vec<Correction>,
    looked_for: LookedFor,
}

/// The terms that the query's last search looked for. They are not part of the query.
#[derive(Debug, Default)]
struct LookedFor(Mutex<Option<Arc<[u64]>>>);

impl Clone for LookedFor {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for LookedFor {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LookedFor {}

impl Query {
    /// Notes the terms of `found`, a query made from this one, as the terms of the last search.
    pub(super) fn note(&self, found: &Self) {
        *self.looked_for.0.lock() = Some(found.hashes());
    }

    /// The terms that the last search looked for, in ascending order, each once: with those of other languages and
    /// of corrections. Before any search, its own terms.
    #[must_use]
    pub(crate) fn looked_for(&self) -> Arc<[u64]> {
        let known = self.looked_for.0.lock().clone();
        known.unwrap_or_else(|| self.hashes())
    }

    /// The number of its words, each as often as it stands there.
    pub(crate) fn size(&self) -> usize {
        let mut words = 0;
        for_each_word(&self.text, |_| words += 1);
        words
    }

    fn hashes(&self) -> Arc<[u64]> {
        self.terms.iter().map(|term| term.hash).collect()
    }

    /// Its terms, in ascending order of hash.
    pub(super) fn terms(&self) -> &[QueryTerm] {
        &self.terms
    }

    /// The terms of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let query = Self {
            terms: analyse::with_sorted_terms(text, |terms| count(terms, QueryTerm::of)),
            text: text.to_owned(),
            ..Self::default()
        };
        query.with_grouped()
    }

    /// The same with its numbers in groups as one word, too.
    fn with_grouped(mut self) -> Self {
        let terms = &mut self.terms;
        analyse::for_each_grouped(&self.text, |_, number| {
            let spare = QueryTerm {
                is_spare: true,
                ..QueryTerm::of(analyse::hash(number), 1)
            };
            if let Err(place) = terms.binary_search_by_key(&spare.hash, |term| term.hash) {
                terms.insert(place, spare);
            }
        });
        self.with_asking()
    }

    /// The same, where it is known which terms only say that something is asked.
    fn with_asking(mut self) -> Self {
        let is_asking = |term: &QueryTerm| analyse::is_asking(term.hash);
        if self.terms.iter().any(is_asking) && analyse::language_of(&self.text) == Language::English
        {
            for term in &mut self.terms {
                term.is_asking = is_asking(term);
            }
        }
        self
    }

    /// The same query for entries in these languages as well. `df` returns how many passages have each of the given
    /// terms, which ascend.
    ///
    /// Each language may turn a word into a different term. All terms of the word that entries have are kept. Of
    /// these the most frequent one counts for the ceiling, the first of equally frequent ones; the others are
    /// spare, unless another word needs them. A word that no entry has is left out if a language takes it for a
    /// function word.
    pub(super) fn in_languages(
        &self,
        languages: Languages,
        df: impl FnOnce(&Self) -> Vec<usize>,
    ) -> Self {
        let words = analyse::alternatives(&self.text, languages);
        let hashes = |terms: &[String]| -> Vec<u64> {
            terms.iter().map(|term| analyse::hash(term)).collect()
        };
        let words: Vec<(Vec<u64>, bool)> = words
            .iter()
            .map(|word| (hashes(&word.terms), word.is_silent))
            .collect();
        let mut every: Vec<u64> = words.iter().flat_map(|(terms, _)| terms).copied().collect();
        every.sort_unstable();
        every.dedup();
        let df = df(&Self::of_hashes(every.iter().copied()));
        let df = |term: &u64| every.binary_search(term).map_or(0, |place| df[place]);
        let (mut kept, mut needed) = (Vec::new(), Vec::new());
        for (terms, is_silent) in &words {
            let before = kept.len();
            kept.extend(terms.iter().copied().filter(|term| df(term) > 0));
            let best = kept[before..].iter().rev().copied().max_by_key(df);
            let chosen = best.or_else(|| terms.first().copied().filter(|_| !is_silent));
            if kept.len() == before {
                kept.extend(chosen);
            }
            needed.extend(chosen);
        }
        if kept.is_empty() {
            kept.extend(words.iter().filter_map(|(terms, _)| terms.first()));
            needed.clone_from(&kept);
        }
        kept.sort_unstable();
        let term = |hash, count| QueryTerm {
            is_spare: !needed.contains(&hash),
            ..QueryTerm::of(hash, count)
        };
        let query = Self {
            terms: count(&kept, term),
            text: self.text.clone(),
            languages,
            corrections: Vec::new(),
            looked_for: LookedFor::default(),
        };
        query.with_grouped()
    }

    /// Whether it has a term that only says that something is asked.
    pub(super) fn only_asks(&self, hash: u64) -> bool {
        self.terms
            .iter()
            .any(|term| term.hash == hash && term.is_asking)
    }

    /// A query of hashes alone, which must ascend.
    pub(super) fn of_hashes(hashes: impl Iterator<Item = u64>) -> Self {
        Self {
            terms: hashes.map(|hash| QueryTerm::of(hash, 1)).collect(),
            ..Self::default()
        }
    }

    /// The text of the query.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The languages of the entries that it is compared with, except English.
    pub(super) fn languages(&self) -> Languages {
        self.languages
    }

    /// The same query with terms replaced; the query must not have the new terms yet.
    pub(super) fn corrected(&self, corrections: Vec<Correction>) -> Self {
        let mut corrected = Self {
            corrections,
            ..self.clone()
        };
        for each in &corrected.corrections {
            let unknown = corrected.terms.iter_mut();
            for term in unknown.filter(|term| term.hash == each.unknown) {
                (term.hash, term.is_near) = (each.hash, true);
            }
        }
        corrected.terms.sort_unstable_by_key(|term| term.hash);
        corrected.with_asking()
    }

    /// The misspelt word of the query that a term replaces, if any.
    pub(super) fn instead_of(&self, hash: u64) -> Option<&str> {
        let found = self.corrections.iter().find(|each| each.hash == hash);
        found.map(|each| each.word.as_str())
    }

    /// The terms themselves, words in their normal forms, in ascending order of hash.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![None; self.terms.len()];
        for each in &self.corrections {
            let place = |term: &QueryTerm| term.hash;
            if let Ok(place) = self.terms.binary_search_by_key(&each.hash, place) {
                words[place] = Some(each.normal.clone());
            }
        }
        let mut put = |term: String| {
            let hash = analyse::hash(&term);
            if let Ok(place) = self.terms.binary_search_by_key(&hash, |term| term.hash) {
                words[place].get_or_insert(term);
            }
        };
        let alternatives = analyse::alternatives(&self.text, self.languages);
        alternatives
            .into_iter()
            .flat_map(|word| word.terms)
            .for_each(&mut put);
        analyse::for_each_grouped(&self.text, |_, number| put(number.to_owned()));
        words.into_iter().map(Option::unwrap_or_default).collect()
    }
}

/// A small filter over the low bits of the query's terms: it rules out most terms of a passage quickly.
pub(super) struct Hint([u64; Hint::WORDS]);

impl Hint {
    const WORDS: usize = 128;

    pub(super) fn of(query: &Query) -> Self {
        let mut hint = Self([0; Self::WORDS]);
        for term in &query.terms {
            let (word, bit) = Self::place(term.hash);
            hint.0[word] |= 1 << bit;
        }
        hint
    }

    #[inline]
    /// Whether it may be a term of the query.
    pub(super) fn has(&self, hash: u64) -> bool {
        let (word, bit) = Self::place(hash);
        self.0[word] >> bit & 1 == 1
    }

    #[inline]
    fn place(hash: u64) -> (usize, u32) {
        let [low, high, ..] = hash.to_le_bytes();
        (usize::from(high) % Self::WORDS, u32::from(low) % u64::BITS)
    }
}
