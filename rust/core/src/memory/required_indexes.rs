//! A set of the indexes of one session: the indexes that a search needs, or those in memory.

use crate::index::NewGraph;

/// Some of the indexes of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequiredIndexes {
    /// The postings of terms, with the neighbours and the days of entries.
    pub(super) terms: bool,
    /// The postings of buckets, for the hashed embedding.
    pub(super) buckets: bool,
    /// A graph of that kind over the rows of buckets.
    pub(super) graph: Option<NewGraph>,
    /// The role, kind and name of each entry, for filters. Cache files do not contain them.
    pub(super) labels: bool,
}

impl RequiredIndexes {
    /// No index: only the list of entries.
    pub(super) const NOTHING: Self = Self {
        terms: false,
        buckets: false,
        graph: None,
        labels: false,
    };
    pub(super) const TERMS: Self = Self {
        terms: true,
        ..Self::NOTHING
    };
    pub(super) const BUCKETS: Self = Self {
        buckets: true,
        ..Self::NOTHING
    };
    /// The indexes that an exact search may need.
    pub(super) const BOTH: Self = Self {
        terms: true,
        buckets: true,
        ..Self::NOTHING
    };

    /// A graph of that kind.
    pub(super) fn graph(kind: NewGraph) -> Self {
        Self {
            graph: Some(kind),
            ..Self::NOTHING
        }
    }

    /// The union with `other`. Of two graphs, this one's stays.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            terms: self.terms || other.terms,
            buckets: self.buckets || other.buckets,
            graph: self.graph.or(other.graph),
            labels: self.labels || other.labels,
        }
    }

    /// These without those of `other`.
    pub(super) fn without(self, other: Self) -> Self {
        Self {
            terms: self.terms && !other.terms,
            buckets: self.buckets && !other.buckets,
            graph: self.graph.filter(|&kind| other.graph != Some(kind)),
            labels: self.labels && !other.labels,
        }
    }

    /// Whether the set is empty.
    pub(super) fn is_nothing(self) -> bool {
        self == Self::NOTHING
    }
}
