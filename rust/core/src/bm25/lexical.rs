//! The `lexical` ranker: entries of passages, lifted by what stands beside them and by their day.
//!
//! ```text
//! own(e)   = the largest S(p) over the passages p of the entry
//! near(e)  = own(e) with what its neighbours have of the query (`near.rs`)
//! day(e)   = the sum of BM25 of the day of the entry, among all days (`days.rs`)
//! score(e) = min(1, (near(e) + day(e)) / ceiling), where near(e) is above 0
//! ```
//!
//! `S` and `ceiling` are those of BM25 over passages, the query weighed as `score.rs` says. So an answer that has no term of the
//! query is found by the question before it. Sums are taken in one order, so every way to a score gives the
//! same bits.

use std::mem;
use std::ops::Range;

use crate::bm25::chain::{Chain, REACH};
use crate::bm25::days::Days;
use crate::bm25::index::Bm25Index;
use crate::bm25::near::{MOST, Parts, Why, bound, near, shares};
use crate::bm25::params::Bm25Params;
use crate::bm25::score::Weighing;
use crate::bm25::scorer::Scorer;
use crate::bm25::terms::{Document, Query};

/// What a bound is raised by before it is held against a score: more than all that rounding takes.
const SLACK: f64 = 1.0 + 1e-9;

/// Entries that are passed over together where none of them has enough of the query.
const GROUP: usize = 64;

/// Entries, numbered from 0 in the order they were added.
///
/// ```
/// use siltstone_core::bm25::{Bm25Params, Document, LexicalIndex, Query};
///
/// let mut index = LexicalIndex::new(Bm25Params::default());
/// index.add([Document::of("Where does the silt settle?")], (0, 1), 0);
/// index.add([Document::of("In the delta.")], (1, 2), 0);
/// index.add([Document::of("The kettle is on.")], (9, 10), 0);
/// let mut found = Vec::new();
/// index.for_each_match(&Query::of("silt"), |hit| found.push(hit.id));
/// assert_eq!(found, [0, 1]); // the answer stands beside the question
/// ```
#[derive(Clone, Debug)]
pub struct LexicalIndex {
    passages: Bm25Index,
    /// The first passage of each entry.
    firsts: Vec<u32>,
    /// The entries that have not exactly one.
    uneven: Vec<u32>,
    chain: Chain,
    days: Days,
}

/// An entry that has a term of the query, or stands beside one that has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Its number in the index.
    pub id: u32,
    /// Above 0, up to 1.
    pub score: f64,
}

impl LexicalIndex {
    /// An index without entries.
    #[must_use]
    pub fn new(params: Bm25Params) -> Self {
        Self {
            passages: Bm25Index::new(params),
            firsts: Vec::new(),
            uneven: Vec::new(),
            chain: Chain::default(),
            days: Days::default(),
        }
    }

    /// Adds an entry of these passages, which came from the messages `range` at a moment in milliseconds
    /// since 1970, and gives its number.
    ///
    /// An empty range is that of an entry which came from no message: it has no neighbours, and no day.
    pub fn add(
        &mut self,
        passages: impl IntoIterator<Item = Document>,
        range: (i64, i64),
        created_at: i64,
    ) -> u32 {
        let id = count(self.firsts.len());
        self.firsts.push(count(self.passages.len()));
        self.days.add((range.0 < range.1).then_some(created_at));
        for passage in passages {
            self.passages.add(&passage);
            self.days.add_passage(&passage);
        }
        if self.range(id).len() != 1 {
            self.uneven.push(id);
        }
        self.chain.add(range);
        id
    }

    /// The passages of all entries.
    #[must_use]
    pub fn passages(&self) -> &Bm25Index {
        &self.passages
    }

    /// What each entry has of the query by itself, as plain BM25 counts it and whatever stands beside it: the
    /// largest sum over its passages, in order of number.
    #[must_use]
    pub fn own(&self, query: &Query) -> Vec<f64> {
        let sums = self.passages.sums(query);
        if self.uneven.is_empty() {
            sums
        } else {
            self.largest(&sums)
        }
    }

    /// The nearest before entry `id` in the conversation and after it, the nearest first.
    #[must_use]
    pub fn neighbors(&self, id: u32) -> [[Option<u32>; REACH]; 2] {
        self.chain.neighbors(id)
    }

    /// Calls `visit` once for each entry with a score above 0, in ascending order of number.
    pub fn for_each_match(&self, query: &Query, mut visit: impl FnMut(Match)) {
        let scorer = self.scorer(query);
        let mut search = Search::new(self, query, &scorer);
        for id in 0..count(self.firsts.len()) {
            if bound(&search.own, &self.chain, id) > 0.0 {
                visit(search.score(id));
            }
        }
    }

    /// Calls `visit` with entries, each at most once and with a score above 0: with all that score what
    /// `visit` gave last, or more, and with some others.
    ///
    /// What `visit` gives is the least score that is still of interest; it must not fall.
    pub fn for_each_best(&self, query: &Query, mut visit: impl FnMut(Match) -> f64) {
        let scorer = self.scorer(query);
        let mut search = Search::new(self, query, &scorer);
        let largest: Vec<f64> = search.own.chunks(GROUP).map(largest).collect();
        let best = self::largest(&largest);
        // Near good entries first: what they score is what all others are held against.
        let (mut floor, mut above) = (0.0, f64::INFINITY);
        for least in [best / 2.0, best / 4.0, 0.0] {
            // Entries around those with less cannot reach the floor.
            let least = search.least(floor).max(least);
            if least >= above {
                break;
            }
            let mut found = Vec::new();
            for (group, &most) in largest.iter().enumerate() {
                if most < least || most <= 0.0 {
                    continue;
                }
                let first = group * GROUP;
                for place in first..search.own.len().min(first + GROUP) {
                    let own = search.own[place];
                    if own >= least && own < above && own > 0.0 {
                        search.look_around(count(place), floor, &mut found);
                    }
                }
            }
            found.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
            for (most, id) in found {
                if most < floor * search.ceiling {
                    break;
                }
                floor = visit(search.score(id));
            }
            above = least;
        }
    }

    /// The largest sum of each entry, of the sums of all passages.
    fn largest(&self, sums: &[f64]) -> Vec<f64> {
        let mut own = Vec::with_capacity(self.firsts.len());
        let mut read = 0;
        for &id in &self.uneven {
            // Those before it have one passage each.
            let (even, range) = (id as usize - own.len(), self.range(id));
            own.extend_from_slice(&sums[read..read + even]);
            let passages = &sums[range.start as usize..range.end as usize];
            own.push(passages.iter().copied().fold(0.0, f64::max));
            read = range.end as usize;
        }
        own.extend_from_slice(&sums[read..]);
        own
    }

    /// How the score of entry `id` came about.
    #[must_use]
    pub fn why(&self, query: &Query, id: u32) -> Why {
        let scorer = self.scorer(query);
        let ceiling = scorer.ceiling();
        let best = |entry| self.best(entry, |passage| scorer.sum(passage));
        let mut found = Parts::new(&scorer, self.firsts.len());
        let (own, neighbors) = shares(&mut found, &self.chain, id, best);
        let mut own = own.into_iter().filter(|&share| share > 0.0);
        let mut why = self.alone(&scorer, id);
        for part in &mut why.parts {
            part.score = own.next().unwrap_or(0.0) / ceiling;
        }
        // `sum` of no floats is -0.0.
        why.own = why.parts.iter().fold(0.0, |sum, part| sum + part.score);
        why.neighbors = neighbors;
        for neighbor in &mut why.neighbors {
            neighbor.score /= ceiling;
        }
        let days = self.days.sums(query);
        why.day = self.days.share(&days, id) / ceiling;
        why
    }

    /// How it would come about as plain BM25 counts it: without those that stand beside it, and without its
    /// day.
    #[must_use]
    pub fn why_alone(&self, query: &Query, id: u32) -> Why {
        self.alone(&self.passages.scorer(query), id)
    }

    /// What a query is held against here.
    fn scorer<'a>(&'a self, query: &'a Query) -> Scorer<'a> {
        Scorer::new(&self.passages, query, Weighing::Lexical)
    }

    fn alone(&self, scorer: &Scorer<'_>, id: u32) -> Why {
        let range = self.range(id);
        let best = self.best(id, |passage| scorer.sum(passage));
        Why {
            parts: best.map_or_else(Vec::new, |passage| scorer.parts(passage)),
            passage: best.map_or(0, |passage| passage - range.start),
            passages: range.end - range.start,
            own: best.map_or(0.0, |passage| scorer.sum(passage)) / scorer.ceiling(),
            neighbors: Vec::new(),
            day: 0.0,
        }
    }

    /// The best passage of an entry, the first of equal ones; None where it has no passage.
    fn best(&self, id: u32, sum: impl Fn(u32) -> f64) -> Option<u32> {
        let range = self.range(id);
        if range.len() < 2 {
            return range.clone().next();
        }
        let mut best = (range.start, 0.0);
        for passage in range {
            let sum = sum(passage);
            if sum > best.1 {
                best = (passage, sum);
            }
        }
        Some(best.0)
    }

    fn range(&self, id: u32) -> Range<u32> {
        let end = self.firsts.get(id as usize + 1).copied();
        self.firsts[id as usize]..end.unwrap_or_else(|| count(self.passages.len()))
    }
}

/// What is known of a query while its entries are ranked.
struct Search<'a> {
    index: &'a LexicalIndex,
    ceiling: f64,
    /// The sum of each passage, where an entry may have several.
    sums: Vec<f64>,
    /// That of the best passage of each entry.
    own: Vec<f64>,
    /// The sum of each day, and the best of them.
    days: Vec<f64>,
    best_day: f64,
    parts: Parts<'a>,
    seen: Vec<bool>,
}

impl<'a> Search<'a> {
    fn new(index: &'a LexicalIndex, query: &Query, scorer: &'a Scorer<'a>) -> Self {
        let mut sums = scorer.sums();
        let own = if index.uneven.is_empty() {
            mem::take(&mut sums)
        } else {
            index.largest(&sums)
        };
        let days = index.days.sums(query);
        Self {
            index,
            ceiling: scorer.ceiling(),
            sums,
            best_day: days.iter().copied().fold(0.0, f64::max),
            days,
            parts: Parts::new(scorer, own.len()),
            seen: vec![false; own.len()],
            own,
        }
    }

    /// The score of an entry that has a term of the query, or stands beside one that has.
    fn score(&mut self, id: u32) -> Match {
        let (index, sums) = (self.index, &self.sums);
        let best = |entry| index.best(entry, |passage| sums[passage as usize]);
        let near = near(&mut self.parts, &index.chain, id, best);
        let sum = near + index.days.share(&self.days, id);
        Match {
            id,
            score: (sum / self.ceiling).min(1.0),
        }
    }

    /// The least sum that an entry, or a neighbour of it, has if the entry is to score `floor`.
    fn least(&self, floor: f64) -> f64 {
        (floor * self.ceiling / SLACK - self.best_day) / MOST
    }

    /// An entry and its neighbours, as far as they may reach the floor and were not seen before, each with
    /// the most that it can reach.
    fn look_around(&mut self, id: u32, floor: f64, found: &mut Vec<(f64, u32)>) {
        let sides = self.index.chain.neighbors(id);
        for each in sides.into_iter().flatten().flatten().chain([id]) {
            if mem::replace(&mut self.seen[each as usize], true) {
                continue;
            }
            let day = self.index.days.share(&self.days, each);
            let most = (bound(&self.own, &self.index.chain, each) + day) * SLACK;
            if most >= floor * self.ceiling {
                found.push((most, each));
            }
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

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("an index in memory holds fewer than 2^32 passages")
}
