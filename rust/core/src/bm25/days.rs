//! BM25 over days: all messages of a day are one text.
//!
//! How often a term was said on a day is not stored. A search counts it from the posting lists of its terms. Their
//! codes ascend, and so do the runs of passages that were said on one day.

use std::io::{self, Write};

use hashbrown::HashMap;

use crate::analyse::day;
use crate::bm25::lists::{COUNTS, TermList};
use crate::bm25::neighbour_links::GROUP;
use crate::bm25::score::{Bm25Params, Collection, Weighing};
use crate::bm25::scorer::Scorer;
use crate::bm25::terms::Query;
use crate::cache::{Reader, Writer};
use crate::postings::{BLOCK, count, entry};

/// The mean length of entries, in terms, up to which a day has its full weight. If answers are long, the text of a
/// day consists mostly of answers, and says less about the other entries.
const SHORT: f64 = 25.0;

/// The value of an entry without a day.
const NONE: u32 = u32::MAX;

/// The days of entries, numbered from 0 in the order of their first entry. An entry that came from no message has
/// no day.
#[derive(Clone, Debug, Default)]
pub(super) struct Days {
    numbers: HashMap<i64, u32>,
    /// The day of each entry.
    of: Vec<u32>,
    /// The days of each group of entries, group after group; `starts` says where the days of each group begin.
    of_groups: Vec<u32>,
    starts: Vec<usize>,
    /// Runs of consecutive passages of one day, or of none: the first passage of the run, and its day.
    runs: Vec<(u32, u32)>,
    /// How many terms were said on each day.
    lengths: Vec<u64>,
    words: u64,
    /// How many entries are of a day.
    entries: u64,
}

impl Days {
    /// Its approximate bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        let places = self.of.capacity() + self.of_groups.capacity();
        self.numbers.allocation_size()
            + places * size_of::<u32>()
            + self.starts.capacity() * size_of::<usize>()
            + self.runs.capacity() * size_of::<(u32, u32)>()
            + self.lengths.capacity() * size_of::<u64>()
    }

    /// Adds the next entry, said at a moment in milliseconds since 1970, or at no moment. `first` is the number of
    /// its first passage, and `length` the number of terms of all its passages.
    pub(super) fn add(&mut self, said_at: Option<i64>, first: u32, length: u64) {
        let day = said_at.map_or(NONE, |moment| self.number(moment));
        self.push(day, first);
        if let Some(sum) = self.lengths.get_mut(day as usize) {
            *sum += length;
            self.words += length;
            self.entries += 1;
        }
    }

    /// Adds the day of the next entry, whose passages begin at `first`.
    fn push(&mut self, day: u32, first: u32) {
        let is_first = self.of.len().is_multiple_of(GROUP);
        self.of.push(day);
        if !is_first && self.runs.last().is_some_and(|&(_, last)| last == day) {
            return; // the day of the entry before, as nearly always
        }
        if is_first {
            self.starts.push(self.of_groups.len());
        }
        let start = self.starts.last().copied().unwrap_or(0);
        if !self.of_groups[start..].contains(&day) {
            self.of_groups.push(day);
        }
        match self.runs.last_mut() {
            Some((_, last)) if *last == day => {}
            // The entry before had no passages.
            Some((start, last)) if *start == first => *last = day,
            _ => self.runs.push((first, day)),
        }
    }

    fn number(&mut self, moment: i64) -> u32 {
        let next = u32::try_from(self.lengths.len()).unwrap_or(NONE);
        let day = *self.numbers.entry(day(moment)).or_insert(next);
        if day == next {
            self.lengths.push(0);
        }
        day
    }

    /// The addend of each day: the weight of days times the BM25 sum of the day, among all days. It is empty if there
    /// is only one day. `scorer` is the scorer of these entries' passages.
    pub(super) fn sums(&self, query: &Query, scorer: &Scorer<'_>) -> Vec<f64> {
        if self.lengths.len() < 2 {
            return Vec::new();
        }
        let collection = Collection {
            documents: self.lengths.len() as u64,
            words: self.words,
        };
        let norm = |&length: &u64| collection.norm(Bm25Params::OF_DAYS, length);
        let norms: Vec<f64> = self.lengths.iter().map(norm).collect();
        let mut sums = vec![0.0_f64; norms.len()];
        let mut counts = vec![0_u32; norms.len()];
        for (term, place) in query.terms().iter().zip(0..) {
            self.count(scorer, place, &mut counts);
            let days = counts.iter().filter(|&&count| count > 0).count();
            if days == 0 {
                continue;
            }
            let weight = Weighing::Lexical.weight_of(*term, collection.idf(days));
            for ((sum, norm), count) in sums.iter_mut().zip(&norms).zip(&mut counts) {
                if *count > 0 {
                    *sum += Collection::part_by(Bm25Params::OF_DAYS, weight, *count, *norm);
                    *count = 0;
                }
            }
        }
        let weight = self.weight();
        for sum in &mut sums {
            *sum *= weight;
        }
        sums
    }

    /// The weight of days: 1 for short entries. Above a mean length of `SHORT` terms it falls with the square of the
    /// length.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts in memory are far below 2^53"
    )]
    fn weight(&self) -> f64 {
        let share = (SHORT * self.entries as f64 / self.words as f64).min(1.0);
        share * share
    }

    /// Adds up how often the term at that place of the query was said on each day.
    fn count(&self, scorer: &Scorer<'_>, term: u32, counts: &mut [u32]) {
        let mut run = 0;
        for number in 0..scorer.blocks() {
            let first = number * BLOCK;
            for list in scorer.lists(number) {
                if list.term == term {
                    run = self.count_list(list, first, run, counts);
                }
            }
        }
        scorer.for_each_newest(term, |passage, tf| {
            let run = self.run_of(passage as usize, 0);
            add(counts, self.runs[run].1, tf);
        });
    }

    /// Counts the codes of one list of a block whose first passage is `first`. The passages begin in the run `run`
    /// or later. Returns the run of the last one.
    fn count_list(
        &self,
        list: &TermList<'_>,
        first: usize,
        mut run: usize,
        counts: &mut [u32],
    ) -> usize {
        const LANES: usize = 16;
        let mut codes = list.codes;
        while let Some(&code) = codes.first() {
            run = self.run_of(first + usize::from(entry(code)), run);
            // The end of the run, as a place in the block.
            let end = self
                .runs
                .get(run + 1)
                .map_or(usize::MAX, |next| next.0 as usize - first);
            let is_of_run = |code: u16| usize::from(entry(code)) < end;
            let mut sum = 0_u32;
            while let Some((lanes, rest)) = codes.split_first_chunk::<LANES>()
                && is_of_run(lanes[LANES - 1])
            {
                let known: u16 = lanes.iter().map(|&code| count(code)).sum();
                sum = sum.saturating_add(u32::from(known));
                if lanes
                    .iter()
                    .any(|&code| usize::from(count(code)) + 1 == COUNTS)
                {
                    for &code in lanes {
                        sum = sum.saturating_add(list.tf_of(code) - u32::from(count(code)));
                    }
                }
                codes = rest;
            }
            while let Some((&code, rest)) = codes.split_first()
                && is_of_run(code)
            {
                sum = sum.saturating_add(list.tf_of(code));
                codes = rest;
            }
            add(counts, self.runs[run].1, sum);
        }
        run
    }

    /// The run of a passage, searched from the run `from` on.
    fn run_of(&self, passage: usize, from: usize) -> usize {
        let begins = |&(first, _): &(u32, u32)| first as usize <= passage;
        let (mut at, mut step) = (from, 1);
        while self.runs.get(at + step).is_some_and(begins) {
            at += step;
            step *= 2;
        }
        let end = self.runs.len().min(at + step);
        at + self.runs[at + 1..end].partition_point(begins)
    }

    /// Writes them to a cache.
    pub(super) fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        let mut days = vec![0; self.lengths.len()];
        for (&day, &number) in &self.numbers {
            days[number as usize] = day;
        }
        to.put(&days)?;
        to.put(&self.of)?;
        to.put(&self.lengths)
    }

    /// Reads back the days of entries whose passages begin at `firsts`; None where the data is damaged.
    pub(super) fn read(from: &mut Reader, firsts: &[u32]) -> Option<Self> {
        let (days, of) = (from.array::<i64>()?, from.array::<u32>()?);
        let lengths = from.numbers::<u64>()?;
        let numbers: HashMap<i64, u32> = days.iter().copied().zip(0..).collect();
        let is_day = |day: u32| day == NONE || (day as usize) < lengths.len();
        if days.len() != lengths.len()
            || numbers.len() != lengths.len()
            || of.len() != firsts.len()
            || !of.iter().all(|&day| is_day(day))
        {
            return None;
        }
        let mut read = Self {
            numbers,
            entries: of.iter().filter(|&&day| day != NONE).count() as u64,
            words: lengths
                .iter()
                .fold(0, |sum: u64, &length| sum.wrapping_add(length)),
            lengths,
            ..Self::default()
        };
        for (&day, &first) in of.iter().zip(firsts) {
            read.push(day, first);
        }
        Some(read)
    }

    /// The addend of an entry's day, given the `sums` of all days.
    pub(super) fn share(&self, sums: &[f64], entry: u32) -> f64 {
        sum_of(sums, self.of[entry as usize])
    }

    /// For each group of entries, the largest addend of a day, given the `sums` of all days.
    pub(super) fn most(&self, sums: &[f64]) -> Vec<f64> {
        let ends = self.starts.iter().skip(1).copied();
        let ends = ends.chain([self.of_groups.len()]);
        let groups = self.starts.iter().zip(ends);
        let most = |days: &[u32]| {
            days.iter()
                .map(|&day| sum_of(sums, day))
                .fold(0.0, f64::max)
        };
        groups
            .map(|(&start, end)| most(&self.of_groups[start..end]))
            .collect()
    }
}

/// Adds to the count of a day; a passage without a day is not counted.
fn add(counts: &mut [u32], day: u32, tf: u32) {
    if let Some(count) = counts.get_mut(day as usize) {
        *count = count.saturating_add(tf);
    }
}

fn sum_of(sums: &[f64], day: u32) -> f64 {
    sums.get(day as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bm25::index::Bm25Index;
    use crate::bm25::terms::Document;

    const DAY: i64 = 86_400_000;

    /// The sums for entries of these days, each with its passages.
    fn sums_of(entries: &[(Option<i64>, Vec<Document>)], query: &Query) -> Vec<f64> {
        let (mut days, mut passages) = (Days::default(), Bm25Index::new(Bm25Params::default()));
        for (day, each) in entries {
            let first = u32::try_from(passages.len()).unwrap();
            let length = each.iter().map(|passage| passage.length).sum();
            days.add(day.map(|day| day * DAY + 5), first, length);
            for passage in each {
                passages.add(passage);
            }
        }
        let scorer = Scorer::new(&passages, query, Weighing::Lexical);
        days.sums(query, &scorer)
    }

    fn sums(days: &[Option<i64>], query: &str) -> Vec<f64> {
        let texts = ["silt", "silt river", "delta"].iter().zip(days);
        let entries: Vec<_> = texts
            .map(|(text, &day)| (day, vec![Document::of(text)]))
            .collect();
        sums_of(&entries, &Query::of(query))
    }

    /// Two days of 3 and 1 terms, the first has "silt" twice. N = 2, avgdl = 2; idf = ln(1 + 1.5 / 1.5);
    /// 2 * 3 / (2 + 2 * (0.25 + 0.75 * 3 / 2)) = 1.2632.
    #[test]
    fn a_day_is_one_text() {
        let found = sums(&[Some(7), Some(7), Some(9)], "silt");
        assert!(
            (found[0] - 1.2632 * std::f64::consts::LN_2).abs() < 1e-4,
            "{found:?}"
        );
        assert_eq!(found[1].to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn a_group_has_at_most_what_its_best_day_has() {
        let mut found = Days::default();
        for number in 0..130_u32 {
            let day = i64::from(number) / 60 * DAY;
            found.add((number % 3 != 2).then_some(day), number, 1);
        }
        // The first 64 are of days 0 and 1, the next of 1 and 2, the last of 2; some are of none.
        assert_eq!(found.most(&[1.0, 3.0, 2.0]), [3.0, 3.0, 2.0]);
        assert_eq!(found.most(&[]), [0.0; 3]);
    }

    #[test]
    fn one_day_tells_nothing_and_no_day_is_none() {
        assert_eq!(sums(&[Some(7); 3], "silt"), []);
        assert_eq!(sums(&[Some(-7), None, Some(-8)], "river"), [0.0, 0.0]);
    }

    /// The reference implementation: each day as one text, with its terms counted in a map.
    fn by_maps(entries: &[(Option<i64>, Vec<Document>)], query: &Query) -> Vec<f64> {
        let mut days: Vec<(i64, HashMap<u64, u32>, u64)> = Vec::new();
        for (day, passages) in entries {
            let Some(day) = *day else { continue };
            let place = days.iter().position(|known| known.0 == day);
            let place = place.unwrap_or_else(|| {
                days.push((day, HashMap::new(), 0));
                days.len() - 1
            });
            for passage in passages {
                days[place].2 += passage.length;
                for &(term, tf) in &passage.terms {
                    *days[place].1.entry(term).or_default() += tf;
                }
            }
        }
        if days.len() < 2 {
            return Vec::new();
        }
        let collection = Collection {
            documents: days.len() as u64,
            words: days.iter().map(|day| day.2).sum(),
        };
        let mut sums = vec![0.0; days.len()];
        for term in query.terms() {
            let df = days.iter().filter(|day| day.1.contains_key(&term.hash));
            let idf = collection.idf(df.count());
            let weight = Weighing::Lexical.weight(term.count, idf);
            for (sum, (_, counts, length)) in sums.iter_mut().zip(&days) {
                if let Some(&tf) = counts.get(&term.hash) {
                    *sum += collection.part(Bm25Params::OF_DAYS, weight, tf, *length);
                }
            }
        }
        let dated = entries.iter().filter(|(day, _)| day.is_some()).count();
        let few = |count: usize| f64::from(u32::try_from(count).unwrap());
        let words = few(usize::try_from(collection.words).unwrap());
        let share = (25.0 * few(dated) / words).min(1.0);
        sums.into_iter().map(|sum| sum * (share * share)).collect()
    }

    /// Entries, `often` times over: of days that come in runs or in turns, some of no day and some without
    /// passages, and of terms that are said once, a few times, or more often than a code holds.
    fn entries() -> impl Strategy<Value = Vec<(Option<i64>, Vec<Document>)>> {
        const WORDS: [&str; 5] = ["silt", "river", "delta", "kettle", "stone"];
        let words = proptest::collection::vec((0..WORDS.len(), 1_usize..4, any::<bool>()), 1..4);
        let passage = words.prop_map(|words| {
            let said = |(word, often, is_many): (usize, usize, bool)| {
                let often = if is_many { often * 8 } else { often };
                format!("{} ", WORDS[word]).repeat(often)
            };
            Document::of(&words.into_iter().map(said).collect::<String>())
        });
        let day = proptest::option::weighted(0.9, -2_i64..4);
        let passages = proptest::collection::vec(passage, 0..3);
        let run = (
            day,
            passages,
            prop_oneof![9 => 1_usize..60, 1 => 1_usize..3_000],
        );
        proptest::collection::vec(run, 1..40).prop_map(|runs| {
            let entries = runs.into_iter();
            entries
                .flat_map(|(day, passages, often)| std::iter::repeat_n((day, passages), often))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn days_score_as_texts_do_whose_terms_are_counted_in_maps(entries in entries()) {
            let query = Query::of("a river of silt and silt, stones, sand");
            let bits = |sums: Vec<f64>| sums.into_iter().map(f64::to_bits).collect::<Vec<_>>();
            prop_assert_eq!(bits(sums_of(&entries, &query)), bits(by_maps(&entries, &query)));
        }
    }
}
