//! A query against an index: what each of its terms adds to each passage.
//!
//! Every sum is f64 and is taken in ascending order of the terms' hashes, whichever way it is asked for. A
//! frequent term looks up what it adds to a passage of that length, where a rare one divides: the same
//! numbers, made once.

use crate::bm25::index::Bm25Index;
use crate::bm25::score::{Collection, Weighing};
use crate::bm25::terms::{Query, QueryTerm};
use crate::postings::{BLOCK, List, count, entry};

/// Lengths that a frequent term knows the addends of, and counts.
const LENGTHS: usize = 256;
const COUNTS: usize = 3;
/// Passages that make a term frequent: as many divisions as its table takes.
const FREQUENT: usize = LENGTHS * COUNTS;

/// What one term of the query adds to a score.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The term's hash.
    pub hash: u64,
    /// The term itself.
    pub term: String,
    /// How often the passage has it.
    pub tf: u32,
    /// How telling it is in this index.
    pub idf: f64,
    /// Its share of the score. The shares sum up to the score of the passage by itself.
    pub score: f64,
}

/// A query, as one state of an index sees it.
#[derive(Debug)]
pub struct Scorer<'a> {
    index: &'a Bm25Index,
    collection: Collection,
    /// The terms that some passage has, in ascending order of hash.
    terms: Vec<Known<'a>>,
    /// A bit for the low bits of each term: most terms of a passage are told apart by it.
    hint: u64,
    ceiling: f64,
    /// The postings, by block, then by term, then by part.
    lists: Vec<(u32, List<'a>)>,
    /// Where the lists of each block begin, and where the last end.
    starts: Vec<usize>,
}

/// A term that some passage has.
#[derive(Debug)]
struct Known<'a> {
    term: &'a QueryTerm,
    idf: f64,
    /// `w` of the formula.
    weight: f64,
    /// What it adds, by count and length; empty for a rare one.
    table: Vec<[f64; LENGTHS]>,
}

impl<'a> Scorer<'a> {
    pub(super) fn new(index: &'a Bm25Index, query: &'a Query, weighing: Weighing) -> Self {
        let blocks = index.postings.blocks();
        let hint = query
            .terms
            .iter()
            .fold(0, |hint, term| hint | bit(term.hash));
        let mut df = vec![0; query.terms.len()];
        let (mut lists, mut starts) = (Vec::new(), vec![0]);
        for (number, block) in blocks.iter().enumerate() {
            let counts_all = block
                .removed()
                .is_none_or(|removed| !removed.has_postings());
            for ((place, term), df) in (0..).zip(&query.terms).zip(&mut df) {
                let known = lists.len();
                lists.extend(block.lists(term.hash).map(|list| (place, list)));
                *df += if counts_all {
                    lists[known..].iter().map(|(_, list)| list.entries()).sum()
                } else {
                    block.entries_with(term.hash)
                };
            }
            starts.push(lists.len());
            if let Some(fresh) = index.postings.fresh(number) {
                let removed = block.removed();
                fresh.for_each(|place, hash, _| {
                    if hint & bit(hash) != 0
                        && let Ok(term) = query.terms.binary_search_by_key(&hash, |term| term.hash)
                        && !removed.is_some_and(|removed| removed.has(place))
                    {
                        df[term] += 1;
                    }
                });
            }
        }
        let collection = index.collection();
        let mut weights = 0.0;
        let mut terms = Vec::with_capacity(query.terms.len());
        for (term, &df) in query.terms.iter().zip(&df) {
            let idf = collection.idf(df);
            let weight = weighing.weight(term.count, idf);
            weights += weight;
            let table = if df < FREQUENT {
                Vec::new()
            } else {
                table(index, collection, weight)
            };
            terms.push(Known {
                term,
                idf,
                weight,
                table,
            });
        }
        Self {
            index,
            collection,
            hint,
            terms,
            ceiling: weighing.ceiling(index.params(), weights),
            lists,
            starts,
        }
    }

    /// The largest sum that counts: what is at it, or above, scores 1.
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

    /// Adds to `sums`, which are 0, those of a block's passages.
    pub(super) fn add_block(&self, number: usize, sums: &mut [f64]) {
        let lengths = &self.index.lengths[number * BLOCK..];
        let lengths = &lengths[..lengths.len().min(BLOCK)];
        for (place, list) in &self.lists[self.starts[number]..self.starts[number + 1]] {
            let known = &self.terms[*place as usize];
            match known.table.as_slice() {
                [once, twice, thrice] if list.overflow.is_empty() => {
                    for &code in list.codes {
                        let place = usize::from(entry(code));
                        let length = lengths[place] as usize;
                        let row = match count(code) {
                            1 => once,
                            2 => twice,
                            _ => thrice,
                        };
                        sums[place] += if length < LENGTHS && count(code) <= 3 {
                            row[length]
                        } else {
                            self.addend(known, u32::from(count(code)), lengths[place])
                        };
                    }
                }
                _ => {
                    for &code in list.codes {
                        let place = usize::from(entry(code));
                        let tf = u32::from(count(code)) + list.more_of(entry(code));
                        sums[place] += self.addend(known, tf, lengths[place]);
                    }
                }
            }
        }
        if let Some(fresh) = self.index.postings.fresh(number) {
            // Terms of a passage ascend, too.
            fresh.for_each(|place, hash, tf| {
                if let Some(known) = self.known(hash) {
                    let place = usize::from(place);
                    sums[place] += self.addend(known, tf, lengths[place]);
                }
            });
        }
        if let Some(removed) = self.index.postings.blocks()[number].removed() {
            for (place, sum) in (0..).zip(sums) {
                if removed.has(place) {
                    *sum = 0.0;
                }
            }
        }
    }

    /// The sum of one passage, to the bit as [`sums`](Self::sums) has it.
    #[must_use]
    pub fn sum(&self, id: u32) -> f64 {
        let mut sum = 0.0;
        self.for_each_addend(id, |_, _, addend| sum += addend);
        sum
    }

    /// What each term of the query adds to the score of passage `id`.
    #[must_use]
    pub fn parts(&self, id: u32) -> Vec<Part> {
        let mut parts = Vec::new();
        self.for_each_addend(id, |place, tf, addend| {
            let known = &self.terms[place];
            parts.push(Part {
                hash: known.term.hash,
                term: known.term.term.clone(),
                tf,
                idf: known.idf,
                score: addend / self.ceiling,
            });
        });
        parts
    }

    /// How many terms the query has.
    pub(super) fn len(&self) -> usize {
        self.terms.len()
    }

    /// What each term of the query adds to the sum of a passage, 0 where it has none: to the bit what
    /// [`sums`](Self::sums) adds up.
    pub(super) fn addends(&self, id: u32, to: &mut [f64]) {
        to.fill(0.0);
        self.for_each_addend(id, |place, _, addend| to[place] = addend);
    }

    /// Calls `visit` with each term of the query that passage `id` has, by its place in ascending order, its
    /// tf and what it adds.
    fn for_each_addend(&self, id: u32, mut visit: impl FnMut(usize, u32, f64)) {
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
        for (term, list) in &self.lists[self.starts[number]..self.starts[number + 1]] {
            let (term, tf) = (*term as usize, list.count_of(place));
            if tf > 0 {
                visit(term, tf, self.addend(&self.terms[term], tf, length));
            }
        }
        if let Some(fresh) = self.index.postings.fresh(number) {
            fresh.for_each_of(place, |hash, tf| {
                if let Some(term) = self.place(hash) {
                    visit(term, tf, self.addend(&self.terms[term], tf, length));
                }
            });
        }
    }

    #[inline]
    fn known(&self, hash: u64) -> Option<&Known<'a>> {
        self.place(hash).map(|place| &self.terms[place])
    }

    #[inline]
    fn place(&self, hash: u64) -> Option<usize> {
        if self.hint & bit(hash) == 0 {
            return None;
        }
        self.terms
            .binary_search_by_key(&hash, |known| known.term.hash)
            .ok()
    }

    #[inline]
    fn addend(&self, known: &Known<'_>, tf: u32, length: u32) -> f64 {
        let params = self.index.params();
        self.collection
            .part(params, known.weight, tf, u64::from(length))
    }
}

/// The bit that stands for a term in a hint.
fn bit(hash: u64) -> u64 {
    1 << (hash % 64)
}

/// What a term of that weight adds to a passage that has it once, twice or thrice, by length.
fn table(index: &Bm25Index, collection: Collection, weight: f64) -> Vec<[f64; LENGTHS]> {
    let row = |tf| {
        let mut row = [0.0; LENGTHS];
        for (length, addend) in (0..).zip(&mut row) {
            *addend = collection.part(index.params(), weight, tf, length);
        }
        row
    };
    (1..).take(COUNTS).map(row).collect()
}
