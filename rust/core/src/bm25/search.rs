//! A search by `lexical`: finds the best entries, and computes the exact scores of only a few.
//!
//! `near(e)` of an entry is never more than a bound made of its own sum and its neighbours' sums. The bound is
//! quick to compute, and quicker for 64 entries at once. So entries are scored from the largest bound
//! down, until the bound falls below the worst score that is still of interest.
//!
//! Where many entries of a group of 64 may be among the best, `near(e)` of the whole group is computed at once: where all
//! scores are nearly equal, bounds would rule out nothing.

use std::mem;
use std::ops::Range;

use crate::bm25::buffers;
use crate::bm25::lexical::LexicalIndex;
use crate::bm25::neighbour_links::{GROUP, REACH};
use crate::bm25::neighbours::{LIFT, SHARES, SQUARES, lending, squares};
use crate::bm25::scorer::{Scorer, number};
use crate::bm25::speakers::Named;
use crate::bm25::terms::Query;
use crate::postings::BLOCK;

/// The factor on a bound before it is compared with a score: more than all rounding errors.
const SLACK: f64 = 1.0 + 1e-9;

/// The entries of a group, and those beside it by number, which are nearly always their neighbours.
const WINDOW: usize = GROUP + 2 * REACH;

/// With more than so many entries of a group that may be among the best, `near(e)` of the whole group is computed.
const MANY: usize = 1;

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
}

/// Upper bounds of the sums of entries, computed as needed.
struct Bounds {
    /// The bound of `near(e)` of each entry. For a group whose bounds were computed: one bit for each entry where it is
    /// `near(e)` itself. One bit for each entry that was found.
    near: Vec<f64>,
    exact: Vec<Option<u64>>,
    found: Vec<u64>,
    /// The bound of each group's sums, and the largest addend of a day in the group.
    groups: Vec<f64>,
    days: Vec<f64>,
    /// Room for the parts of the entries around a group, a row a term.
    rows: Vec<Row>,
}

/// The part of each entry of a window, and room for one that does not count.
type Row = [f64; WINDOW + 1];

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
            sums,
            own,
            best: self::largest(&largest),
            largest,
            days: index.days.sums(query, scorer),
            named: index.speakers.named(query),
        }
    }

    /// As [`LexicalIndex::for_each_match`].
    fn for_each_match(&self, mut visit: impl FnMut(Match)) {
        let mut bounds = self.bounds();
        for group in 0..self.largest.len() {
            self.bound(group, &mut bounds);
            self.sharpen(group, &mut bounds, |near| near > 0.0);
            for (id, &near) in (group * GROUP..).zip(&bounds.near[self.range(group)]) {
                if near > 0.0 {
                    visit(self.score(&bounds, number(id)));
                }
            }
        }
    }

    /// As [`LexicalIndex::for_each_best`].
    fn for_each_best(&self, admits: impl Fn(u32) -> bool, mut visit: impl FnMut(Match) -> f64) {
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
            self.collect(&mut bounds, least, &mut found);
            found.sort_unstable_by(|one: &(f64, u32), other| other.0.total_cmp(&one.0));
            for (most, id) in found.drain(..) {
                if most < floor {
                    break;
                }
                if admits(id) {
                    floor = visit(self.score(&bounds, id)) * self.ceiling;
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
            exact: vec![None; days.len()],
            found: vec![0; days.len()],
            groups: groups.collect(),
            days,
            rows: Vec::new(),
        }
    }

    /// An upper bound of `near(e)` for the entries of a group.
    fn near_group(&self, group: usize) -> f64 {
        let chain = &self.index.chain;
        let (regular, alone) = (chain.regular(group), chain.alone(group));
        let members = self.all(group);
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

    /// Adds the entries whose bound is at least `least`, each once.
    fn collect(&self, bounds: &mut Bounds, least: f64, found: &mut Vec<(f64, u32)>) {
        for group in 0..self.largest.len() {
            if bounds.groups[group] < least || bounds.groups[group] <= 0.0 {
                continue;
            }
            let (factor, day) = (self.named.most(group), bounds.days[group]);
            if bounds.exact[group].is_none() {
                let near = self.bound(group, bounds);
                bounds.groups[group] = (near * factor + day) * SLACK;
                if bounds.groups[group] < least {
                    continue;
                }
            }
            let is_above = |near: f64| near > 0.0 && (near * factor + day) * SLACK >= least;
            self.sharpen(group, bounds, is_above);
            for (place, &near) in bounds.near[self.range(group)].iter().enumerate() {
                if is_above(near) && bounds.found[group] >> place & 1 == 0 {
                    let id = number(group * GROUP + place);
                    let most = (near * self.named.factor(id) + self.day(id)) * SLACK;
                    if most >= least {
                        found.push((most, id));
                        bounds.found[group] |= 1 << place;
                    }
                }
            }
        }
    }

    /// Computes the bounds of the entries of a group, and returns the largest.
    fn bound(&self, group: usize, bounds: &mut Bounds) -> f64 {
        let around = self.around(group);
        let range = self.range(group);
        bounds.near[range.clone()].copy_from_slice(&around[..range.len()]);
        bounds.exact[group] = Some(self.index.chain.alone(group));
        largest(&around)
    }

    /// Makes the bounds of a group exact, if many of them are above.
    fn sharpen(&self, group: usize, bounds: &mut Bounds, is_above: impl Fn(f64) -> bool) {
        let (alone, all) = (self.index.chain.alone(group), self.all(group));
        if bounds.exact[group] != Some(alone) || alone == all {
            return;
        }
        let near = &mut bounds.near[self.range(group)];
        let above = near.iter().map(|&near| usize::from(is_above(near)));
        if above.sum::<usize>() > MANY {
            let (found, exact) = self.exact(group, &mut bounds.rows);
            for (place, (near, found)) in near.iter_mut().zip(found).enumerate() {
                if exact >> place & 1 == 1 {
                    *near = found;
                }
            }
            bounds.exact[group] = Some(alone | exact);
        }
    }

    /// The entries of a group.
    fn range(&self, group: usize) -> Range<usize> {
        group * GROUP..self.own.len().min(group * GROUP + GROUP)
    }

    /// An upper bound of `near(e)` for each entry of a group; 0 where neither the entry nor a neighbour has a term
    /// of the query.
    fn around(&self, group: usize) -> [f64; GROUP] {
        let (chain, first) = (&self.index.chain, group * GROUP);
        let window = self.window(group);
        let mut sums = *window[REACH..]
            .first_chunk()
            .expect("a window is wider than a group");
        if chain.regular(group) != 0 {
            add_beside(&mut sums, &window, SHARES);
        }
        for id in members(group, self.all(group) & !chain.regular(group)) {
            let (before, after) = self.beside(id);
            let sum = &mut sums[id as usize - first];
            *sum = self.own[id as usize];
            for ((share, before), after) in SHARES.into_iter().zip(before).zip(after) {
                *sum += share * (before + after);
            }
        }
        sums
    }

    /// The sums of the entries of a group, and of those beside it by number, which are nearly always their neighbours.
    fn window(&self, group: usize) -> [f64; WINDOW] {
        let (first, mut window) = (group * GROUP, [0.0; WINDOW]);
        let from = first.saturating_sub(REACH);
        let known = &self.own[from..self.own.len().min(first + GROUP + REACH)];
        window[from + REACH - first..][..known.len()].copy_from_slice(known);
        window
    }

    /// `near(e)` for each entry of a group, and one bit for each that has it: nearly all, as their neighbours are mostly
    /// in the window. `rows` is a buffer.
    fn exact(&self, group: usize, rows: &mut Vec<Row>) -> ([f64; GROUP], u64) {
        const NONE: usize = WINDOW;
        let (index, first) = (self.index, group * GROUP);
        let from = first.saturating_sub(REACH);
        let entries = number(from)..number(self.own.len().min(first + GROUP + REACH));
        // The place in the window of each passage that is the best of its entry, and what the entries lend.
        let (mut places, mut lends) = (Vec::with_capacity(WINDOW), [0.0; WINDOW + 1]);
        let start = index.range(entries.start).start as usize;
        for (entry, place) in entries.clone().zip(from + REACH - first..) {
            let best = best(index, &self.sums, &self.own, entry);
            if self.scorer.len() > 1 {
                let passages = index.range(entry);
                places.extend(passages.map(|each| if best == Some(each) { place } else { NONE }));
            }
            lends[place] = best.map_or(0.0, |best| lending(self.scorer.length(best)));
        }
        rows.clear();
        rows.resize(self.scorer.len(), [0.0; WINDOW + 1]);
        let mut has_term = vec![false; self.scorer.len()];
        let passages = start..start + places.len();
        if let [row] = &mut rows[..] {
            row[..WINDOW].copy_from_slice(&self.window(group));
            has_term[0] = true;
        } else {
            self.scorer
                .for_each_addend_of(passages, |term, passage, addend| {
                    rows[term][places[passage - start]] = addend;
                    has_term[term] = true;
                });
        }
        // The other entries whose neighbours are in the window.
        let (mut others, mut exact) = (Vec::new(), index.chain.regular(group));
        for id in members(group, self.all(group) & !exact) {
            let sides = index.chain.neighbors(id);
            if sides
                .iter()
                .flatten()
                .flatten()
                .all(|near| entries.contains(near))
            {
                let place = |near: u32| near as usize + REACH - first;
                others.push((
                    id as usize - first,
                    sides.map(|side| side.map(|near| near.map_or(NONE, place))),
                ));
                exact |= 1 << (id as usize - first);
            }
        }
        let mut near = [0.0; GROUP];
        for (parts, _) in rows.iter().zip(has_term).filter(|(_, has_term)| *has_term) {
            let (mut squares, mut lent) = ([0.0; GROUP], [0.0; WINDOW + 1]);
            for ((lent, part), lends) in lent.iter_mut().zip(parts).zip(lends) {
                *lent = lends * (part * part);
            }
            for (square, part) in squares.iter_mut().zip(&parts[REACH..]) {
                *square = part * part;
            }
            add_beside(&mut squares, &lent, SQUARES);
            for &(place, [before, after]) in &others {
                squares[place] = parts[place + REACH] * parts[place + REACH];
                for ((share, before), after) in SQUARES.into_iter().zip(before).zip(after) {
                    squares[place] += share * (lent[before] + lent[after]);
                }
            }
            for (near, square) in near.iter_mut().zip(squares) {
                *near += square.sqrt();
            }
        }
        (near, exact & self.all(group))
    }

    /// One bit for each entry of a group.
    fn all(&self, group: usize) -> u64 {
        u64::MAX >> (GROUP - (self.own.len() - group * GROUP).min(GROUP))
    }

    /// The score of an entry that has a term of the query, or stands beside one that has.
    fn score(&self, bounds: &Bounds, id: u32) -> Match {
        let (group, place) = (id as usize / GROUP, id as usize % GROUP);
        let near = if bounds.exact[group].is_some_and(|bits| bits >> place & 1 == 1) {
            bounds.near[id as usize]
        } else {
            let best = |entry| best(self.index, &self.sums, &self.own, entry);
            let squares = squares(self.scorer, id, self.index.chain.neighbors(id), best);
            squares.iter().fold(0.0, |sum, square| sum + square.sqrt())
        };
        let sum = near * self.named.factor(id) + self.day(id);
        Match {
            id,
            score: (sum / self.ceiling).min(1.0),
        }
    }

    /// The sum of each of an entry's neighbours, the nearest first; 0 for none.
    fn beside(&self, id: u32) -> ([f64; REACH], [f64; REACH]) {
        let (mut before, mut after) = ([0.0; REACH], [0.0; REACH]);
        let [ids_before, ids_after] = self.index.chain.neighbors(id);
        for (ids, found) in [(ids_before, &mut before), (ids_after, &mut after)] {
            for (id, found) in ids.into_iter().flatten().zip(found) {
                *found = self.own[id as usize];
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

/// The best passage of an entry; None where it has no term of the query.
fn best(index: &LexicalIndex, sums: &[f64], own: &[f64], entry: u32) -> Option<u32> {
    if sums.is_empty() || own[entry as usize] <= 0.0 {
        return (own[entry as usize] > 0.0).then_some(entry); // every entry has one passage
    }
    index.best(entry, |passage| sums[passage as usize])
}

/// The entries of a group whose bits are set.
fn members(group: usize, mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let place = (bits != 0).then_some(bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(number(group * GROUP + place))
    })
}

/// Adds to each sum of a group the shares of what the entries beside it in the window lend.
fn add_beside(sums: &mut [f64; GROUP], lent: &[f64], shares: [f64; REACH]) {
    for (step, share) in shares.into_iter().enumerate() {
        let before = &lent[REACH - 1 - step..][..GROUP];
        let after = &lent[REACH + 1 + step..][..GROUP];
        for ((sum, before), after) in sums.iter_mut().zip(before).zip(after) {
            *sum += share * (before + after);
        }
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

    /// The index of these entries, those before `settled` in lists; `in_order` of the conversation, or not.
    fn index(entries: &[(Vec<String>, i64, i64)], in_order: bool, settled: usize) -> LexicalIndex {
        let mut index = LexicalIndex::new(Bm25Params::default());
        for ((place, at), (passages, start, day)) in (0..).zip(0_i64..).zip(entries) {
            let start = if in_order { at } else { *start };
            let passages = passages.iter().map(|text| Document::of(text));
            index.add(passages, (start, start + 1), day * 86_400_000);
            if place == settled {
                index.passages.settle();
            }
        }
        index
    }

    proptest! {
        #[test]
        fn a_group_is_scored_as_each_entry_by_itself_to_the_last_bit(
            entries in entries(), in_order: bool, settled in 0_usize..150,
            query in "silt|silt river|river 7q 9q silt",
        ) {
            let (index, query) = (index(&entries, in_order, settled), Query::of(&query));
            let mut all = Vec::new();
            index.for_each_match(&query, |hit| all.push((hit.id, hit.score.to_bits())));
            index.with_scorer(&query, |query, scorer| {
                let search = Search::new(&index, query, scorer);
                let bounds = search.bounds(); // no bound is exact
                let ids = (0..number(search.own.len())).filter(|&id| {
                    search.around(id as usize / GROUP)[id as usize % GROUP] > 0.0
                });
                for (place, id) in ids.collect::<Vec<u32>>().into_iter().enumerate() {
                    assert_eq!(all[place], (id, search.score(&bounds, id).score.to_bits()));
                }
            });
        }
    }
}
