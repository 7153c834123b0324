//! From a text to the terms that BM25 counts: the words of `words-1`, by their 64-bit hashes.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::tokenize::words;

/// A text as BM25 sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Each term and how often it occurs (`tf`).
    pub(super) terms: Vec<(u64, u32)>,
    /// How many words there are (`dl`).
    pub(super) length: u64,
}

impl Document {
    /// The terms of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut hashes = Vec::new();
        words::for_each_word(text, |word| hashes.push(xxh3_64(word.as_bytes())));
        hashes.sort_unstable();
        Self {
            length: hashes.len() as u64,
            terms: hashes
                .chunk_by(|one, other| one == other)
                .map(|run| (run[0], u32::try_from(run.len()).unwrap_or(u32::MAX)))
                .collect(),
        }
    }
}

/// A word of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTerm {
    /// Its hash.
    pub hash: u64,
    /// The word itself, in lower case.
    pub word: String,
    /// How often the query has it (`qtf`).
    pub count: u32,
}

/// A query: its words in ascending order of hash, which is the order of every sum over them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub(super) terms: Vec<QueryTerm>,
}

impl Query {
    /// The words of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut terms = BTreeMap::new();
        words::for_each_word(text, |word| {
            let hash = xxh3_64(word.as_bytes());
            let term = terms.entry(hash).or_insert_with(|| QueryTerm {
                hash,
                word: word.to_owned(),
                count: 0,
            });
            term.count += 1;
        });
        Self {
            terms: terms.into_values().collect(),
        }
    }
}
