//! Which days were about the query? All that was said on one is a text of its own.

use std::borrow::Cow;
use std::io::{self, Write};

use hashbrown::HashMap;

use crate::bm25::chain::GROUP;
use crate::bm25::known_days::KnownDays;
use crate::bm25::params::Bm25Params;
use crate::bm25::score::{Collection, Weighing};
use crate::bm25::terms::{Document, Query};
use crate::cache::{Reader, Writer};

const MILLISECONDS_OF_DAY: i64 = 86_400_000;

/// Stands for no day.
const NONE: u32 = u32::MAX;

/// The days of entries, numbered from 0 as they come. What came from no message is of no day.
#[derive(Clone, Debug, Default)]
pub(super) struct Days {
    numbers: HashMap<i64, u32>,
    /// The day of each entry.
    of: Vec<u32>,
    /// The days of each group of entries, group after group, and where those of each group begin.
    of_groups: Vec<u32>,
    starts: Vec<usize>,
    /// For each term the days on which it was said, ascending, and how often. Keyed by hashes of foreign words,
    /// so the map has a seed of its own: nobody can aim at a slot.
    terms: HashMap<u64, Vec<(u32, u32)>>,
    /// The same of entries that came from a cache, which `terms` does not have.
    known: KnownDays,
    /// How many terms were said on each day.
    lengths: Vec<u64>,
    words: u64,
}

impl Days {
    /// Adds the next entry, said at a moment in milliseconds since 1970 or at none. Its passages follow.
    pub(super) fn add(&mut self, said_at: Option<i64>) {
        let day = said_at.map_or(NONE, |moment| self.number(moment));
        self.push(day);
    }

    /// The next entry is of that day.
    fn push(&mut self, day: u32) {
        if self.of.len().is_multiple_of(GROUP) {
            self.starts.push(self.of_groups.len());
        }
        self.of.push(day);
        let start = self.starts.last().copied().unwrap_or(0);
        if !self.of_groups[start..].contains(&day) {
            self.of_groups.push(day);
        }
    }

    /// Adds a passage of the entry that was added last.
    pub(super) fn add_passage(&mut self, passage: &Document) {
        let day = self.of.last().copied().unwrap_or(NONE);
        let Some(length) = self.lengths.get_mut(day as usize) else {
            return;
        };
        *length += passage.length;
        self.words += passage.length;
        for &(term, tf) in &passage.terms {
            let days = self.terms.entry(term).or_default();
            // Nearly always the last one.
            let place = days.partition_point(|&(other, _)| other < day);
            match days.get_mut(place) {
                Some((other, count)) if *other == day => *count = count.saturating_add(tf),
                _ => days.insert(place, (day, tf)),
            }
        }
    }

    fn number(&mut self, moment: i64) -> u32 {
        let next = u32::try_from(self.lengths.len()).unwrap_or(NONE);
        let day = *self
            .numbers
            .entry(moment.div_euclid(MILLISECONDS_OF_DAY))
            .or_insert(next);
        if day == next {
            self.lengths.push(0);
        }
        day
    }

    /// The sum of BM25 over days, for each day; none where all was said on one.
    pub(super) fn sums(&self, query: &Query) -> Vec<f64> {
        if self.lengths.len() < 2 {
            return Vec::new();
        }
        let collection = Collection {
            documents: self.lengths.len() as u64,
            words: self.words,
        };
        let mut sums = vec![0.0_f64; self.lengths.len()];
        for term in query.terms() {
            let days = self.days(term.hash);
            if days.is_empty() {
                continue;
            }
            let weight = Weighing::Lexical.weight(term.count, collection.idf(days.len()));
            for &(day, count) in days.iter() {
                let length = self.lengths[day as usize];
                sums[day as usize] += collection.part(Bm25Params::OF_DAYS, weight, count, length);
            }
        }
        sums
    }

    /// The days on which a term was said, ascending, and how often.
    fn days(&self, term: u64) -> Cow<'_, [(u32, u32)]> {
        let new = self.terms.get(&term).map_or(&[][..], Vec::as_slice);
        self.known.with(term, new)
    }

    /// Writes them to a cache.
    pub(super) fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        let mut days = vec![0; self.lengths.len()];
        for (&day, &number) in &self.numbers {
            days[number as usize] = day;
        }
        to.put(&days)?;
        to.put(&self.of)?;
        to.put(&self.lengths)?;
        self.known.write(&self.terms, to)
    }

    /// The days that were written; None for what never was.
    pub(super) fn read(from: &mut Reader) -> Option<Self> {
        let (days, of) = (from.array::<i64>()?, from.numbers::<u32>()?);
        let lengths = from.numbers::<u64>()?;
        let numbers: HashMap<i64, u32> = days.iter().copied().zip(0..).collect();
        let is_day = |day: u32| day == NONE || (day as usize) < lengths.len();
        if days.len() != lengths.len()
            || numbers.len() != lengths.len()
            || !of.iter().all(|&day| is_day(day))
        {
            return None;
        }
        let mut read = Self {
            numbers,
            known: KnownDays::read(from, lengths.len())?,
            words: lengths
                .iter()
                .fold(0, |sum: u64, &length| sum.wrapping_add(length)),
            lengths,
            ..Self::default()
        };
        for &day in &*of {
            read.push(day);
        }
        Some(read)
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// What the day of an entry adds, of the `sums` of all days.
    pub(super) fn share(&self, sums: &[f64], entry: u32) -> f64 {
        sum_of(sums, self.of[entry as usize])
    }

    /// The most that a day adds to an entry of each group, of the `sums` of all days.
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

fn sum_of(sums: &[f64], day: u32) -> f64 {
    sums.get(day as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(days: &[Option<i64>], query: &str) -> Vec<f64> {
        let mut found = Days::default();
        for (text, day) in ["silt", "silt river", "delta"].iter().zip(days) {
            found.add(day.map(|day| day * MILLISECONDS_OF_DAY + 5));
            found.add_passage(&Document::of(text));
        }
        found.sums(&Query::of(query))
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
        for number in 0..130 {
            found.add((number % 3 != 2).then_some(number / 60 * MILLISECONDS_OF_DAY));
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
}
