//! A set of the indexes of one session: those that a search needs, or those that are in memory.

use crate::index::NewGraph;

/// Some of the indexes of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequiredIndexes {
    /// The postings of terms, with what stands beside what, and the days.
    pub(super) terms: bool,
    /// The postings of buckets.
    pub(super) buckets: bool,
    /// A graph over the rows of buckets, and of which kind.
    pub(super) graph: Option<NewGraph>,
    /// The role, kind and name of each entry, for filters. No cache has them.
    pub(super) labels: bool,
}

impl RequiredIndexes {
    /// The rows alone: which entries there are.
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

    /// These, and those of `other`.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            terms: self.terms || other.terms,
            buckets: self.buckets || other.buckets,
            graph: self.graph.or(other.graph),
            labels: self.labels || other.labels,
        }
    }

    /// These, but for those of `other`.
    pub(super) fn without(self, other: Self) -> Self {
        Self {
            terms: self.terms && !other.terms,
            buckets: self.buckets && !other.buckets,
            graph: self.graph.filter(|&kind| other.graph != Some(kind)),
            labels: self.labels && !other.labels,
        }
    }

    /// Whether there is nothing.
    pub(super) fn is_nothing(self) -> bool {
        self == Self::NOTHING
    }
}
