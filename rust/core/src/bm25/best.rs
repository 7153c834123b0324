//! The best passages for a query, without reading what cannot be among them.
//!
//! `MaxScore` (Turtle and Flood 1995), block by block. A term adds at most its bound to a passage; the terms
//! whose bounds together do not reach what the worst of the best has are not essential: no passage is among
//! the best by these alone. So the essential terms are added up in f32, and the others looked up for the
//! few passages that may still get there. Bounds have room for what f32 rounds. A passage that passes them
//! all is scored in f64 as [`Scorer::sum`] has it, so what is found is what all sums would give, to the bit.

use crate::bm25::index::Scored;
use crate::bm25::lists::TermList;
use crate::bm25::scorer::Scorer;
use crate::postings::{BLOCK, count, entry};
use crate::simd::Level;
use crate::simd::reach::{GROUP, Masks, reach};
use crate::top_k::TopK;

/// More than a division and a multiplication lose by rounding.
const ROOM: f64 = 1e-12;
/// What f32 may lose of a sum with each of its terms, and more.
const ROOM_OF_TERM: f64 = f32::EPSILON as f64;
/// Passages of a block that are scored one by one; where there are more, all of the block are.
const FEW: usize = 64;
/// Codes that are added in the time that one is looked up.
const LOOK_UP: usize = 16;
/// Postings that the first bound is made of, at most.
const SEEDS: usize = 512;

/// The `limit` best passages, the best first, ties by number.
pub(super) fn search(scorer: &Scorer<'_>, limit: usize) -> Vec<Scored> {
    if limit == 0 {
        return Vec::new();
    }
    let mut search = Search {
        scorer,
        level: Level::current(),
        best: TopK::new(limit),
        least: 0.0,
        room: 0.0,
        bounds: Vec::new(),
        added: [0.0; BLOCK],
        sums: Vec::new(),
        places: Vec::new(),
    };
    let prunes = (0..scorer.blocks()).any(|number| scorer.is_whole(number));
    if prunes && scorer.norms.has_factors() {
        search.least = search.seed(limit);
    }
    for number in 0..scorer.blocks() {
        search.block(number);
    }
    search.best.into_best_first()
}

struct Search<'a> {
    scorer: &'a Scorer<'a>,
    level: Level,
    best: TopK<Scored>,
    /// A sum that is not above this certainly scores less than all that is kept.
    least: f64,
    /// What f32 may lose of a sum of the block at hand.
    room: f64,
    /// The terms of the block at hand and the most that each adds, the least first.
    bounds: Vec<(f64, TermList<'a>)>,
    added: [f32; BLOCK],
    sums: Vec<f64>,
    places: Vec<u16>,
}

impl Search<'_> {
    fn block(&mut self, number: usize) {
        let lists = self.scorer.lists(number);
        if !(self.scorer.is_whole(number) && self.scorer.norms.has_factors()) {
            return self.add_all(number);
        }
        let most = self.scorer.norms.most();
        self.bounds.clear();
        self.bounds.extend(
            lists
                .iter()
                .map(|list| (self.scorer.weight(list.term) * most, *list)),
        );
        self.bounds
            .sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        #[expect(clippy::cast_precision_loss, reason = "few terms")]
        let terms = lists.len() as f64;
        self.room = (terms + 8.0) * ROOM_OF_TERM;
        // The first `others` are not essential: together they add at most `rest`.
        let (mut others, mut rest) = (0, 0.0);
        for &(bound, _) in &self.bounds {
            if (rest + bound) * (1.0 + self.room) >= self.least {
                break;
            }
            rest += bound;
            others += 1;
        }
        if others == lists.len() {
            return;
        }
        if self.least <= 0.0 {
            return self.add_all(number);
        }
        self.add_some(number, others, rest);
    }

    /// Adds up the essential terms, and looks up the first `others` for what may be among the best.
    fn add_some(&mut self, number: usize, mut others: usize, mut rest: f64) {
        self.added.fill(0.0);
        for place in others..self.bounds.len() {
            self.add_list(number, place);
        }
        loop {
            let most = match others.checked_sub(1) {
                Some(next) => (self.bounds[next].1.codes.len() / LOOK_UP).max(FEW),
                None => FEW,
            };
            if self.collect(rest, most) {
                break;
            }
            // There are too many. One term more leaves fewer.
            let Some(next) = others.checked_sub(1) else {
                return self.add_all(number);
            };
            self.add_list(number, next);
            others = next;
            rest = self.bounds[..others].iter().map(|(bound, _)| bound).sum();
        }
        let mut places = std::mem::take(&mut self.places);
        for next in (0..others).rev() {
            let (bound, list) = self.bounds[next];
            rest = (rest - bound).max(0.0);
            let cut = self.cut(rest);
            let weight = narrow(self.scorer.weight(list.term));
            let shorts = self.scorer.shorts(number);
            let (norms, added) = (self.scorer.norms, &mut self.added);
            places.retain(|&place| {
                let code = list.code_of(place);
                let place = usize::from(place) % BLOCK;
                added[place] += weight * norms.factor(count(code), shorts[place]);
                added[place] >= cut
            });
        }
        if places.len() > FEW {
            self.places = places;
            return self.add_all(number);
        }
        for &place in &places {
            if self.added[usize::from(place) % BLOCK] >= self.cut(0.0) {
                self.offer(number, usize::from(place));
            }
        }
        self.places = places;
    }

    /// Adds at least what a term adds to each passage.
    fn add_list(&mut self, number: usize, place: usize) {
        let (_, list) = self.bounds[place];
        let weight = narrow(self.scorer.weight(list.term));
        let (norms, shorts) = (self.scorer.norms, self.scorer.shorts(number));
        for &code in list.codes {
            let place = usize::from(entry(code)) % BLOCK;
            self.added[place] += weight * norms.factor(count(code), shorts[place]);
        }
    }

    /// Takes down which passages may be among the best if they get `rest` more; false for more than `most`.
    fn collect(&mut self, rest: f64, most: usize) -> bool {
        let mut masks: Masks = [0; BLOCK / GROUP];
        reach(self.level, &self.added, self.cut(rest), &mut masks);
        let found: usize = masks.iter().map(|mask| mask.count_ones() as usize).sum();
        self.places.clear();
        if found > most {
            return false;
        }
        for (first, mut mask) in (0..).step_by(GROUP).zip(masks) {
            while mask != 0 {
                self.places
                    .push(first + u16::try_from(mask.trailing_zeros()).unwrap_or(0));
                mask &= mask - 1;
            }
        }
        true
    }

    /// A sum in f32 that is smaller cannot become more than `least` by `rest`. Above 0.
    fn cut(&self, rest: f64) -> f32 {
        narrow((self.least - rest) * (1.0 - 2.0 * self.room)).max(f32::MIN_POSITIVE)
    }

    /// Adds up all terms of a block for all of its passages.
    fn add_all(&mut self, number: usize) {
        let mut sums = std::mem::take(&mut self.sums);
        sums.clear();
        sums.resize(self.scorer.entries(number), 0.0);
        self.scorer.add_block(number, &mut sums);
        for (group, sums) in sums.chunks(GROUP).enumerate() {
            if !sums
                .iter()
                .map(|&sum| sum > self.least)
                .fold(false, |any, above| any | above)
            {
                continue;
            }
            for (place, &sum) in sums.iter().enumerate() {
                if sum > self.least {
                    self.keep(number * BLOCK + group * GROUP + place, sum);
                }
            }
        }
        self.sums = sums;
    }

    fn offer(&mut self, number: usize, place: usize) {
        let id = u32::try_from(number * BLOCK + place).expect("numbers are below 2^32");
        let sum = self.scorer.sum(id);
        if sum > self.least {
            self.keep(id as usize, sum);
        }
    }

    fn keep(&mut self, id: usize, sum: f64) {
        let ceiling = self.scorer.ceiling();
        let id = u32::try_from(id).expect("numbers are below 2^32");
        let score = (sum / ceiling).min(1.0);
        self.best.offer(Scored { id, score });
        if let Some(worst) = self.best.least() {
            self.least = self.least.max(worst.score * ceiling * (1.0 - ROOM));
        }
    }

    /// What `limit` passages have of one term: no less is among the best.
    fn seed(&self, limit: usize) -> f64 {
        let Some(term) = self.scorer.most_telling(limit) else {
            return 0.0;
        };
        let mut best: TopK<u64> = TopK::new(limit);
        let mut seen = 0;
        for number in 0..self.scorer.blocks() {
            for list in self.scorer.lists(number) {
                if list.term != term || seen >= SEEDS {
                    continue;
                }
                seen += list.codes.len();
                // What is not negative is in order by its bits.
                self.scorer
                    .for_each_part(number, list, |part| best.offer(part.to_bits()));
            }
        }
        let least = best.least().map_or(0.0, |&bits| f64::from_bits(bits));
        least.min(self.scorer.ceiling()) * (1.0 - ROOM)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bounds have room for it")]
fn narrow(sum: f64) -> f32 {
    sum as f32
}
