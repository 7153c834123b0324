//! A search by `lexical`: finds the best entries, and computes the exact scores of only a few.
//!
//! `near(e)` of an entry is never more than a bound made of its own sum and its neighbours' sums. The bound is
//! quick to compute (`bound`), and quicker for 64 entries at once. So entries are scored from the largest bound
//! down, until the bound falls below the worst score that is still of interest.
//!
//! For a query of one term, `near(e)` itself is as quick to compute, and takes the place of the bound: where all scores
//! are nearly equal, bounds would rule out nothing.

use std::mem;

use crate::bm25::buffers;
use crate::bm25::lexical::LexicalIndex;
use crate::bm25::neighbour_links::{GROUP, REACH};
use crate::bm25::neighbours::{LIFT, Parts, bound, bound_of_squares, lent, near, near_of_one};
use crate::bm25::scorer::{Scorer, number};
use crate::bm25::speakers::Named;
use crate::bm25::terms::Query;
use crate::postings::BLOCK;

/// The factor on a bound before it is compared with a score: more than all rounding errors.
const SLACK: f64 = 1.0 + 1e-9;

/// The steps in which bounds are taken, from the largest down, as multiples of the best sum of an entry by itself.
/// Few entries are above the first step, and few searches reach the last.
const STEPS: [f64; 9] = [2.4, 1.7, 1.2, 0.85, 0.6, 0.42, 0.3, 0.15, 0.0];

/// A found entry: it has a term of the query, or stands beside an entry that has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Its number in the index.
    pub id: u32,
    /// Above 0, up to 1.
    pub score: f64,
}

impl LexicalIndex {
    /// Calls `visit` once for each entry with a score above 0, in ascending order of number.
    pub fn for_each_match(&self, query: &Query, visit: impl FnMut(Match)) {
        self.with_scorer(query, |query, scorer| {
            Search::new(self, query, scorer).for_each_match(visit);
        });
    }

    /// Calls `visit` with the best entries, each at most once and with a score above 0. Every entry that scores at
    /// least the last result of `visit` is visited; some others are too.
    ///
    /// `visit` returns the least score that is still of interest; it must not fall. Entries that `admits` refuses
    /// are neither scored nor visited, but they still count as neighbours and for the statistics.
    pub fn for_each_best(
        &self,
        query: &Query,
        admits: impl Fn(u32) -> bool,
        visit: impl FnMut(Match) -> f64,
    ) {
        self.with_scorer(query, |query, scorer| {
            Search::new(self, query, scorer).for_each_best(admits, visit);
        });
    }
}

/// The state of one search.
struct Search<'a> {
    index: &'a LexicalIndex,
    scorer: &'a Scorer<'a>,
    ceiling: f64,
    /// How many terms the query has.
    terms: f64,
    /// The sum of each passage; empty if every entry has exactly one.
    sums: Vec<f64>,
    /// The sum of the best passage of each entry.
    own: Vec<f64>,
    /// The largest such sum of each group of entries, and of all.
    largest: Vec<f64>,
    best: f64,
    /// The sum of each day.
    days: Vec<f64>,
    named: Named<'a>,
    /// Made for the first entry that is scored by them.
    parts: Option<Parts<'a>>,
}

/// Upper bounds of the sums of entries, computed as needed.
struct Bounds {
    /// The bound of `near(e)` of each entry, and whether it was computed for a group. For a query of one term it is
    /// `near(e)` itself.
    near: Vec<f64>,
    is_known: Vec<bool>,
    /// The bound of each group's sums, and the largest addend of a day in the group.
    groups: Vec<f64>,
    days: Vec<f64>,
}

impl<'a> Search<'a> {
    fn new(index: &'a LexicalIndex, query: &Query, scorer: &'a Scorer<'a>) -> Self {
        let mut sums = buffers::zeros(index.passages.len());
        for (number, block) in sums.chunks_mut(BLOCK).enumerate() {
            scorer.add_block(number, block);
        }
        let own = if index.uneven.is_empty() {
            mem::take(&mut sums)
        } else {
            index.largest(&sums)
        };
        let largest: Vec<f64> = own.chunks(GROUP).map(largest).collect();
        Self {
            index,
            scorer,
            ceiling: scorer.ceiling(),
            terms: (0..scorer.len()).fold(0.0, |terms, _| terms + 1.0),
            sums,
            own,
            best: self::largest(&largest),
            largest,
            days: index.days.sums(query, scorer),
            named: index.speakers.named(query),
            parts: None,
        }
    }

    /// As [`LexicalIndex::for_each_match`].
    fn for_each_match(&mut self, mut visit: impl FnMut(Match)) {
        for group in 0..self.largest.len() {
            let first = group * GROUP;
            for (id, most) in (first..self.own.len()).zip(self.around(group)) {
                if most > 0.0 {
                    visit(self.score(number(id)));
                }
            }
        }
    }

    /// As [`LexicalIndex::for_each_best`].
    fn for_each_best(&mut self, admits: impl Fn(u32) -> bool, mut visit: impl FnMut(Match) -> f64) {
        let mut bounds = self.bounds();
        let mut found = Vec::new();
        // These are sums, not scores: the least one of interest, and the bound down to which all entries were seen.
        let (mut floor, mut above) = (0.0, f64::INFINITY);
        let best = self.best * self.named.largest();
        for step in STEPS {
            let least = f64::max(step * best, floor);
            if least >= above || best <= 0.0 {
                break;
            }
            self.collect(&mut bounds, least, above, &mut found);
            found.sort_unstable_by(|one: &(f64, u32), other| other.0.total_cmp(&one.0));
            for (most, id) in found.drain(..) {
                if most < floor {
                    break;
                }
                if !admits(id) {
                    continue;
                }
                if self.is_of_one_term() {
                    floor = visit(self.scored(id, bounds.near[id as usize])) * self.ceiling;
                } else if self.narrower(id) >= floor {
                    floor = visit(self.score(id)) * self.ceiling;
                }
            }
            above = least;
        }
    }

    /// The first bounds, of whole groups: from their best entry and their best day.
    fn bounds(&self) -> Bounds {
        let days = self.index.days.most(&self.days);
        let groups = days.iter().enumerate();
        let groups = groups.map(|(group, day)| {
            let near = self.near_group(group);
            if near > 0.0 {
                (near * self.named.most(group) + day) * SLACK
            } else {
                0.0
            }
        });
        Bounds {
            near: buffers::zeros(self.own.len()),
            is_known: vec![false; days.len()],
            groups: groups.collect(),
            days,
        }
    }

    /// An upper bound of `near(e)` for the entries of a group.
    fn near_group(&self, group: usize) -> f64 {
        let chain = &self.index.chain;
        let (regular, alone) = (chain.regular(group), chain.alone(group));
        let members = u64::MAX >> (GROUP - (self.own.len() - group * GROUP).min(GROUP));
        let beside = if alone & members == members {
            0.0
        } else if (regular | alone) & members == members {
            let end = self.largest.len().min(group + 2);
            largest(&self.largest[group.saturating_sub(1)..end])
        } else {
            self.best
        };
        self.largest[group] + LIFT * beside
    }

    /// Adds the entries whose bound is at least `least` and below `above`.
    fn collect(&self, bounds: &mut Bounds, least: f64, above: f64, found: &mut Vec<(f64, u32)>) {
        for group in 0..self.largest.len() {
            if bounds.groups[group] < least || bounds.groups[group] <= 0.0 {
                continue;
            }
            let first = group * GROUP;
            let members = first..self.own.len().min(first + GROUP);
            let factor = self.named.most(group);
            if !mem::replace(&mut bounds.is_known[group], true) {
                let around = self.around(group);
                bounds.groups[group] = (largest(&around) * factor + bounds.days[group]) * SLACK;
                bounds.near[members.clone()].copy_from_slice(&around[..members.len()]);
                if bounds.groups[group] < least {
                    continue;
                }
            }
            let day = bounds.days[group];
            for (id, &near) in members.clone().zip(&bounds.near[members]) {
                if near > 0.0 && (near * factor + day) * SLACK >= least {
                    let id = number(id);
                    let most = (near * self.named.factor(id) + self.day(id)) * SLACK;
                    if most >= least && most < above {
                        found.push((most, id));
                    }
                }
            }
        }
    }

    /// An upper bound of `near(e)` for each entry of a group; 0 where neither the entry nor a neighbour has a term
    /// of the query. For a query of one term it is `near(e)` itself.
    fn around(&self, group: usize) -> [f64; GROUP] {
        const WINDOW: usize = GROUP + 2 * REACH;
        let first = group * GROUP;
        // The entries of the group and those beside it by number, which are nearly always the neighbours.
        let mut own = [0.0; WINDOW];
        let from = first.saturating_sub(REACH);
        let known = &self.own[from..self.own.len().min(first + GROUP + REACH)];
        own[from + REACH - first..][..known.len()].copy_from_slice(known);
        let is_of_one_term = self.is_of_one_term();
        let mut lent = [0.0; WINDOW];
        if is_of_one_term {
            for (lent, id) in lent[from + REACH - first..]
                .iter_mut()
                .zip(from..self.own.len())
            {
                *lent = self.lent(number(id));
            }
        }
        let mut most = [0.0; GROUP];
        for (place, most) in most.iter_mut().enumerate() {
            let beside = if is_of_one_term { &lent } else { &own };
            let near: &[f64; 2 * REACH + 1] = beside[place..]
                .first_chunk()
                .expect("the window is wider than the group");
            let before = [near[3], near[2], near[1], near[0]];
            let after = [near[5], near[6], near[7], near[8]];
            *most = self.bound(own[place + REACH], before, after);
        }
        let members = u64::MAX >> (GROUP - (self.own.len() - first).min(GROUP));
        let mut others = members & !self.index.chain.regular(group);
        while others != 0 {
            let place = others.trailing_zeros() as usize;
            others &= others - 1;
            let of = |id: u32| self.own[id as usize];
            let (before, after) = if is_of_one_term {
                self.beside(number(first + place), |id| self.lent(id))
            } else {
                self.beside(number(first + place), of)
            };
            most[place] = self.bound(self.own[first + place], before, after);
        }
        most
    }

    /// Whether the query has one term alone, so that the sum of a passage is the part of that term.
    fn is_of_one_term(&self) -> bool {
        self.scorer.len() == 1
    }

    /// An upper bound of `near(e)` from the sums of an entry and its neighbours. For a query of one term it is
    /// `near(e)` itself, from the entry's sum and what its neighbours lend.
    #[inline]
    fn bound(&self, own: f64, before: [f64; REACH], after: [f64; REACH]) -> f64 {
        if self.is_of_one_term() {
            near_of_one(own, before, after)
        } else {
            bound(own, before, after)
        }
    }

    /// What an entry lends its neighbours for a query of one term.
    fn lent(&self, id: u32) -> f64 {
        let own = self.own[id as usize];
        if own <= 0.0 {
            return 0.0;
        }
        let best = self.index.best(id, |passage| self.sums[passage as usize]);
        best.map_or(0.0, |passage| lent(own, self.scorer.length(passage)))
    }

    /// `near(e)`.
    fn near(&mut self, id: u32) -> f64 {
        if self.is_of_one_term() {
            let (before, after) = self.beside(id, |id| self.lent(id));
            return near_of_one(self.own[id as usize], before, after);
        }
        let (index, sums, own) = (self.index, &self.sums, &self.own);
        let best = |entry: u32| {
            let has_term = own[entry as usize] > 0.0;
            let best = || index.best(entry, |passage| sums[passage as usize]);
            has_term.then(best).flatten()
        };
        let scorer = self.scorer;
        let parts = self.parts.get_or_insert_with(|| Parts::new(scorer));
        near(parts, id, index.chain.neighbors(id), best)
    }

    /// The score of an entry that has a term of the query, or stands beside one that has.
    fn score(&mut self, id: u32) -> Match {
        let near = self.near(id);
        self.scored(id, near)
    }

    /// The score of an entry whose `near(e)` is known.
    fn scored(&self, id: u32, near: f64) -> Match {
        Match {
            id,
            score: ((near * self.named.factor(id) + self.day(id)) / self.ceiling).min(1.0),
        }
    }

    /// A closer upper bound of the sum of an entry.
    fn narrower(&self, id: u32) -> f64 {
        let (before, after) = self.beside(id, |id| self.own[id as usize]);
        let near = bound_of_squares(self.terms, self.own[id as usize], before, after);
        (near * self.named.factor(id) + self.day(id)) * SLACK
    }

    /// A number of each of an entry's neighbours, the nearest first; 0 for none.
    #[inline]
    fn beside(&self, id: u32, number: impl Fn(u32) -> f64) -> ([f64; REACH], [f64; REACH]) {
        let (mut before, mut after) = ([0.0; REACH], [0.0; REACH]);
        let [ids_before, ids_after] = self.index.chain.neighbors(id);
        for (ids, numbers) in [(ids_before, &mut before), (ids_after, &mut after)] {
            for (id, found) in ids.into_iter().flatten().zip(numbers) {
                *found = number(id);
            }
        }
        (before, after)
    }

    fn day(&self, id: u32) -> f64 {
        self.index.days.share(&self.days, id)
    }
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        buffers::give_back(mem::take(&mut self.own));
        buffers::give_back(mem::take(&mut self.sums));
    }
}

impl Drop for Bounds {
    fn drop(&mut self) {
        buffers::give_back(mem::take(&mut self.near));
    }
}

/// The largest of numbers that are 0 or more; 0 for none.
fn largest(sums: &[f64]) -> f64 {
    const LANES: usize = 8;
    let (runs, rest) = sums.as_chunks::<LANES>();
    let mut most = [0.0_f64; LANES];
    for run in runs {
        for (most, &sum) in most.iter_mut().zip(run) {
            *most = if sum > *most { sum } else { *most };
        }
    }
    most.iter().chain(rest).copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bm25::{Bm25Params, Document};
    use crate::top_k::TopK;

    /// Entries of several passages or none, at places of a conversation with gaps, on some days.
    fn entries() -> impl Strategy<Value = Vec<(Vec<String>, i64, i64)>> {
        let passage = ("(silt|silt river|river|)", 0_usize..3, 0_usize..160).prop_map(
            |(words, often, others)| {
                let more = (0..others).map(|number| format!("{number}q"));
                let said = vec![words; often].into_iter().chain(more);
                said.collect::<Vec<String>>().join(" ")
            },
        );
        let passages = prop::collection::vec(passage, 0..3);
        prop::collection::vec((passages, 0_i64..200, 0_i64..4), 0..150)
    }

    /// The index of these entries, those before `settled` in lists.
    fn index(entries: &[(Vec<String>, i64, i64)], settled: usize) -> LexicalIndex {
        let mut index = LexicalIndex::new(Bm25Params::default());
        for (place, (passages, start, day)) in entries.iter().enumerate() {
            let passages = passages.iter().map(|text| Document::of(text));
            index.add(passages, (*start, start + 1), day * 86_400_000);
            if place == settled {
                index.passages.settle();
            }
        }
        index
    }

    proptest! {
        #[test]
        fn one_term_is_scored_as_several_are_to_the_last_bit(
            entries in entries(), settled in 0_usize..150, limit in 1_usize..12,
        ) {
            let (index, query) = (index(&entries, settled), Query::of("silt"));
            index.with_scorer(&query, |query, scorer| {
                let mut search = Search::new(&index, query, scorer);
                assert!(search.is_of_one_term());
                let mut parts = Parts::new(scorer);
                let sums = scorer.sums();
                for id in 0..number(search.own.len()) {
                    let best = |entry: u32| {
                        let best = index.best(entry, |passage| sums[passage as usize]);
                        best.filter(|&passage| sums[passage as usize] > 0.0)
                    };
                    let expected = near(&mut parts, id, index.chain.neighbors(id), best);
                    assert_eq!(search.near(id).to_bits(), expected.to_bits(), "{id}");
                    let around = search.around(id as usize / GROUP)[id as usize % GROUP];
                    assert_eq!(around.to_bits(), expected.to_bits(), "{id}");
                }
            });
            let mut all = Vec::new();
            index.for_each_match(&query, |hit| all.push((hit.score.to_bits(), hit.id)));
            all.sort_unstable_by(|one, other| other.cmp(one));
            all.truncate(limit);
            let mut best = TopK::new(limit);
            index.for_each_best(&query, |_| true, |hit| {
                best.offer((hit.score.to_bits(), hit.id));
                best.least().map_or(0.0, |&(score, _)| f64::from_bits(score))
            });
            prop_assert_eq!(best.into_best_first(), all);
        }
    }
}
