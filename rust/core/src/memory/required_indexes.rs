//! Which indexes of a session does something need?

/// Indexes of a session, as those that are needed, or those that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequiredIndexes {
    /// The postings of terms, with what stands beside what, and the days.
    pub(super) terms: bool,
    /// The postings of buckets.
    pub(super) buckets: bool,
    /// The graph over the rows of buckets.
    pub(super) graph: bool,
}

impl RequiredIndexes {
    /// The rows alone: which entries there are.
    pub(super) const NOTHING: Self = Self {
        terms: false,
        buckets: false,
        graph: false,
    };
    pub(super) const TERMS: Self = Self {
        terms: true,
        ..Self::NOTHING
    };
    pub(super) const BUCKETS: Self = Self {
        buckets: true,
        ..Self::NOTHING
    };
    pub(super) const GRAPH: Self = Self {
        graph: true,
        ..Self::NOTHING
    };
    /// What an exact search may need.
    pub(super) const BOTH: Self = Self {
        terms: true,
        buckets: true,
        graph: false,
    };

    /// These, and those of `other`.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            terms: self.terms || other.terms,
            buckets: self.buckets || other.buckets,
            graph: self.graph || other.graph,
        }
    }

    /// These, but for those of `other`.
    pub(super) fn without(self, other: Self) -> Self {
        Self {
            terms: self.terms && !other.terms,
            buckets: self.buckets && !other.buckets,
            graph: self.graph && !other.graph,
        }
    }

    /// Whether there is nothing.
    pub(super) fn is_nothing(self) -> bool {
        self == Self::NOTHING
    }
}
