//! What BM25 counts: the terms of a passage, and those of a query.

use std::collections::BTreeMap;

use crate::analyse;

/// A passage as BM25 sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Each term and how often it occurs (`tf`).
    pub(super) terms: Vec<(u64, u32)>,
    /// How many terms there are (`dl`).
    pub(super) length: u64,
}

impl Document {
    /// The terms of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        analyse::terms(text).into()
    }
}

impl From<Vec<u64>> for Document {
    fn from(mut terms: Vec<u64>) -> Self {
        terms.sort_unstable();
        Self {
            length: terms.len() as u64,
            terms: terms
                .chunk_by(|one, other| one == other)
                .map(|run| (run[0], u32::try_from(run.len()).unwrap_or(u32::MAX)))
                .collect(),
        }
    }
}

/// A term of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTerm {
    /// Its hash.
    pub hash: u64,
    /// The term itself: a word in its normal form.
    pub term: String,
    /// How often the query has it (`qtf`).
    pub count: u32,
}

/// A query: its terms in ascending order of hash, which is the order of every sum over them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub(super) terms: Vec<QueryTerm>,
}

impl Query {
    /// Its terms, in ascending order of hash.
    pub(super) fn terms(&self) -> &[QueryTerm] {
        &self.terms
    }

    /// The terms of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut terms = BTreeMap::new();
        analyse::for_each_term(text, |term| {
            let hash = analyse::hash(term);
            let known = terms.entry(hash).or_insert_with(|| QueryTerm {
                hash,
                term: term.to_owned(),
                count: 0,
            });
            known.count += 1;
        });
        Self {
            terms: terms.into_values().collect(),
        }
    }
}
