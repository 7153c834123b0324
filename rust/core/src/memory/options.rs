//! The options and filters of a search, and their bounds.

use hashbrown::HashMap;

use crate::error::{Error, ErrorKind, Result, named};
use crate::fusion::Decay;
use crate::id::EntryId;
use crate::index::NewGraph;
use crate::memory::session_index::RequiredIndexes;

/// The highest number of hits of a search, whatever the caller asks for.
///
/// The bounds of this module are the limits of the core. Callers should set lower limits.
const MAX_LIMIT: usize = 1_000_000;

/// The length of the longest query in bytes.
const MAX_QUERY_BYTES: usize = 16 * 1024 * 1024;

/// A method of scoring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ranker {
    /// BM25 over the terms of passages, names and dates. Neighbours raise the score, which is divided by the best score
    /// that the query could have.
    #[default]
    Lexical,
    /// The cosine of the hashed term frequencies: `score = 1 - distance / 2`.
    Cosine,
    /// The documented mix of that cosine, BM25 and age.
    Hybrid,
    /// The cosine of an embedder's vectors: `score = 1 - distance / 2`.
    Dense,
    /// Terms and vectors in one score, which neighbours then raise.
    Fused,
}

named!(Ranker, "ranker":
    Lexical = "lexical", Cosine = "cosine", Hybrid = "hybrid", Dense = "dense", Fused = "fused");

impl Ranker {
    /// Whether it uses vectors of an embedder.
    #[must_use]
    pub fn is_dense(self) -> bool {
        matches!(self, Self::Dense | Self::Fused)
    }
}

/// A fusion of two scores, for `Fused`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fusion {
    /// By z-scores over the entries of the session: how far the entry is from the mean on either side.
    #[default]
    ZScore,
    /// By reciprocal ranks: only the order on either side matters.
    ReciprocalRank,
}

named!(Fusion, "fusion": ZScore = "zscore", ReciprocalRank = "rrf");

/// The vector of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryVector {
    /// The key of the embedder that made it, from [`Store::use_embedder`](super::Store::use_embedder).
    pub embedder: i64,
    /// The numbers of the vector, as many as the embedder's dimension.
    pub numbers: Vec<f32>,
}

/// The index that the ranker `Cosine` searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchIndex {
    /// Inverted lists: finds every entry that shares a bucket with the query, with its exact distance.
    #[default]
    Exact,
    /// A graph of that kind over the rows of the session, whose results are approximate.
    Graph(NewGraph),
}

/// The options of a search. The query is separate.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchOptions {
    /// The highest number of hits; 0 gives none, and more than 1,000,000 counts as that.
    pub limit: i64,
    /// The ranker that scores hits.
    pub ranker: Ranker,
    /// The index for the ranker `Cosine`; other rankers have their own.
    pub index: SearchIndex,
    /// The least score of a hit, 0 to 1.
    pub min_score: f64,
    /// Whether hits come with explanations of their scores.
    pub explain: bool,
    /// The decay of scores by age. None for the ranker's default: `Hybrid` has a decay, the others have none.
    pub decay: Option<Decay>,
    /// The time of the search, in milliseconds since 1970. Ages are computed from it, and entries that have expired by
    /// then are not found.
    pub now: i64,
    /// The fusion of both scores of `Fused`.
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
    /// The indexes that a search reads. `Dense` and `Fused` need terms, too, in case there are no vectors.
    pub(super) fn required_indexes(&self) -> RequiredIndexes {
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

    /// The same options; with a filter, they use the exact index. A graph could lead to too few entries that pass the
    /// filter.
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

/// Refuses a limit below 1 and an offset below 0.
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

// Filters of a search: by time, speaker and kind.
//
// A filter only selects results. Weights of terms, neighbours and days are computed over all entries, so a score
// does not depend on the filter.

/// Conditions on entries. All given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The earliest time: milliseconds since 1970, UTC.
    pub since: Option<i64>,
    /// The end of the time range, exclusive.
    pub until: Option<i64>,
    /// The exact role.
    pub role: Option<String>,
    /// The exact kind.
    pub kind: Option<String>,
    /// The exact name of the speaker or the tool.
    pub name: Option<String>,
}

impl Filter {
    /// Whether there is no condition.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there is a condition on the role, the kind or the name.
    pub(super) fn is_labelled(&self) -> bool {
        self.role.is_some() || self.kind.is_some() || self.name.is_some()
    }
}

/// The number of a text among the labels of the entries; 0 stands for no text.
type Code = u32;

/// The code of a text that no entry has.
const UNKNOWN: Code = Code::MAX;

/// The role, the kind and the name of each entry of a scope, as codes.
#[derive(Debug, Default)]
pub(super) struct Labels {
    codes: HashMap<String, Code>,
    rows: Vec<[Code; 3]>,
}

impl Labels {
    /// Their approximate bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts: usize = self.codes.keys().map(String::capacity).sum();
        let codes = self.codes.allocation_size() + texts;
        self.rows.capacity() * size_of::<[Code; 3]>() + codes
    }

    /// Adds the labels of the next entry.
    pub(super) fn push(&mut self, role: &str, kind: &str, name: Option<&str>) {
        let name = name.map_or(0, |name| self.code(name));
        let row = [self.code(role), self.code(kind), name];
        self.rows.push(row);
    }

    /// The number of entries with known labels.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Removes the labels of entries that do not stay. The labels belong to the first of `entries`, in their order.
    pub(super) fn only(&mut self, entries: &[(EntryId, i64)], stays: impl Fn(EntryId) -> bool) {
        let mut entries = entries.iter();
        self.rows
            .retain(|_| entries.next().is_some_and(|&(id, _)| stays(id)));
    }

    /// The labels of a filter, as codes.
    pub(super) fn wanted(&self, filter: &Filter) -> [Option<Code>; 3] {
        [&filter.role, &filter.kind, &filter.name].map(|text| {
            let code = |text: &String| self.codes.get(text).copied().unwrap_or(UNKNOWN);
            text.as_ref().map(code)
        })
    }

    /// Whether an entry has the wanted labels.
    pub(super) fn has(&self, point: u32, wanted: [Option<Code>; 3]) -> bool {
        let row = self.rows.get(point as usize);
        row.is_some_and(|row| {
            let mut both = row.iter().zip(wanted);
            both.all(|(&code, wanted)| wanted.is_none_or(|wanted| wanted == code))
        })
    }

    fn code(&mut self, text: &str) -> Code {
        let next = Code::try_from(self.codes.len() + 1).unwrap_or(UNKNOWN);
        *self.codes.entry_ref(text).or_insert(next)
    }
}
