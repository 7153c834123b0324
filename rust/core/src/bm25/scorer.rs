//! Scores a query in an index: the addend of each term for each passage.
//!
//! Every sum is f64 and is taken in ascending order of the terms' hashes, whichever method computes it. Norms of
//! common lengths come from a table, and eight divisions are made at once: the results are the same as one by one.

use std::cmp::Ordering;
use std::ops::Range;

use crate::bm25::index::Bm25Index;
use crate::bm25::lists::{COUNTS, ListsOfBlocks, TermList};
use crate::bm25::score::{Bm25Params, Collection, Norms, Short, Weighing, short};
use crate::bm25::terms::{Hint, Query};
use crate::postings::{BLOCK, count, entry};

/// The share of one term of the query in a score.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The term's hash.
    pub hash: u64,
    /// The term itself.
    pub term: String,
    /// The misspelt word of the query that the term replaces, if it does.
    pub instead_of: Option<String>,
    /// How often the passage has it.
    pub tf: u32,
    /// Its inverse document frequency in this index.
    pub idf: f64,
    /// Its share of the score. The shares add up to the score of the passage by itself.
    pub score: f64,
}

/// A query, weighed by one state of an index.
#[derive(Debug)]
pub struct Scorer<'a> {
    pub(super) index: &'a Bm25Index,
    pub(super) norms: &'a Norms,
    query: &'a Query,
    collection: Collection,
    /// The terms, in ascending order of hash.
    terms: Vec<Known>,
    ceiling: f64,
    lists: ListsOfBlocks<'a>,
    /// The counts in the newest passages, which are in no posting list yet: by passage, then by term.
    newest: Vec<Newest>,
}

/// How often one of the newest passages has a term.
#[derive(Debug)]
pub(super) struct Newest {
    pub(super) id: u32,
    /// The term, by its place in the query.
    term: u32,
    tf: u32,
}

/// A term of the query.
#[derive(Debug)]
struct Known {
    hash: u64,
    /// How many passages have it.
    df: usize,
    idf: f64,
    /// `w` of the formula.
    weight: f64,
    /// The numerator of the formula, by count.
    above: [f64; COUNTS],
}

impl Bm25Index {
    /// The scorer of `query`: its terms, weighed by the current state of this index.
    #[must_use]
    pub fn scorer<'a>(&'a self, query: &'a Query) -> Scorer<'a> {
        Scorer::new(self, query, Weighing::Plain)
    }

    /// The sum of each passage, in order; 0 for one that has no term of the query.
    #[must_use]
    pub fn sums(&self, query: &Query) -> Vec<f64> {
        self.scorer(query).sums()
    }
}

impl<'a> Scorer<'a> {
    pub(super) fn new(index: &'a Bm25Index, query: &'a Query, weighing: Weighing) -> Self {
        let lists = ListsOfBlocks::of(&index.postings, query);
        let mut df = vec![0; query.terms.len()];
        for (number, block) in index.postings.blocks().iter().enumerate() {
            let removed = block.removed().filter(|removed| removed.has_postings());
            for list in lists.of_block(number) {
                df[list.term as usize] += list.entries(removed);
            }
        }
        let newest = newest(index, query);
        for each in &newest {
            df[each.term as usize] += 1;
        }
        let collection = index.collection();
        let mut weights = 0.0;
        let mut terms = Vec::with_capacity(query.terms.len());
        for (term, &df) in query.terms.iter().zip(&df) {
            let idf = collection.idf(df);
            let weight = weighing.weight_of(*term, idf);
            if !term.is_spare {
                weights += weight;
            }
            terms.push(Known {
                hash: term.hash,
                df,
                idf,
                weight,
                above: above(index.params(), weight),
            });
        }
        Self {
            index,
            norms: index.norms(),
            query,
            collection,
            terms,
            ceiling: weighing.ceiling(index.params(), weights),
            lists,
            newest,
        }
    }

    /// The sum that scores 1; larger sums score 1 too.
    #[must_use]
    pub fn ceiling(&self) -> f64 {
        self.ceiling
    }

    /// The sum of each passage, in order; 0 for one that has no term of the query.
    #[must_use]
    pub fn sums(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.index.len()];
        for (number, block) in sums.chunks_mut(BLOCK).enumerate() {
            self.add_block(number, block);
        }
        sums
    }

    /// The lists of a block, by part, then by term.
    pub(super) fn lists(&self, number: usize) -> &[TermList<'a>] {
        self.lists.of_block(number)
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        self.lists.blocks()
    }

    /// The lengths of a block's passages.
    pub(super) fn shorts(&self, number: usize) -> &'a [Short] {
        let shorts = &self.index.shorts[number * BLOCK..];
        &shorts[..shorts.len().min(BLOCK)]
    }

    /// `w` of the term at that place of the query.
    pub(super) fn weight(&self, term: u32) -> f64 {
        self.terms[term as usize].weight
    }

    /// Adds the sums of a block's passages to `sums`, which must be 0.
    pub(super) fn add_block(&self, number: usize, sums: &mut [f64]) {
        let lengths = &self.index.lengths[number * BLOCK..];
        let lengths = &lengths[..lengths.len().min(BLOCK)];
        for list in self.lists(number) {
            self.add_list(number, list, sums);
        }
        for newest in self.newest_of_block(number) {
            let place = newest.id as usize % BLOCK;
            let known = &self.terms[newest.term as usize];
            sums[place] += self.addend(known, newest.tf, lengths[place]);
        }
        if let Some(removed) = self.index.postings.blocks()[number].removed() {
            for (place, sum) in (0..).zip(sums) {
                if removed.has(place) {
                    *sum = 0.0;
                }
            }
        }
    }

    /// Adds the addends of a term to each passage of one list.
    fn add_list(&self, number: usize, list: &TermList<'_>, sums: &mut [f64]) {
        const RUN: usize = 8;
        let known = &self.terms[list.term as usize];
        let shorts = &self.index.shorts[number * BLOCK..];
        let (runs, rest) = list.codes.as_chunks::<RUN>();
        for run in runs {
            let mut short = [0; RUN];
            for (short, &code) in short.iter_mut().zip(run) {
                *short = shorts[usize::from(entry(code))];
            }
            let is_long = |(&code, &short): (&u16, &Short)| {
                usize::from(count(code)) + 1 == COUNTS || short == Short::MAX
            };
            if run.iter().zip(&short).any(is_long) {
                self.add_codes(number, list, run, sums);
                continue;
            }
            let mut parts = [0.0; RUN];
            for ((part, &code), short) in parts.iter_mut().zip(run).zip(short) {
                let (above, tf) = (
                    known.above[usize::from(count(code))],
                    f64::from(count(code)),
                );
                *part = above / (tf + self.norms.norm(short));
            }
            for (&code, part) in run.iter().zip(parts) {
                sums[usize::from(entry(code))] += part;
            }
        }
        self.add_codes(number, list, rest, sums);
    }

    /// The same for some codes of the list, one by one.
    fn add_codes(&self, number: usize, list: &TermList<'_>, codes: &[u16], sums: &mut [f64]) {
        let known = &self.terms[list.term as usize];
        for &code in codes {
            let place = usize::from(entry(code));
            let length = self.index.lengths[number * BLOCK + place];
            sums[place] += self.addend(known, list.tf_of(code), length);
        }
    }

    /// The sum of one passage, equal to the bit to that of [`sums`](Self::sums).
    #[must_use]
    pub fn sum(&self, id: u32) -> f64 {
        let mut sum = 0.0;
        self.for_each_addend(id, |_, _, addend| sum += addend);
        sum
    }

    /// Fills `sums` with the sums of some passages of a block, equal to the bit to those of [`sums`](Self::sums); 0
    /// for a removed passage. None of the passages may be one of the newest, which are in no list. `codes` is a
    /// buffer.
    pub(super) fn sums_of(
        &self,
        number: usize,
        places: &[u16],
        codes: &mut Vec<u16>,
        sums: &mut Vec<f64>,
    ) {
        sums.clear();
        sums.resize(places.len(), 0.0);
        let lengths = &self.index.lengths[number * BLOCK..];
        for list in self.lists(number) {
            let known = &self.terms[list.term as usize];
            list.codes_of(places, codes);
            for ((sum, &place), &code) in sums.iter_mut().zip(places).zip(codes.iter()) {
                if count(code) > 0 {
                    let length = lengths[usize::from(place)];
                    *sum += self.addend(known, list.tf_of(code), length);
                }
            }
        }
        if let Some(removed) = self.index.postings.blocks()[number].removed() {
            for (sum, &place) in sums.iter_mut().zip(places) {
                if removed.has(place) {
                    *sum = 0.0;
                }
            }
        }
    }

    /// The share of each term of the query in the score of passage `id`.
    #[must_use]
    pub fn parts(&self, id: u32) -> Vec<Part> {
        let words = self.query.words();
        let mut parts = Vec::new();
        self.for_each_addend(id, |place, tf, addend| {
            let known = &self.terms[place];
            parts.push(Part {
                hash: known.hash,
                term: words[place].clone(),
                instead_of: self.query.instead_of(known.hash).map(str::to_owned),
                tf,
                idf: known.idf,
                score: addend / self.ceiling,
            });
        });
        parts
    }

    /// How many passages have each term of the query.
    pub(super) fn frequencies(&self) -> Vec<usize> {
        self.terms.iter().map(|known| known.df).collect()
    }

    /// Whether passages have every term of the query.
    pub(super) fn knows_all(&self) -> bool {
        self.terms.iter().all(|known| known.df > 0)
    }

    /// Whether the query has a term.
    pub(super) fn has(&self, hash: u64) -> bool {
        self.find(hash).is_some()
    }

    /// Whether the query has a term that no passage has.
    pub(super) fn lacks(&self, hash: u64) -> bool {
        self.find(hash).is_some_and(|known| known.df == 0)
    }

    /// The term that most passages have, the first of equal ones; None where no passage has any.
    pub(super) fn most_frequent(&self) -> Option<u64> {
        let best = self.terms.iter().rev().max_by_key(|known| known.df);
        best.filter(|known| known.df > 0).map(|known| known.hash)
    }

    fn find(&self, hash: u64) -> Option<&Known> {
        let place = self.terms.binary_search_by_key(&hash, |known| known.hash);
        place.ok().map(|place| &self.terms[place])
    }

    /// How many terms a passage has.
    pub(super) fn length(&self, passage: u32) -> u32 {
        self.index.lengths[passage as usize]
    }

    /// How many terms the query has.
    pub(super) fn len(&self) -> usize {
        self.terms.len()
    }

    /// Calls `visit` for each of some passages and each term of the query that it has: with the term's place, the
    /// passage and the addend. None of the passages that count may be removed.
    pub(super) fn for_each_addend_of(
        &self,
        passages: Range<usize>,
        mut visit: impl FnMut(usize, usize, f64),
    ) {
        for number in passages.start / BLOCK..passages.end.div_ceil(BLOCK) {
            let first = number * BLOCK;
            let places = passages.start.max(first) - first..passages.end.min(first + BLOCK) - first;
            for list in self.lists(number) {
                let known = &self.terms[list.term as usize];
                for &code in list.codes_in(places.clone()) {
                    let passage = first + usize::from(entry(code));
                    let addend = self.addend(known, list.tf_of(code), self.index.lengths[passage]);
                    visit(list.term as usize, passage, addend);
                }
            }
        }
        for newest in self.newest_of(passages) {
            let (term, passage) = (newest.term as usize, newest.id as usize);
            let addend = self.addend(&self.terms[term], newest.tf, self.index.lengths[passage]);
            visit(term, passage, addend);
        }
    }

    /// Calls `visit` for each term of the query that passage `id` has: with its place in ascending order, its count
    /// and its addend.
    pub(super) fn for_each_addend(&self, id: u32, mut visit: impl FnMut(usize, u32, f64)) {
        let (number, place) = (id as usize / BLOCK, id as usize % BLOCK);
        let place = u16::try_from(place).expect("a block has 4,096 entries");
        let Some(&length) = self.index.lengths.get(id as usize) else {
            return; // an entry without passages
        };
        if self.index.postings.blocks()[number]
            .removed()
            .is_some_and(|removed| removed.has(place))
        {
            return;
        }
        for list in self.lists(number) {
            let (term, tf) = (list.term as usize, list.count_of(place));
            if tf > 0 {
                visit(term, tf, self.addend(&self.terms[term], tf, length));
            }
        }
        let id = id as usize;
        for newest in self.newest_of(id..id + 1) {
            let (term, tf) = (newest.term as usize, newest.tf);
            visit(term, tf, self.addend(&self.terms[term], tf, length));
        }
    }

    /// Calls `visit` for each of the newest passages that has the term at that place of the query: with the passage
    /// and its count.
    pub(super) fn for_each_newest(&self, term: u32, mut visit: impl FnMut(u32, u32)) {
        for newest in self.newest.iter().filter(|newest| newest.term == term) {
            visit(newest.id, newest.tf);
        }
    }

    /// The counts of the newest passages of a block, which are in no list.
    pub(super) fn newest_of_block(&self, number: usize) -> &[Newest] {
        let first = number * BLOCK;
        self.newest_of(first..first + BLOCK)
    }

    /// The counts of those of the newest passages that are in `ids`.
    fn newest_of(&self, ids: Range<usize>) -> &[Newest] {
        let before = |end: usize| {
            self.newest
                .partition_point(|newest| (newest.id as usize) < end)
        };
        &self.newest[before(ids.start)..before(ids.end)]
    }

    #[inline]
    fn addend(&self, known: &Known, tf: u32, length: u32) -> f64 {
        let (params, short) = (self.index.params(), short(length));
        match known.above.get(tf as usize) {
            Some(above) if short < Short::MAX => above / (f64::from(tf) + self.norms.norm(short)),
            _ => self
                .collection
                .part(params, known.weight, tf, u64::from(length)),
        }
    }
}

/// The counts of the query's terms in the newest passages, which are in no list; removed passages are left out.
fn newest(index: &Bm25Index, query: &Query) -> Vec<Newest> {
    let (hint, mut newest) = (Hint::of(query), Vec::new());
    for (number, block) in index.postings.blocks().iter().enumerate() {
        let Some(tail) = index.postings.fresh(number) else {
            continue;
        };
        let removed = block.removed();
        let first = u32::try_from(number * BLOCK).expect("numbers are below 2^32");
        tail.few().for_each(|place, hash, tf| {
            // Terms of a passage ascend, too.
            if hint.has(hash)
                && let Ok(term) = query.terms.binary_search_by_key(&hash, |term| term.hash)
                && !removed.is_some_and(|removed| removed.has(place))
            {
                newest.push(Newest {
                    id: first + u32::from(place),
                    term: u32::try_from(term).expect("a query has fewer than 2^32 terms"),
                    tf,
                });
            }
        });
    }
    newest
}

/// The numerator of the formula for each count of a code, evaluated from left to right.
fn above(params: Bm25Params, weight: f64) -> [f64; COUNTS] {
    let mut above = [0.0; COUNTS];
    for (tf, above) in (0_u32..).zip(&mut above) {
        *above = weight * f64::from(tf) * (params.k1() + 1.0);
    }
    above
}

// A passage that was found, and its order among others.

/// The number of a passage or an entry, from its place.
pub(super) fn number(place: usize) -> u32 {
    u32::try_from(place).expect("an index in memory holds fewer than 2^32 passages")
}

/// A passage that was found.
///
/// The better passage is the greater one: the higher score, and of equal scores the smaller id.
#[derive(Clone, Copy, Debug)]
pub struct Scored {
    /// Its number in the index.
    pub id: u32,
    /// Above 0, up to 1.
    pub score: f64,
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then_with(|| other.id.cmp(&self.id))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scored {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scored {}
