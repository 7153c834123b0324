//! Ranks the entries of a session with each ranker.

use std::collections::BTreeMap;

use crate::analyse::{Asked, Gist, LanguageChoice, is_about_asking, word_bits};
use crate::bm25::Query;
use crate::embed::hash::HashRule;
use crate::embed::hashed_tf::counts;
use crate::fusion::{self, Decay, Decided, Spread, weights};
use crate::id::EntryId;
use crate::index::{DenseIndex, Near};
use crate::memory::options::{Fusion, QueryVector, Ranker, SearchIndex, SearchOptions};
use crate::memory::session_index::{Repeated, Scope};
use crate::top_k::TopK;
use crate::vector::SparseRow;

/// A graph is asked for so many times more rows where too few of them are different hits.
const MORE: usize = 8;

/// The factor on the score of a message that only asks what the query asks: it is worth less than an answer.
const ASKS: f64 = 0.7;

/// The most words that only one of a message and the query has, if both ask the same: one in so many.
const NEW: u32 = 4;

/// A query, as its ranker takes it.
pub(super) struct Analysis {
    pub(super) by: By,
    /// The bits of its words; none if it wants what was asked.
    words: Option<u64>,
    /// Whether the query has a number: then lines that differ in numbers are not one hit.
    has_number: bool,
}

/// A query in the form that its ranker takes.
pub(super) enum By {
    Lexical(Query),
    Cosine(SparseRow),
    Hybrid(Query, SparseRow),
    /// Includes the terms of the query, which give the score where there are no vectors.
    Dense(Query, QueryVector),
    Fused(Query, QueryVector),
}

impl Analysis {
    /// `vector` is the vector for `Dense` and `Fused`. Without it, the score is by terms.
    pub(super) fn of(
        query: &str,
        vector: Option<&QueryVector>,
        ranker: Ranker,
        hash_rule: HashRule,
    ) -> Self {
        let terms = Query::of(query);
        let by = match (ranker, vector) {
            (Ranker::Cosine, _) => By::Cosine(counts(query, hash_rule)),
            (Ranker::Hybrid, _) => By::Hybrid(terms, counts(query, hash_rule)),
            (Ranker::Dense, Some(vector)) => By::Dense(terms, vector.clone()),
            (Ranker::Fused, Some(vector)) => By::Fused(terms, vector.clone()),
            (Ranker::Lexical | Ranker::Dense | Ranker::Fused, _) => By::Lexical(terms),
        };
        Self {
            by,
            words: (!is_about_asking(query)).then(|| word_bits(query)),
            has_number: query.contains(char::is_numeric),
        }
    }

    /// The factor on the score of a text. The documented rankers know no question.
    fn asks(&self, text: Gist) -> f64 {
        if matches!(self.by, By::Cosine(_) | By::Hybrid(..)) {
            return 1.0;
        }
        let Some(words) = self.words else { return 1.0 };
        let covers = |one: u64, other: u64| (other & !one).count_ones() * NEW <= other.count_ones();
        if text.asks != 0 && covers(words, text.asks) && covers(text.asks, words) {
            ASKS
        } else {
            1.0
        }
    }

    /// The terms of the query, as read in those languages.
    pub(super) fn asked(&self, query: &str, languages: LanguageChoice) -> Asked {
        match &self.by {
            By::Lexical(terms)
            | By::Hybrid(terms, _)
            | By::Dense(terms, _)
            | By::Fused(terms, _) => Asked::new(terms.looked_for(), languages),
            By::Cosine(_) => Asked::of(query).among(languages),
        }
    }

    /// The embedder of the query's vector, if there is one.
    pub(super) fn embedder(&self) -> Option<i64> {
        match &self.by {
            By::Dense(_, vector) | By::Fused(_, vector) => Some(vector.embedder),
            By::Lexical(_) | By::Cosine(_) | By::Hybrid(..) => None,
        }
    }

    /// The decay of scores by age.
    fn decay(&self, options: &SearchOptions) -> Option<Decay> {
        let own = match self.by {
            By::Hybrid(..) => Some(Decay::DOCUMENTED),
            By::Lexical(_) | By::Cosine(_) | By::Dense(..) | By::Fused(..) => None,
        };
        options.decay.or(own)
    }
}

/// The parts of a score. Each ranker fills its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parts {
    /// The cosine of the hashed term frequencies.
    pub(super) cosine: f64,
    /// The nearest vector of the entry.
    pub(super) near: Option<Near>,
    /// The ranks of the entry by terms and by vectors, from 1.
    pub(super) ranks: [Option<u32>; 2],
    /// The entry's share of the best BM25 score of the query.
    pub(super) share: f64,
    /// The factor by which age lowered the score.
    pub(super) decay: f64,
    /// The factor of a message that only asks.
    pub(super) asks: f64,
}

/// An entry that matches. The better entry is greater; of equal scores the newer one, then the one with the smaller id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    pub(super) score: f64,
    pub(super) created_at: i64,
    pub(super) id: EntryId,
    /// Its number in the indexes.
    pub(super) point: u32,
    pub(super) parts: Parts,
    /// Entries with the same key are one hit.
    key: u64,
    pub(super) repeated: Option<Repeated>,
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

/// The result of a ranking.
pub(super) struct Ranking {
    /// The best first.
    pub(super) best: Vec<Ranked>,
    /// The ranker that scored: `Lexical` if there is no vector to compare with.
    pub(super) ranker: Ranker,
    /// The number of entries without a vector, if the ranker uses vectors.
    pub(super) lacking: usize,
    /// Both sides of the fusion by z-scores, if it was used.
    pub(super) sides: Option<Sides>,
}

/// The best entries so far.
struct Best<'a> {
    scope: &'a Scope,
    query: &'a Analysis,
    decay: Option<Decay>,
    options: &'a SearchOptions,
    /// Whether a search may return the point.
    admits: &'a dyn Fn(u32) -> bool,
    /// Whether nearly equal lines are one hit.
    joins: bool,
    kept: TopK<Ranked>,
}

impl Best<'_> {
    /// Offers an entry. Gives the least score that can still be among the best; factors can only lower a score.
    fn offer(&mut self, point: u32, score: f64, parts: Parts) -> f64 {
        let ranked = self.scope.ranked(point, score, parts);
        if let Some(least) = self.kept.least().filter(|least| ranked <= **least) {
            return least.score;
        }
        let factor = |decay: Decay| decay.factor(ranked.created_at, self.options.now);
        let decay = self.decay.map_or(1.0, factor);
        let repeats = &self.scope.repeats;
        let asks = self.query.asks(repeats.gists()[point as usize]);
        let score = score * decay * asks;
        if score >= self.options.min_score && (self.admits)(point) {
            let offered = Ranked {
                score,
                parts: Parts {
                    decay,
                    asks,
                    ..parts
                },
                key: repeats.key(point, self.joins),
                ..ranked
            };
            self.kept
                .offer_of_kind(offered, |one, other| one.key == other.key);
        }
        let least = self.kept.least();
        least.map_or(self.options.min_score, |least| least.score)
    }
}

impl Scope {
    /// The `limit` best entries that `admits` accepts, with at least the options' score, best first. Entries that it
    /// rejects still count for the weights of terms, neighbours and days.
    ///
    /// Lines of a log are one hit only if they would leave no place for others.
    pub(super) fn rank(
        &self,
        query: &Analysis,
        limit: usize,
        options: &SearchOptions,
        admits: &dyn Fn(u32) -> bool,
    ) -> Ranking {
        let found = self.rank_each(query, limit, options, admits, false);
        let is_line = |ranked: &Ranked| self.repeats.is_line(ranked.point);
        if query.has_number || found.best.len() < limit || !found.best.iter().any(is_line) {
            return found;
        }
        self.rank_each(query, limit, options, admits, true)
    }

    fn rank_each(
        &self,
        query: &Analysis,
        limit: usize,
        options: &SearchOptions,
        admits: &dyn Fn(u32) -> bool,
        joins: bool,
    ) -> Ranking {
        let mut best = Best {
            scope: self,
            query,
            decay: query.decay(options),
            options,
            admits,
            joins,
            kept: TopK::new(limit),
        };
        let (mut lacking, mut sides) = (0, None);
        let ranker = match &query.by {
            By::Lexical(query) => self.by_terms(query, &mut best),
            By::Cosine(row) if options.index != SearchIndex::Exact => {
                // Without a graph, this gives nothing: the search builds the graph and starts again.
                let mut wanted = limit + self.expiry.gone(options.now).len();
                while let Some(graph) = &self.graph {
                    let mut found = 0;
                    for (id, distance) in graph.nearest(row, wanted) {
                        found += 1;
                        if let Some(point) = self.point(id) {
                            best.offer(point, cosine_score(distance), of_distance(distance));
                        }
                    }
                    if best.kept.least().is_some() || found < wanted {
                        break;
                    }
                    wanted *= MORE; // many of them are one hit
                }
                Ranker::Cosine
            }
            By::Cosine(row) => {
                self.cosine.for_each_near(row, |neighbor| {
                    let parts = of_distance(neighbor.distance);
                    farthest(best.offer(neighbor.id, cosine_score(neighbor.distance), parts))
                });
                Ranker::Cosine
            }
            By::Hybrid(query, row) => {
                for (point, parts) in self.sides(query, row) {
                    best.offer(point, fusion::hybrid(parts.cosine, parts.share), parts);
                }
                Ranker::Hybrid
            }
            By::Dense(terms, vector) | By::Fused(terms, vector) => {
                let dense = self.dense.as_ref().filter(|dense| !dense.index.is_empty());
                lacking = self.entries.len() - dense.map_or(0, |dense| dense.index.len());
                match (dense, &query.by) {
                    (None, _) => self.by_terms(terms, &mut best),
                    (Some(dense), By::Dense(..)) => {
                        dense.index.for_each_near(&vector.numbers, &mut |near| {
                            best.offer(near.id, cosine_score(1.0 - near.cosine), of(near));
                        });
                        Ranker::Dense
                    }
                    (Some(dense), _) if options.fusion == Fusion::ReciprocalRank => {
                        let near = nearest(self, dense.index.as_ref(), &vector.numbers);
                        self.by_ranks(terms, &near, &mut best);
                        Ranker::Fused
                    }
                    (Some(dense), _) => {
                        let index = dense.index.as_ref();
                        let both = Sides::of(self, terms, index, &vector.numbers, admits);
                        for (point, near) in (0..).zip(&both.near) {
                            let score = both.score(self, point).clamp(0.0, 1.0);
                            if score > 0.0 {
                                best.offer(point, score, near.map_or_else(Parts::default, of));
                            }
                        }
                        sides = Some(both);
                        Ranker::Fused
                    }
                }
            }
        };
        let mut best = best.kept.into_best_first();
        for ranked in &mut best {
            ranked.repeated = self.repeated(ranked.point, ranked.key, admits);
        }
        Ranking {
            best,
            ranker,
            lacking,
            sides,
        }
    }

    fn by_terms(&self, query: &Query, best: &mut Best<'_>) -> Ranker {
        let admits = best.admits;
        self.lexical.for_each_best(query, admits, |hit| {
            best.offer(hit.id, hit.score, Parts::default())
        });
        Ranker::Lexical
    }

    /// Scores by reciprocal ranks: the rank of an entry by terms, and its rank by vectors.
    fn by_ranks(&self, terms: &Query, near: &[Option<Near>], best: &mut Best<'_>) {
        let mut ranks = vec![[None; 2]; self.entries.len()];
        let mut said = Vec::new();
        self.lexical.for_each_match(terms, |hit| {
            said.push(self.ranked(hit.id, hit.score, Parts::default()));
        });
        let mut close: Vec<Ranked> = near
            .iter()
            .flatten()
            .map(|near| self.ranked(near.id, near.cosine, Parts::default()))
            .collect();
        for (side, order) in [&mut said, &mut close].into_iter().enumerate() {
            order.sort_unstable_by(|one, other| other.cmp(one));
            for (rank, each) in (1..).zip(order.iter()) {
                ranks[each.point as usize][side] = Some(rank);
            }
        }
        for (point, (ranks, near)) in (0..).zip(ranks.into_iter().zip(near)) {
            if ranks != [None; 2] {
                let parts = near.map_or_else(Parts::default, of);
                best.offer(point, fusion::reciprocal(ranks), Parts { ranks, ..parts });
            }
        }
    }

    /// The cosine and the BM25 share of every entry that either side finds; a side that does not find it counts 0.
    /// Every entry is scored, so the best score does not depend on the limit.
    fn sides(&self, query: &Query, row: &SparseRow) -> BTreeMap<u32, Parts> {
        let mut found: BTreeMap<u32, Parts> = BTreeMap::new();
        self.cosine.for_each_near(row, |neighbor| {
            found.entry(neighbor.id).or_default().cosine = 1.0 - neighbor.distance;
            f64::INFINITY
        });
        let own = self.lexical.own(query);
        let most = own.iter().copied().fold(0.0, f64::max);
        for (point, &sum) in (0..).zip(&own) {
            if sum > 0.0 {
                found.entry(point).or_default().share = sum / most;
            }
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
            key: 0,
            repeated: None,
        }
    }
}

/// The parts of a score by cosine.
fn of_distance(distance: f64) -> Parts {
    Parts {
        cosine: 1.0 - distance,
        ..Parts::default()
    }
}

/// The largest distance that can still have that score. Distances that differ only in their last bits can have the
/// same score.
fn farthest(score: f64) -> f64 {
    2.0 * (1.0 - score) + f64::EPSILON
}

fn of(near: Near) -> Parts {
    Parts {
        near: Some(near),
        ..Parts::default()
    }
}

/// `1 - distance / 2`: 1 for the same direction, 0.5 for nothing in common.
fn cosine_score(distance: f64) -> f64 {
    1.0 - distance / 2.0
}

// The `fused` ranker: terms and vectors in one score.
//
// ```text
// l(e)     = the score by `lexical`, with neighbours and the day
// c(e)     = the cosine of the nearest passage; the mean of all c where the entry has no vector yet
// mix(e)   = w_l * l(e) + w_c * c(e), with the weights of z-scores (`fusion::weights`), of which vectors have the more
//            the less words find (`fusion::Decided`)
// beside(e)= b * (0.3 * (d(e-1) + d(e+1)) + 0.15 * (d(e-2) + d(e+2))), with d(e) = c(e) - mean of c, and b = w_c where
//            words find enough, 0 where they find nothing
// score(e) = mix(e) + beside(e), cut to 0..1
// ```
//
// The order of `mix` is the order by the sum of z-scores over the session's entries, but on a scale that can be
// compared between queries. Cosines of neighbours are added like `lexical` adds its neighbours. Entries with score 0
// are not found.

/// The shares of the cosines of the nearest and of the second nearest neighbour, on either side.
const SHARES: [f64; 2] = [0.3, 0.15];

/// Both scores of every entry of a session, for one query.
pub(super) struct Sides {
    /// The score of each entry by `lexical`.
    pub(super) lexical: Vec<f64>,
    /// The nearest vector of each entry; None for an entry without a vector.
    pub(super) near: Vec<Option<Near>>,
    pub(super) spreads: [Spread; 2],
    pub(super) weights: [f64; 2],
    pub(super) mix: Vec<f64>,
    /// The weight of the cosines of neighbours.
    beside: f64,
}

impl Sides {
    pub(super) fn of(
        scope: &Scope,
        query: &Query,
        index: &dyn DenseIndex,
        vector: &[f32],
        admits: &dyn Fn(u32) -> bool,
    ) -> Self {
        let mut lexical = vec![0.0; scope.entries.len()];
        scope
            .lexical
            .for_each_match(query, |found| lexical[found.id as usize] = found.score);
        let near = nearest(scope, index, vector);
        let cosines = near.iter().flatten().map(|near| near.cosine);
        let spreads = [Spread::of(lexical.iter().copied()), Spread::of(cosines)];
        let admitted = || {
            (0..)
                .zip(lexical.iter().zip(&near))
                .filter(|(point, _)| admits(*point))
        };
        let best = admitted().map(|(_, (score, _))| *score).fold(0.0, f64::max);
        let nearest = admitted().filter_map(|(_, (_, near))| near.map(|near| near.cosine));
        let z = spreads[1].z(nearest.fold(spreads[1].mean, f64::max));
        let decided = Decided::of(best, query.size(), z, near.iter().flatten().count());
        let weights = weights(spreads, decided.share);
        let mix: Vec<f64> = lexical
            .iter()
            .zip(&near)
            .map(|(lexical, near)| {
                let cosine = near.map_or(spreads[1].mean, |near| near.cosine);
                weights[0] * lexical + weights[1] * cosine
            })
            .collect();
        Self {
            lexical,
            near,
            spreads,
            weights,
            mix,
            beside: weights[1] * (1.0 - decided.lost),
        }
    }

    /// The score of an entry, not yet cut to 0..1.
    pub(super) fn score(&self, scope: &Scope, point: u32) -> f64 {
        let [before, after] = scope.lexical.neighbors(point);
        let beside =
            |step: usize| SHARES[step] * (self.lift(before[step]) + self.lift(after[step]));
        self.mix[point as usize] + beside(0) + beside(1)
    }

    /// The neighbours of an entry: point, distance, and the score that it adds or subtracts. Neighbours before the
    /// entry come first.
    pub(super) fn beside(&self, scope: &Scope, point: u32) -> Vec<(u32, i64, f64)> {
        let mut found = Vec::new();
        for (side, sign) in scope.lexical.neighbors(point).into_iter().zip([-1, 1]) {
            for (neighbor, (share, distance)) in side.into_iter().zip(SHARES.into_iter().zip(1..)) {
                if let Some(id) = neighbor {
                    found.push((id, sign * distance, share * self.lift(neighbor)));
                }
            }
        }
        found
    }

    /// The distance of a neighbour's cosine from the mean, times its weight; 0 without a neighbour.
    fn lift(&self, neighbor: Option<u32>) -> f64 {
        let near = neighbor.and_then(|point| self.near[point as usize]);
        near.map_or(0.0, |near| {
            self.beside * (near.cosine - self.spreads[1].mean)
        })
    }
}

/// The nearest vector of each entry of the scope, in the order of the entries.
pub(super) fn nearest(scope: &Scope, index: &dyn DenseIndex, vector: &[f32]) -> Vec<Option<Near>> {
    let mut near = vec![None; scope.entries.len()];
    index.for_each_near(vector, &mut |found| near[found.id as usize] = Some(found));
    near
}
