//! Finds the best passages for a query without scoring every passage.
//!
//! The algorithm is `MaxScore` (Turtle and Flood 1995), applied to one block at a time. Each term has a bound: the
//! most that it adds to any passage. Terms are sorted by bound, and the smallest ones, as long as their bounds
//! together stay below the worst score that is kept, are called non-essential: a passage that has only those cannot
//! be among the best. The essential terms are added up in f32. The non-essential terms are looked up only for the
//! few passages that may still reach the worst kept score. The bounds leave room for the rounding of f32. A passage
//! that passes all bounds is scored in f64 as [`Scorer::sum`] does, so the result is equal, to the bit, to scoring
//! all passages. The first passages that are scored are those of a block that have most of its rarest terms; they
//! give the first worst score.

use std::mem;

use crate::bm25::buffers::{Bounded, Scratch};
use crate::bm25::index::Bm25Index;
use crate::bm25::score::{Factors, Short, narrow};
use crate::bm25::scorer::{Scored, Scorer, number};
use crate::bm25::terms::Query;
use crate::postings::{BLOCK, count, entry};
use crate::simd::Level;
use crate::simd::prefetch::prefetch;
use crate::simd::reach::{GROUP, Masks, members, reach};
use crate::top_k::TopK;

/// An upper bound of the rounding error of a division and a multiplication.
const ROOM: f64 = 1e-12;
/// An upper bound of the rounding error in f32, for each term of a sum.
const ROOM_OF_TERM: f64 = f32::EPSILON as f64;
/// Up to so many passages of a block are scored one by one; with more, the whole block is scored.
const FEW: usize = 64;
/// The most candidates of a block that are sorted by their f32 sum. The highest of them are scored first, and their
/// scores rule out others.
const MANY: usize = 256;
/// Adding so many codes takes about as long as looking up one.
const LOOK_UP: usize = 16;
/// Up to so many codes, it is quicker to clear their sums one by one than to clear the whole block.
const SPARSE: usize = 64;
/// Postings that are added up for the first bound: at least `SEEDS`, plus `SEEDS_OF_EACH` for each passage that is
/// asked for.
const SEEDS: usize = 128;
const SEEDS_OF_EACH: usize = 4;

impl Bm25Index {
    /// The `limit` best passages that have a term of the query: the best first, ties by number.
    ///
    /// A score is the sum divided by the ceiling, and at most 1.
    #[must_use]
    pub fn search(&self, query: &Query, limit: usize) -> Vec<Scored> {
        search(&self.scorer(query), limit)
    }
}

/// The `limit` best passages, the best first, ties by number.
fn search(scorer: &Scorer<'_>, limit: usize) -> Vec<Scored> {
    if limit == 0 {
        return Vec::new();
    }
    let blocks = scorer.blocks();
    let mut last = [0; BLOCK];
    if let Some(rest) = blocks.checked_sub(1).map(|number| scorer.shorts(number)) {
        last[..rest.len()].copy_from_slice(rest);
    }
    #[expect(clippy::cast_precision_loss, reason = "few terms")]
    let terms = scorer.len() as f64;
    let scratch = Scratch::take();
    let mut search = Search {
        scorer,
        factors: scorer.norms.factors(),
        level: Level::current(),
        limit,
        best: TopK::new(limit),
        least: 0.0,
        room: (terms + 8.0) * ROOM_OF_TERM,
        bounds: scratch.bounds,
        shorts: &last,
        added: scratch.added.unwrap_or_else(|| Box::new([0.0; BLOCK])),
        sums: scratch.sums,
        places: scratch.places,
        codes: scratch.codes,
        known: scratch.known,
    };
    for number in 0..blocks {
        search.shorts = scorer.shorts(number).first_chunk().unwrap_or(&last);
        search.block(number);
    }
    let scratch = Scratch {
        bounds: search.bounds,
        added: Some(search.added),
        sums: search.sums,
        places: search.places,
        codes: search.codes,
        known: search.known,
    };
    scratch.give_back();
    search.best.into_best_first()
}

struct Search<'a> {
    scorer: &'a Scorer<'a>,
    factors: &'a Factors,
    level: Level,
    limit: usize,
    best: TopK<Scored>,
    /// A passage whose sum is not above this has a lower score than every passage that is kept.
    least: f64,
    /// An upper bound of the relative rounding error of a sum in f32.
    room: f64,
    /// The terms of the current block, the smallest bound first.
    bounds: Vec<Bounded<'a>>,
    /// The lengths of the passages of the current block.
    shorts: &'a [Short; BLOCK],
    /// The f32 sums of the current block, one a passage; all 0 between blocks.
    added: Box<[f32; BLOCK]>,
    sums: Vec<f64>,
    places: Vec<u16>,
    /// Room for the codes that those passages have of one term.
    codes: Vec<u16>,
    /// The passages of the current block that were scored already.
    known: Vec<u16>,
}

impl Search<'_> {
    fn block(&mut self, number: usize) {
        if !self.scorer.norms.has_factors() {
            return self.add_all(number);
        }
        let most = self.scorer.norms.most();
        self.bounds.clear();
        for &list in self.scorer.lists(number) {
            let weight = self.scorer.weight(list.term);
            self.bounds.push(Bounded {
                most: weight * most,
                weight: narrow(weight),
                list,
            });
        }
        self.bounds
            .sort_unstable_by(|one, other| one.most.total_cmp(&other.most));
        self.known.clear();
        if self.least <= 0.0 {
            self.seed(number);
            if self.least <= 0.0 {
                return self.add_all(number);
            }
        }
        // The first `others` terms are non-essential: together they add at most `rest`.
        let (mut others, mut rest) = (0, 0.0);
        for bounded in &self.bounds {
            if (rest + bounded.most) * (1.0 + self.room) >= self.least {
                break;
            }
            rest += bounded.most;
            others += 1;
        }
        self.prefetch(number + 1, others);
        let are_few = others == self.bounds.len() || {
            let (are_few, first) = self.add_some(number, others, rest);
            self.clear(first);
            are_few
        };
        if are_few {
            self.offer_newest(number);
        } else {
            self.add_all(number);
        }
    }

    /// Prefetches those lists of the next block whose bound is as large as that of an essential term of this one.
    fn prefetch(&self, number: usize, others: usize) {
        let least = self.bounds.get(others).map_or(0.0, |term| term.most);
        if number < self.scorer.blocks() {
            for list in self.scorer.lists(number) {
                if self.scorer.weight(list.term) * self.scorer.norms.most() >= least {
                    prefetch(list.codes);
                }
            }
        }
    }

    /// Adds up the essential terms, and looks up the first `others` terms for the candidates. Returns false where
    /// there are too many candidates, and the first term that was added up.
    fn add_some(&mut self, number: usize, mut others: usize, mut rest: f64) -> (bool, usize) {
        for place in others..self.bounds.len() {
            self.add_list(place);
        }
        loop {
            let most = match others.checked_sub(1) {
                Some(next) => (self.bounds[next].list.codes.len() / LOOK_UP).max(FEW),
                None => MANY,
            };
            if self.collect(others, self.cut(rest), most) {
                break;
            }
            // There are too many candidates. Adding up one more term leaves fewer.
            let Some(next) = others.checked_sub(1) else {
                return (false, 0);
            };
            self.add_list(next);
            others = next;
            rest = self.bounds[..others].iter().map(|term| term.most).sum();
        }
        for next in (0..others).rev() {
            let Bounded { most, weight, list } = self.bounds[next];
            rest = (rest - most).max(0.0);
            let cut = self.cut(rest);
            let (factors, shorts, added) = (self.factors, self.shorts, &mut self.added);
            let (places, codes) = (&mut self.places, &mut self.codes);
            list.codes_of(places, codes);
            let mut kept = 0;
            for (number, &code) in codes.iter().enumerate() {
                let place = places[number];
                let at = usize::from(place) % BLOCK;
                added[at] += weight * factors.factor(count(code), shorts[at]);
                // Whether the place is kept is hard to predict for the processor: writing it always avoids a
                // branch.
                places[kept] = place;
                kept += usize::from(added[at] >= cut);
            }
            places.truncate(kept);
        }
        let (cut, added, known) = (self.cut(0.0), &self.added, &self.known);
        self.places
            .retain(|place| added[usize::from(*place) % BLOCK] >= cut && !known.contains(place));
        self.offer_richest(number);
        let are_few = self.places.len() <= FEW;
        if are_few {
            self.offer_places(number);
        }
        (are_few, others)
    }

    /// Where there are many candidates, scores those with the highest f32 sums first, and leaves the others that
    /// may still be among the best.
    fn offer_richest(&mut self, number: usize) {
        if self.places.len() / 2 <= self.limit {
            return;
        }
        let sum = |added: &[f32; BLOCK], place: u16| added[usize::from(place) % BLOCK];
        let (places, added) = (&mut self.places, &self.added);
        places.select_nth_unstable_by(self.limit, |&one, &other| {
            sum(added, other).total_cmp(&sum(added, one))
        });
        let rest = places.split_off(self.limit);
        self.offer_places(number);
        self.known.append(&mut self.places);
        let (cut, added) = (self.cut(0.0), &self.added);
        let rest = rest.iter().filter(|&&place| sum(added, place) >= cut);
        self.places.extend(rest);
    }

    /// Scores the candidates and keeps the best.
    fn offer_places(&mut self, number: usize) {
        let (places, mut sums) = (mem::take(&mut self.places), mem::take(&mut self.sums));
        self.scorer
            .sums_of(number, &places, &mut self.codes, &mut sums);
        for (&place, &sum) in places.iter().zip(&sums) {
            if sum > self.least {
                self.keep(id(number, place.into()), sum);
            }
        }
        (self.places, self.sums) = (places, sums);
    }

    /// Adds an upper bound of the part of a term to the f32 sum of each passage.
    fn add_list(&mut self, place: usize) {
        let Bounded { weight, list, .. } = self.bounds[place];
        let (factors, shorts) = (self.factors, self.shorts);
        for &code in list.codes {
            let place = usize::from(entry(code)) % BLOCK;
            self.added[place] += weight * factors.factor(count(code), shorts[place]);
        }
    }

    /// How many codes the terms from `first` on have.
    fn codes_from(&self, first: usize) -> usize {
        let lists = self.bounds[first..].iter();
        lists.map(|term| term.list.codes.len()).sum()
    }

    /// Clears the sums that the terms from `first` on have changed.
    fn clear(&mut self, first: usize) {
        if self.codes_from(first) > SPARSE {
            self.added.fill(0.0);
            return;
        }
        for term in &self.bounds[first..] {
            for &code in term.list.codes {
                self.added[usize::from(entry(code)) % BLOCK] = 0.0;
            }
        }
    }

    /// Collects the candidates: the passages whose sum over the terms from `first` on is at least `least`. False
    /// where there are more than `most`.
    fn collect(&mut self, first: usize, least: f32, most: usize) -> bool {
        let mut masks: Masks = [0; BLOCK / GROUP];
        if self.codes_from(first) > SPARSE {
            reach(self.level, &self.added, least, &mut masks);
        } else {
            for term in &self.bounds[first..] {
                for &code in term.list.codes {
                    let place = usize::from(entry(code)) % BLOCK;
                    if self.added[place] >= least {
                        masks[place / GROUP] |= 1 << (place % GROUP);
                    }
                }
            }
        }
        members(&masks, most, &mut self.places)
    }

    /// The smallest f32 sum that can still exceed `least` if `rest` is added to it. Above 0.
    fn cut(&self, rest: f64) -> f32 {
        narrow((self.least - rest) * (1.0 - 2.0 * self.room)).max(f32::MIN_POSITIVE)
    }

    /// Adds up all terms of a block for all of its passages.
    fn add_all(&mut self, number: usize) {
        let mut sums = mem::take(&mut self.sums);
        sums.clear();
        sums.resize(self.scorer.shorts(number).len(), 0.0);
        self.scorer.add_block(number, &mut sums);
        for &place in &self.known {
            sums[usize::from(place)] = 0.0;
        }
        for (group, sums) in sums.chunks(GROUP).enumerate() {
            if !sums
                .iter()
                .map(|&sum| sum > self.least)
                .fold(false, |any, above| any | above)
            {
                continue;
            }
            for (place, &sum) in (group * GROUP..).zip(sums) {
                if sum > self.least {
                    self.keep(id(number, place), sum);
                }
            }
        }
        self.sums = sums;
    }

    /// Scores the newest passages, which are in no posting list yet.
    fn offer_newest(&mut self, number: usize) {
        let newest = self.scorer.newest_of_block(number);
        for same in newest.chunk_by(|one, other| one.id == other.id) {
            let (id, sum) = (same[0].id, self.scorer.sum(same[0].id));
            if sum > self.least {
                self.keep(id, sum);
            }
        }
    }

    fn keep(&mut self, id: u32, sum: f64) {
        let ceiling = self.scorer.ceiling();
        let score = (sum / ceiling).min(1.0);
        self.best.offer(Scored { id, score });
        if let Some(worst) = self.best.least() {
            self.least = self.least.max(worst.score * ceiling * (1.0 - ROOM));
        }
    }

    /// Scores the passages of the block that have most of its rarest terms, if there are `limit` such passages.
    fn seed(&mut self, number: usize) {
        if self.limit > GROUP {
            return;
        }
        let mut first = self.bounds.len();
        while first > 0 && self.codes_from(first) < SEEDS + SEEDS_OF_EACH * self.limit {
            first -= 1;
            self.add_list(first);
        }
        // The highest sum of each lane. The `limit`th highest of these is at most the `limit`th highest sum of all
        // passages.
        let mut lanes = [0.0_f32; GROUP];
        for run in self.added.as_chunks::<GROUP>().0 {
            for (lane, &added) in lanes.iter_mut().zip(run) {
                *lane = if added > *lane { added } else { *lane };
            }
        }
        let (_, &mut least, _) =
            lanes.select_nth_unstable_by(self.limit - 1, |one, other| other.total_cmp(one));
        if least > 0.0 && self.collect(first, least, 2 * GROUP) {
            self.offer_places(number);
            mem::swap(&mut self.known, &mut self.places);
        }
        self.clear(first);
    }
}

fn id(block: usize, place: usize) -> u32 {
    number(block * BLOCK + place)
}
