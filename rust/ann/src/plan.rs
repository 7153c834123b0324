//! Chooses the search by size: a scan of all rows up to a limit, the graph above it.

use std::str::FromStr;

use siltstone_core::{Error, ErrorKind};

/// Up to so many rows, a scan of bytes is not slower than a graph at the usual `ef`, and finds all.
///
/// A graph at `ef` 100 is as fast as a scan from 4,000 to 6,000 rows on, and at `ef` 200 from 9,500 to 15,000 on,
/// for rows of 64 to 1,024 numbers: longer rows make both slower. Measured by the part `crossover` of
/// `benches/peers`.
pub const SCANNED_ROWS: usize = 6_000;

/// The same limit in numbers of all rows. It decides from a dimension of 1,000 on: for counts in 4,096 buckets a
/// scan is as slow as a graph from 1,200 rows (`ef` 100) to 3,000 rows (`ef` 200) on.
pub const SCANNED: usize = 6_000_000;

/// The way a query is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The distance to every row: exact.
    Scan,
    /// The graph: approximate.
    Graph,
}

impl Plan {
    /// The faster plan for dense rows of that number and dimension.
    #[must_use]
    pub fn of(rows: usize, dimension: usize) -> Self {
        if rows <= SCANNED_ROWS && rows.saturating_mul(dimension) <= SCANNED {
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

impl FromStr for Plan {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "scan" => Ok(Self::Scan),
            "graph" => Ok(Self::Graph),
            other => {
                let message = format!("plan must be 'auto', 'scan' or 'graph', got {other:?}");
                Err(Error::new(ErrorKind::InvalidArgument, message).with("field", "plan"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_numbers_are_scanned() {
        assert_eq!(Plan::of(0, 384), Plan::Scan);
        assert_eq!(Plan::of(6_000, 384), Plan::Scan);
        assert_eq!(Plan::of(6_001, 384), Plan::Graph);
        assert_eq!(Plan::of(6_001, 1), Plan::Graph);
        assert_eq!(Plan::of(1_464, 4_096), Plan::Scan);
        assert_eq!(Plan::of(1_465, 4_096), Plan::Graph);
        assert_eq!(Plan::of(usize::MAX, 384), Plan::Graph);
    }
}
