//! An inverted index: for each term, the texts that have it.

use hashbrown::HashMap;

use crate::bm25::params::Bm25Params;
use crate::bm25::score::{Collection, ceiling};
use crate::bm25::terms::{Document, Query, QueryTerm};

/// Texts, numbered from 0 in the order they were added.
///
/// ```
/// use siltstone_core::bm25::{Bm25Index, Bm25Params, Document, Query};
///
/// let mut index = Bm25Index::new(Bm25Params::default());
/// index.add(&Document::of("silt settles where water is slow"));
/// index.add(&Document::of("the kettle is on"));
/// let mut found = Vec::new();
/// index.for_each_match(&Query::of("Where does silt settle?"), |hit| found.push(hit.id));
/// assert_eq!(found, [0]);
/// ```
#[derive(Clone, Debug)]
pub struct Bm25Index {
    params: Bm25Params,
    /// Keyed by hashes of foreign words, so the map has a seed of its own: nobody can aim at a slot.
    postings: HashMap<u64, Vec<Posting>>,
    lengths: Vec<u64>,
    words: u64,
}

/// A text that has a term, and how often.
#[derive(Clone, Copy, Debug)]
struct Posting {
    id: u32,
    tf: u32,
}

/// A text that has a word of the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Its number in the index.
    pub id: u32,
    /// Above 0, up to 1.
    pub score: f64,
}

/// What one word of the query adds to a score.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The word, in lower case.
    pub word: String,
    /// How often the text has it.
    pub tf: u32,
    /// How telling it is in this index.
    pub idf: f64,
    /// Its share of the score. The shares sum up to the score, or to more where that is cut at 1.
    pub score: f64,
}

impl Bm25Index {
    /// An index without texts.
    #[must_use]
    pub fn new(params: Bm25Params) -> Self {
        Self {
            params,
            postings: HashMap::new(),
            lengths: Vec::new(),
            words: 0,
        }
    }

    /// Adds a text and gives its number. One without words has a number too, and is never found.
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

    /// How many texts were added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether no text was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// How many words the texts have together.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.words
    }

    /// How many different ones.
    #[must_use]
    pub fn terms(&self) -> usize {
        self.postings.len()
    }

    /// How many pairs of a term and a text that has it.
    #[must_use]
    pub fn postings(&self) -> usize {
        self.postings.values().map(Vec::len).sum()
    }

    /// Calls `visit` once for each text that has a word of the query, in ascending order of number.
    pub fn for_each_match(&self, query: &Query, mut visit: impl FnMut(Match)) {
        let (collection, ceiling) = (self.collection(), self.ceiling(query));
        let mut sums = vec![0.0_f64; self.len()];
        for (term, postings) in self.known(query) {
            let weight = f64::from(term.count) * collection.idf(postings.len());
            for posting in postings {
                let length = self.lengths[posting.id as usize];
                sums[posting.id as usize] +=
                    collection.part(self.params, weight, posting.tf, length);
            }
        }
        for (id, &sum) in (0..).zip(&sums) {
            if sum > 0.0 {
                visit(Match {
                    id,
                    score: (sum / ceiling).min(1.0),
                });
            }
        }
    }

    /// What each word of the query adds to the score of text `id`.
    #[must_use]
    pub fn explain(&self, query: &Query, id: u32) -> Vec<Part> {
        let (collection, ceiling) = (self.collection(), self.ceiling(query));
        let part = |(term, postings): (&QueryTerm, &[Posting])| {
            let place = postings
                .binary_search_by_key(&id, |posting| posting.id)
                .ok()?;
            let (tf, idf) = (postings[place].tf, collection.idf(postings.len()));
            let length = self.lengths[id as usize];
            let sum = collection.part(self.params, f64::from(term.count) * idf, tf, length);
            Some(Part {
                word: term.word.clone(),
                tf,
                idf,
                score: sum / ceiling,
            })
        };
        self.known(query).filter_map(part).collect()
    }

    /// The terms of the query that some text has, in ascending order of hash.
    fn known<'a>(
        &'a self,
        query: &'a Query,
    ) -> impl Iterator<Item = (&'a QueryTerm, &'a [Posting])> {
        query.terms.iter().filter_map(|term| {
            let postings = self.postings.get(&term.hash)?;
            Some((term, postings.as_slice()))
        })
    }

    fn ceiling(&self, query: &Query) -> f64 {
        let weight = |term: &QueryTerm| {
            let df = self.postings.get(&term.hash).map_or(0, Vec::len);
            f64::from(term.count) * self.collection().idf(df)
        };
        // `sum` of floats may start from -0.0, which a fold from 0 does not.
        ceiling(
            self.params,
            query
                .terms
                .iter()
                .map(weight)
                .fold(0.0, |sum, next| sum + next),
        )
    }

    fn collection(&self) -> Collection {
        Collection {
            documents: self.lengths.len() as u64,
            words: self.words,
        }
    }
}

fn next_id(len: usize) -> u32 {
    u32::try_from(len).expect("an index in memory holds fewer than 2^32 texts")
}
