//! The options of a search, and their bounds.

use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::fusion::Decay;
use crate::index::NewGraph;
use crate::memory::filter::Filter;
use crate::memory::required_indexes::RequiredIndexes;

/// Hits that a search returns at most, whatever the caller asks for.
///
/// This and the other bounds of this module are what the core can take. What a caller should ask for is
/// less, and settled above it.
pub const MAX_LIMIT: usize = 1_000_000;

/// Bytes of the longest query.
pub const MAX_QUERY_BYTES: usize = 16 * 1024 * 1024;

/// A way to score hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ranker {
    /// BM25 over terms of passages, names and dates, lifted by neighbours, on the query's ceiling.
    #[default]
    Lexical,
    /// The cosine of the hashed term frequencies: `score = 1 - distance / 2`.
    Cosine,
    /// The documented mix of that cosine, BM25 and age; see [`fusion::hybrid`](crate::fusion::hybrid).
    Hybrid,
    /// The cosine of an embedder's vectors: `score = 1 - distance / 2`.
    Dense,
    /// The terms of `Lexical` and the cosine of `Dense` in one score, then lifted by neighbours.
    Fused,
}

impl Ranker {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Cosine => "cosine",
            Self::Hybrid => "hybrid",
            Self::Dense => "dense",
            Self::Fused => "fused",
        }
    }

    /// Whether it looks at vectors of an embedder.
    #[must_use]
    pub fn is_dense(self) -> bool {
        matches!(self, Self::Dense | Self::Fused)
    }
}

/// A way to make one score of two, for `Fused`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fusion {
    /// By z-scores over the entries of the session: how far an entry stands out on either side.
    #[default]
    ZScore,
    /// By reciprocal ranks: only the order on either side counts.
    ReciprocalRank,
}

impl FromStr for Fusion {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "zscore" => Ok(Self::ZScore),
            "rrf" => Ok(Self::ReciprocalRank),
            _ => {
                let message = format!("fusion must be 'zscore' or 'rrf', got {name:?}");
                Err(Error::new(ErrorKind::InvalidArgument, message)
                    .with("field", "fusion")
                    .with("value", name))
            }
        }
    }
}

/// A query as an embedder sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryVector {
    /// The key of the embedder that made it, as [`Store::use_embedder`](super::Store::use_embedder) gave it.
    pub embedder: i64,
    /// As many numbers as that embedder's vectors have.
    pub numbers: Vec<f32>,
}

impl FromStr for Ranker {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "lexical" => Ok(Self::Lexical),
            "cosine" => Ok(Self::Cosine),
            "hybrid" => Ok(Self::Hybrid),
            "dense" => Ok(Self::Dense),
            "fused" => Ok(Self::Fused),
            _ => {
                let message = format!(
                    "ranker must be 'lexical', 'cosine', 'hybrid', 'dense' or 'fused', got {name:?}"
                );
                Err(Error::new(ErrorKind::InvalidArgument, message)
                    .with("field", "ranker")
                    .with("value", name))
            }
        }
    }
}

/// The index that the ranker `Cosine` searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchIndex {
    /// Inverted lists: every entry that shares a bucket with the query, at its exact distance.
    #[default]
    Exact,
    /// A graph of that kind over the rows of the session: approximate.
    Graph(NewGraph),
}

/// The options of a search; the query itself is apart.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchOptions {
    /// At most this many hits; 0 gives none, more than [`MAX_LIMIT`] gives that many.
    pub limit: i64,
    /// The ranker that scores hits.
    pub ranker: Ranker,
    /// The index that the ranker `Cosine` searches; other rankers have their own.
    pub index: SearchIndex,
    /// Leaves out hits with a lower score, 0 to 1.
    pub min_score: f64,
    /// Whether hits say how their scores came about.
    pub explain: bool,
    /// The decay of scores by age; None is the default of the ranker: `Hybrid` has one, others have none.
    pub decay: Option<Decay>,
    /// The time of the search, in milliseconds since 1970: ages are counted from it, and entries that have expired by
    /// then are not found.
    pub now: i64,
    /// The way in which `Fused` makes one score of two.
    pub fusion: Fusion,
    /// Conditions on entries.
    pub filter: Filter,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            limit: 5,
            ranker: Ranker::default(),
            index: SearchIndex::default(),
            min_score: 0.0,
            explain: false,
            decay: None,
            now: 0,
            fusion: Fusion::default(),
            filter: Filter::default(),
        }
    }
}

impl SearchOptions {
    /// The indexes that a search looks into. Where there are no vectors to compare with, terms rank.
    pub(super) fn needs(&self) -> RequiredIndexes {
        let needs = match (self.ranker, self.index) {
            (Ranker::Cosine, SearchIndex::Exact) => RequiredIndexes::BUCKETS,
            (Ranker::Cosine, SearchIndex::Graph(kind)) => RequiredIndexes::graph(kind),
            (Ranker::Hybrid, _) => RequiredIndexes::BOTH,
            (Ranker::Lexical | Ranker::Dense | Ranker::Fused, _) => RequiredIndexes::TERMS,
        };
        RequiredIndexes {
            labels: self.filter.is_labelled(),
            ..needs
        }
    }

    /// The same, but with the exact index if there is a filter: a graph might lead to too few entries that pass it.
    pub(super) fn of_filter(&self) -> Self {
        let mut options = self.clone();
        if !self.filter.is_none() {
            options.index = SearchIndex::Exact;
        }
        options
    }

    /// The limit of hits, if `query` and the options are within bounds.
    pub(super) fn check(&self, query: &str) -> Result<usize> {
        if query.len() > MAX_QUERY_BYTES {
            return Err(invalid(format!(
                "a query must be at most {MAX_QUERY_BYTES} bytes, got {} bytes",
                query.len()
            )));
        }
        if !(0.0..=1.0).contains(&self.min_score) {
            return Err(invalid(format!(
                "min_score must be in 0..1, got {}",
                self.min_score
            )));
        }
        let limit = usize::try_from(self.limit)
            .map_err(|_| invalid(format!("limit must be at least 0, got {}", self.limit)))?;
        Ok(limit.min(MAX_LIMIT))
    }
}

/// Refuses a page that cannot be.
pub(super) fn check_page(offset: i64, limit: i64) -> Result<()> {
    if limit < 1 {
        return Err(invalid(format!("limit must be at least 1, got {limit}")));
    }
    if offset < 0 {
        return Err(invalid(format!("offset must be at least 0, got {offset}")));
    }
    Ok(())
}

pub(super) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidEntry, message)
}
