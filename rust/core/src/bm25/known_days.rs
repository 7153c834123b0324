//! The days of each term, as a cache has them: sorted, and where they lie in the file.

use std::borrow::Cow;
use std::io::{self, Write};

use hashbrown::HashMap;

use crate::cache::{Array, Reader, Writer, are_bounds};

/// For each term the days on which it was said, ascending, and how often.
#[derive(Clone, Debug)]
pub(super) struct KnownDays {
    /// Hashes of terms, ascending.
    terms: Array<u64>,
    /// Where the days of each begin, and where the last end.
    starts: Array<u32>,
    days: Array<u16>,
    counts: Array<u16>,
}

impl Default for KnownDays {
    fn default() -> Self {
        Self {
            terms: Vec::new().into(),
            starts: vec![0].into(),
            days: Vec::new().into(),
            counts: Vec::new().into(),
        }
    }
}

impl KnownDays {
    /// The days of a term, with those that came since.
    pub(super) fn with<'a>(&self, term: u64, new: &'a [(u32, u32)]) -> Cow<'a, [(u32, u32)]> {
        let Ok(place) = self.terms.binary_search(&term) else {
            return Cow::Borrowed(new);
        };
        let mut days: Vec<(u32, u32)> = self.at(place).collect();
        for &(day, count) in new {
            let place = days.partition_point(|&(other, _)| other < day);
            match days.get_mut(place) {
                Some((other, known)) if *other == day => *known = known.saturating_add(count),
                _ => days.insert(place, (day, count)),
            }
        }
        Cow::Owned(days)
    }

    fn at(&self, place: usize) -> impl Iterator<Item = (u32, u32)> {
        let range = self.starts[place] as usize..self.starts[place + 1] as usize;
        let days = self.days[range.clone()].iter().copied().map(u32::from);
        days.zip(self.counts[range].iter().copied().map(u32::from))
    }

    /// Writes them, with those of `new`. No session has 2^16 days, or says a word as often on one; such a one has
    /// no cache.
    pub(super) fn write<W: Write>(
        &self,
        new: &HashMap<u64, Vec<(u32, u32)>>,
        to: &mut Writer<W>,
    ) -> io::Result<()> {
        let mut terms: Vec<u64> = self.terms.iter().chain(new.keys()).copied().collect();
        terms.sort_unstable();
        terms.dedup();
        let narrow = |number: u32| {
            u16::try_from(number).map_err(|_| io::Error::other("too many days, or too long ones"))
        };
        let (mut starts, mut days, mut counts) = (vec![0], Vec::new(), Vec::new());
        for &term in &terms {
            let new = new.get(&term).map_or(&[][..], Vec::as_slice);
            for &(day, count) in self.with(term, new).iter() {
                days.push(narrow(day)?);
                counts.push(narrow(count)?);
            }
            let end = u32::try_from(days.len());
            starts.push(end.map_err(|_| io::Error::other("too many days of terms"))?);
        }
        to.put(&terms)?;
        to.put(&starts)?;
        to.put(&days)?;
        to.put(&counts)
    }

    /// What was written, of `days` days; None for what never was.
    pub(super) fn read(from: &mut Reader, days: usize) -> Option<Self> {
        let known = Self {
            terms: from.array()?,
            starts: from.array()?,
            days: from.array()?,
            counts: from.array()?,
        };
        let fits = known.starts.len() == known.terms.len() + 1
            && are_bounds(&known.starts, known.days.len())
            && known.counts.len() == known.days.len()
            && known
                .days
                .iter()
                .max()
                .is_none_or(|&last| usize::from(last) < days);
        fits.then_some(known)
    }
}
