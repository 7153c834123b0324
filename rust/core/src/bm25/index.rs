//! An inverted index: for each term, the passages that have it.

use hashbrown::HashMap;

use crate::bm25::params::Bm25Params;
use crate::bm25::score::{Collection, ceiling};
use crate::bm25::terms::{Document, Query, QueryTerm};

/// Passages, numbered from 0 in the order they were added.
///
/// ```
/// use siltstone_core::bm25::{Bm25Index, Bm25Params, Document, Query};
///
/// let mut index = Bm25Index::new(Bm25Params::default());
/// index.add(&Document::of("silt settles where water is slow"));
/// index.add(&Document::of("the kettle is on"));
/// let sums = index.sums(&Query::of("Where does silt settle?"));
/// assert!(sums[0] > 0.0 && sums[1] == 0.0);
/// ```
#[derive(Clone, Debug)]
pub struct Bm25Index {
    params: Bm25Params,
    /// Keyed by hashes of foreign words, so the map has a seed of its own: nobody can aim at a slot.
    postings: HashMap<u64, Vec<Posting>>,
    lengths: Vec<u64>,
    words: u64,
}

/// A passage that has a term, and how often.
#[derive(Clone, Copy, Debug)]
struct Posting {
    id: u32,
    tf: u32,
}

/// What one term of the query adds to a score.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The term's hash.
    pub hash: u64,
    /// The term itself.
    pub term: String,
    /// How often the passage has it.
    pub tf: u32,
    /// How telling it is in this index.
    pub idf: f64,
    /// Its share of the score. The shares sum up to the score of the passage by itself.
    pub score: f64,
}

impl Bm25Index {
    /// An index without passages.
    #[must_use]
    pub fn new(params: Bm25Params) -> Self {
        Self {
            params,
            postings: HashMap::new(),
            lengths: Vec::new(),
            words: 0,
        }
    }

    /// Adds a passage and gives its number. One without terms has a number too, and is never found.
    pub fn add(&mut self, document: &Document) -> u32 {
        let id = next_id(self.len());
        for &(term, tf) in &document.terms {
            self.postings
                .entry(term)
                .or_default()
                .push(Posting { id, tf });
        }
        self.lengths.push(document.length);
        self.words += document.length;
        id
    }

    /// How many passages were added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether no passage was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// How many terms the passages have together.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.words
    }

    /// How many different terms.
    #[must_use]
    pub fn terms(&self) -> usize {
        self.postings.len()
    }

    /// How many pairs of a term and a passage that has it.
    #[must_use]
    pub fn postings(&self) -> usize {
        self.postings.values().map(Vec::len).sum()
    }

    /// The sum of each passage, in order; 0 for one that has no term of the query.
    #[must_use]
    pub fn sums(&self, query: &Query) -> Vec<f64> {
        let collection = self.collection();
        let mut sums = vec![0.0_f64; self.len()];
        for (term, postings) in self.known(query) {
            let weight = f64::from(term.count) * collection.idf(postings.len());
            for posting in postings {
                let length = self.lengths[posting.id as usize];
                sums[posting.id as usize] +=
                    collection.part(self.params, weight, posting.tf, length);
            }
        }
        sums
    }

    /// The sum of one passage, to the bit as [`sums`](Self::sums) has it.
    #[must_use]
    pub fn sum(&self, query: &Query, id: u32) -> f64 {
        // `sum` of floats may start from -0.0, which a fold from 0 does not.
        self.addends(query, id)
            .fold(0.0, |sum, (_, _, _, addend)| sum + addend)
    }

    /// What each term of the query adds to the score of passage `id`.
    #[must_use]
    pub fn parts(&self, query: &Query, id: u32) -> Vec<Part> {
        let ceiling = self.ceiling(query);
        self.addends(query, id)
            .map(|(term, tf, idf, addend)| Part {
                hash: term.hash,
                term: term.term.clone(),
                tf,
                idf,
                score: addend / ceiling,
            })
            .collect()
    }

    /// The largest sum that counts: what is at it, or above, scores 1.
    #[must_use]
    pub fn ceiling(&self, query: &Query) -> f64 {
        let weight = |term: &QueryTerm| {
            let df = self.postings.get(&term.hash).map_or(0, Vec::len);
            f64::from(term.count) * self.collection().idf(df)
        };
        let weights = query.terms.iter().map(weight);
        ceiling(self.params, weights.fold(0.0, |sum, next| sum + next))
    }

    /// The terms of the query that passage `id` has, each with its tf, its idf and what it adds.
    fn addends<'a>(
        &'a self,
        query: &'a Query,
        id: u32,
    ) -> impl Iterator<Item = (&'a QueryTerm, u32, f64, f64)> {
        let collection = self.collection();
        self.known(query).filter_map(move |(term, postings)| {
            let place = postings.binary_search_by_key(&id, |posting| posting.id);
            let (tf, idf) = (postings[place.ok()?].tf, collection.idf(postings.len()));
            let length = self.lengths[id as usize];
            let weight = f64::from(term.count) * idf;
            Some((
                term,
                tf,
                idf,
                collection.part(self.params, weight, tf, length),
            ))
        })
    }

    /// The terms of the query that some passage has, in ascending order of hash.
    fn known<'a>(
        &'a self,
        query: &'a Query,
    ) -> impl Iterator<Item = (&'a QueryTerm, &'a [Posting])> {
        query.terms.iter().filter_map(|term| {
            let postings = self.postings.get(&term.hash)?;
            Some((term, postings.as_slice()))
        })
    }

    fn collection(&self) -> Collection {
        Collection {
            documents: self.lengths.len() as u64,
            words: self.words,
        }
    }
}

fn next_id(len: usize) -> u32 {
    u32::try_from(len).expect("an index in memory holds fewer than 2^32 passages")
}
