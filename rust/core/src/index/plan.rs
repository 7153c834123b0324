//! Which search for which size? A scan of all rows while they are few, the graph above.

/// Numbers in all rows up to which a scan of bytes is quicker than a graph at `ef` 100 to 200: about 4,000
/// rows of 384. Measured by `benches/peers/dense.py`.
pub const SCANNED: usize = 1_500_000;

/// How a query is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The distance to every row: exact.
    Scan,
    /// The graph: approximate.
    Graph,
}

impl Plan {
    /// What is quicker for dense rows of that number and dimension.
    #[must_use]
    pub fn of(rows: usize, dimension: usize) -> Self {
        if rows.saturating_mul(dimension) <= SCANNED {
            Self::Scan
        } else {
            Self::Graph
        }
    }

    /// Its name, as `stats()` gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Graph => "graph",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_numbers_are_scanned() {
        assert_eq!(Plan::of(0, 384), Plan::Scan);
        assert_eq!(Plan::of(3_906, 384), Plan::Scan);
        assert_eq!(Plan::of(3_907, 384), Plan::Graph);
        assert_eq!(Plan::of(usize::MAX, 384), Plan::Graph);
    }
}
