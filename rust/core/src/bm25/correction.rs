//! Spelling correction: a word of a query that no entry has is replaced by a word at an edit distance of one that
//! entries have.
//!
//! A word that only says that something is asked is not corrected.
//!
//! The correction needs no data of its own: it makes the few hundred words at one edit, looks up which of them entries
//! have, and takes the most frequent one. Words that entries have cost nothing.

use rustc_hash::FxHashSet;

use crate::analyse::{Normalizer, corrections, for_each_correctable};
use crate::bm25::index::Bm25Index;
use crate::bm25::score::Weighing;
use crate::bm25::scorer::Scorer;
use crate::bm25::terms::{Correction, Query};
use crate::postings::{Block, Dictionary, Hashes, Postings, Tail, TermLists};

/// At most so many unknown words of a query are corrected, the first ones.
const MOST: usize = 4;

/// A query with more terms is not corrected: a long text is not a question with a typo.
const LONGEST: usize = 20;

/// `query` with its unknown words corrected; None where there is nothing to correct. `scorer` is the scorer of the
/// query.
pub(super) fn corrected(index: &Bm25Index, query: &Query, scorer: &Scorer<'_>) -> Option<Query> {
    if scorer.len() > LONGEST || scorer.knows_all() {
        return None;
    }
    let mut unknown: Vec<(u64, String)> = Vec::new();
    for_each_correctable(query.text(), |word, hash| {
        let is_new = unknown.len() < MOST && unknown.iter().all(|(known, _)| *known != hash);
        if is_new && scorer.lacks(hash) && !query.only_asks(hash) {
            unknown.push((hash, word.to_owned()));
        }
    });
    if unknown.is_empty() {
        return None;
    }
    let languages = query.languages().with_english();
    let normalizers: Vec<Normalizer> = languages.map(Normalizer::of).collect();
    let vocabulary = Vocabulary::of(&index.postings);
    let mut chosen: Vec<Correction> = Vec::new();
    for (unknown, word) in unknown {
        let is_used = |hash: u64| chosen.iter().any(|each| each.hash == hash);
        let mut candidates = corrections(&word, &normalizers, |term| {
            vocabulary.may_have(term) && !scorer.has(term) && !is_used(term)
        });
        candidates.sort_unstable();
        candidates.dedup_by_key(|&mut (hash, _)| hash);
        let terms = Query::of_hashes(candidates.iter().map(|&(hash, _)| hash));
        let known = Scorer::new(index, &terms, Weighing::Plain);
        // The most frequent term wins; of equally frequent terms the one with the smallest hash.
        if let Some(hash) = known.most_frequent()
            && let Ok(place) = candidates.binary_search_by_key(&hash, |&(hash, _)| hash)
        {
            let (hash, normal) = candidates.swap_remove(place);
            chosen.push(Correction {
                unknown,
                word,
                hash,
                normal,
            });
        }
    }
    (!chosen.is_empty()).then(|| query.corrected(chosen))
}

// Which terms the passages of an index have. A misspelt word has hundreds of possible corrections, and nearly all of
// them are no words, so the look-up is made for terms that are not there.

/// The terms of all passages, those of removed passages included.
pub(super) struct Vocabulary<'a> {
    /// The dictionaries of all parts.
    parts: Vec<&'a Hashes>,
    /// The lists of the blocks that are no part yet.
    lists: Vec<&'a TermLists>,
    /// The terms of the newest passages, which are in no list.
    newest: FxHashSet<u64>,
}

impl<'a> Vocabulary<'a> {
    pub(super) fn of(postings: &'a Postings<Hashes>) -> Self {
        let blocks = postings.blocks();
        let parts = blocks.iter().flat_map(Block::parts);
        let tails = || (0..blocks.len()).filter_map(|number| postings.fresh(number));
        let mut vocabulary = Self {
            parts: parts.map(|part| part.dictionary()).collect(),
            lists: tails().filter_map(Tail::lists).collect(),
            newest: FxHashSet::default(),
        };
        for tail in tails() {
            tail.few().for_each(|_, term, _| {
                vocabulary.newest.insert(term);
            });
        }
        vocabulary
    }

    /// Whether a passage has the term, or a removed one had it.
    fn may_have(&self, term: u64) -> bool {
        self.newest.contains(&term)
            || self.lists.iter().any(|lists| !lists.get(term).is_empty())
            || self.parts.iter().any(|part| part.place(term).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::{Language, hash, terms};
    use crate::bm25::{Bm25Index, Bm25Params, Document};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The terms of a query after correction: each unknown word's, by trying every word at one edit on the texts.
    fn naively(texts: &[String], query: &str) -> Vec<u64> {
        let mut df = BTreeMap::<u64, usize>::new();
        for text in texts {
            let mut terms = terms(text);
            terms.sort_unstable();
            terms.dedup();
            for term in terms {
                *df.entry(term).or_default() += 1;
            }
        }
        let mut found = terms(query);
        found.sort_unstable();
        found.dedup();
        let asked = found.clone();
        for word in query.split_whitespace() {
            let normalizer = Normalizer::of(Language::English);
            let unknown = hash(&normalizer.normal(word));
            let Some(place) = found.iter().position(|&term| term == unknown) else {
                continue;
            };
            if df.contains_key(&unknown) || word.len() < 5 {
                continue;
            }
            let candidates = corrections(word, &[normalizer], |_| true);
            let candidates = candidates.into_iter().map(|(term, _)| term);
            let new = candidates.filter(|term| !asked.contains(term) && !found.contains(term));
            let best = new.filter_map(|term| Some((*df.get(&term)?, std::cmp::Reverse(term))));
            if let Some((_, std::cmp::Reverse(term))) = best.max() {
                found[place] = term;
            }
        }
        found.sort_unstable();
        found
    }

    fn word() -> impl Strategy<Value = String> {
        "(settl|mount|paint|river|grave)(ed|ing|er|s|a|ain|ains|l)?"
    }

    /// A word with up to one letter changed.
    fn misspelt() -> impl Strategy<Value = String> {
        (word(), 1_usize..5, "[a-eg]?").prop_map(|(mut word, at, letter)| {
            if letter.is_empty() {
                word.remove(at);
            } else {
                word.replace_range(at..=at, &letter);
            }
            word
        })
    }

    proptest! {
        #[test]
        fn words_are_corrected_as_by_trying_every_edit(
            texts in prop::collection::vec(prop::collection::vec(word(), 1..5), 0..80),
            removed in prop::collection::vec(0_usize..80, 0..20),
            asked in prop::collection::vec(misspelt(), 1..5),
            settled in 0_usize..80,
        ) {
            let texts: Vec<String> = texts.into_iter().map(|words| words.join(" ")).collect();
            let query = asked.join(" ");
            let mut index = Bm25Index::new(Bm25Params::default());
            for (place, text) in texts.iter().enumerate() {
                index.add(&Document::of(text));
                if place == settled {
                    index.settle();
                }
            }
            for &id in &removed {
                index.remove(u32::try_from(id).unwrap());
            }
            let texts: Vec<String> = texts.iter().enumerate()
                .filter(|(place, _)| !removed.contains(place))
                .map(|(_, text)| text.clone())
                .collect();
            let query_of = Query::of(&query);
            let scorer = Scorer::new(&index, &query_of, Weighing::Lexical);
            let found = corrected(&index, &query_of, &scorer);
            let found = found.as_ref().unwrap_or(&query_of);
            let hashes: Vec<u64> = found.terms().iter().map(|term| term.hash).collect();
            prop_assert_eq!(hashes, naively(&texts, &query), "{}", query);
        }
    }
}
