//! Which entries of a session are best, by which ranker?

use std::collections::BTreeMap;

use crate::bm25::Query;
use crate::embed::hash::HashRule;
use crate::embed::hashed_tf::counts;
use crate::fusion::{self, Decay};
use crate::id::EntryId;
use crate::index::VectorIndex;
use crate::memory::options::{Ranker, SearchOptions};
use crate::memory::scope::Scope;
use crate::top_k::TopK;
use crate::vector::SparseRow;

/// A query as one of the rankers takes it.
pub(super) enum Analysis {
    Lexical(Query),
    Cosine(SparseRow),
    Hybrid(Query, SparseRow),
}

impl Analysis {
    pub(super) fn of(query: &str, ranker: Ranker, hash_rule: HashRule) -> Self {
        match ranker {
            Ranker::Lexical => Self::Lexical(Query::of(query)),
            Ranker::Cosine => Self::Cosine(counts(query, hash_rule)),
            Ranker::Hybrid => Self::Hybrid(Query::of(query), counts(query, hash_rule)),
        }
    }

    /// What age takes of a score.
    fn decay(&self, options: &SearchOptions) -> Option<Decay> {
        let own = match self {
            Self::Hybrid(..) => Some(Decay::DOCUMENTED),
            Self::Lexical(_) | Self::Cosine(_) => None,
        };
        options.decay.or(own)
    }
}

/// What a score was made of, as far as its ranker looks at it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parts {
    /// The cosine of the hashed term frequencies.
    pub(super) cosine: f64,
    /// The part of the query's best BM25 that the entry has.
    pub(super) share: f64,
    /// What its age left of the score.
    pub(super) decay: f64,
}

/// An entry that matches: the better is greater, of equal scores the newer, then the smaller id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    pub(super) score: f64,
    pub(super) created_at: i64,
    pub(super) id: EntryId,
    /// Its number in the indexes.
    pub(super) point: u32,
    pub(super) parts: Parts,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score
            .total_cmp(&other.score)
            .then_with(|| self.created_at.cmp(&other.created_at))
            .then_with(|| other.id.cmp(&self.id))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// The best entries so far, each with what its age left of its score.
struct Best<'a> {
    scope: &'a Scope,
    decay: Option<Decay>,
    options: &'a SearchOptions,
    kept: TopK<Ranked>,
}

impl Best<'_> {
    /// Gives the least score that is of interest from now on; age only takes from one.
    fn offer(&mut self, point: u32, score: f64, parts: Parts) -> f64 {
        let ranked = self.scope.ranked(point, score, parts);
        let factor = |decay: Decay| decay.factor(ranked.created_at, self.options.now);
        let decay = self.decay.map_or(1.0, factor);
        let score = score * decay;
        if score >= self.options.min_score {
            let parts = Parts { decay, ..parts };
            self.kept.offer(Ranked {
                score,
                parts,
                ..ranked
            });
        }
        let least = self.kept.least();
        least.map_or(self.options.min_score, |least| least.score)
    }
}

impl Scope {
    /// The `limit` best entries with a score of at least what the options ask for, the best first.
    pub(super) fn rank(
        &self,
        query: &Analysis,
        limit: usize,
        options: &SearchOptions,
    ) -> Vec<Ranked> {
        let mut best = Best {
            scope: self,
            decay: query.decay(options),
            options,
            kept: TopK::new(limit),
        };
        match query {
            Analysis::Lexical(query) => {
                // Age may bring any entry before any other.
                let limit = best.decay.map_or(limit, |_| self.entries.len());
                self.lexical.for_each_above(query, limit, |hit| {
                    best.offer(hit.id, hit.score, Parts::default())
                });
            }
            Analysis::Cosine(row) => self.cosine.for_each_near(row, |neighbor| {
                let cosine = 1.0 - neighbor.distance;
                let parts = Parts {
                    cosine,
                    ..Parts::default()
                };
                farthest(best.offer(neighbor.id, cosine_score(neighbor.distance), parts))
            }),
            Analysis::Hybrid(query, row) => {
                for (point, parts) in self.sides(query, row, limit.saturating_mul(2)) {
                    best.offer(point, fusion::hybrid(parts.cosine, parts.share), parts);
                }
            }
        }
        best.kept.into_best_first()
    }

    /// The `limit` best entries by the cosine and the `limit` best by BM25; what only one side has of an
    /// entry counts 0 on the other.
    fn sides(&self, query: &Query, row: &SparseRow, limit: usize) -> BTreeMap<u32, Parts> {
        let mut near = TopK::new(limit);
        self.cosine.for_each_match(row, &mut |neighbor| {
            near.offer(self.ranked(neighbor.id, 1.0 - neighbor.distance, Parts::default()));
        });
        let own = self.lexical.own(query);
        let most = own.iter().copied().fold(0.0, f64::max);
        let mut said = TopK::new(limit);
        for (point, &sum) in (0..).zip(&own) {
            if sum > 0.0 {
                said.offer(self.ranked(point, sum, Parts::default()));
            }
        }
        let mut found: BTreeMap<u32, Parts> = BTreeMap::new();
        for each in near.into_best_first() {
            found.entry(each.point).or_default().cosine = each.score;
        }
        for each in said.into_best_first() {
            found.entry(each.point).or_default().share = each.score / most;
        }
        found
    }

    fn ranked(&self, point: u32, score: f64, parts: Parts) -> Ranked {
        let (id, created_at) = self.entries[point as usize];
        Ranked {
            score,
            created_at,
            id,
            point,
            parts,
        }
    }
}

/// The largest distance that may score as much. Two distances that differ in their last bits alone have
/// the same score.
fn farthest(score: f64) -> f64 {
    2.0 * (1.0 - score) + f64::EPSILON
}

/// `1 - distance / 2`: 1 for the same direction, 0.5 for nothing in common.
fn cosine_score(distance: f64) -> f64 {
    1.0 - distance / 2.0
}
