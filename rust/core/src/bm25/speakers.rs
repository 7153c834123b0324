//! Who said each entry, and whom a query names.
//!
//! A query that names exactly one person is nearly always about what that person said, so such entries count for
//! more. A name is known by the terms that no other name has: where two people are called Ann, `Ann` names neither.

use std::io::{self, Write};

use hashbrown::HashMap;

use crate::analyse::Speaker;
use crate::bm25::chain::GROUP;
use crate::bm25::terms::Query;
use crate::cache::{Reader, Writer};

/// How much more an entry counts of whom the query names. Anything from 1.4 to 2 finds the same.
pub(super) const FACTOR: f64 = 1.5;

/// Stands for nobody, and for several.
const NONE: u32 = u32::MAX;

/// The bit of what an entry has that is set where its name is not that of a person.
const THING: u32 = 1;

/// The speakers of entries, numbered from 0 as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Speakers {
    /// The terms of each name, ascending, and whether it always stood for a person.
    names: Vec<(Box<[u64]>, bool)>,
    numbers: HashMap<Box<[u64]>, u32>,
    /// Whose name has a term: `NONE` for several.
    owners: HashMap<u64, u32>,
    /// Of each entry twice its number and [`THING`], or `NONE`.
    of: Vec<u32>,
}

impl Speakers {
    /// Adds the next entry.
    pub(super) fn add(&mut self, speaker: Option<&Speaker>) {
        let code = speaker.map_or(NONE, |speaker| {
            let number = self.number(&speaker.terms);
            self.names[number as usize].1 &= speaker.is_person;
            number << 1 | if speaker.is_person { 0 } else { THING }
        });
        self.of.push(code);
    }

    fn number(&mut self, terms: &[u64]) -> u32 {
        if let Some(&known) = self.numbers.get(terms) {
            return known;
        }
        let next = u32::try_from(self.names.len()).expect("names take more memory than there is");
        self.numbers.insert(terms.into(), next);
        self.names.push((terms.into(), true));
        for &term in terms {
            let owner = self.owners.entry(term).or_insert(next);
            if *owner != next {
                *owner = NONE;
            }
        }
        next
    }

    /// Who said an entry, as it was added.
    pub(super) fn get(&self, entry: u32) -> Option<Speaker> {
        let code = self.of[entry as usize];
        (code != NONE).then(|| Speaker {
            terms: self.names[(code >> 1) as usize].0.to_vec(),
            is_person: code & THING == 0,
        })
    }

    /// Whom the query names, if it is exactly one.
    pub(super) fn named(&self, query: &Query) -> Named<'_> {
        let mut named = None;
        for term in query.terms() {
            let owner = self.owners.get(&term.hash).copied();
            let owner = owner.filter(|&owner| owner != NONE && self.names[owner as usize].1);
            if owner.is_some() && named.is_some() && named != owner {
                return Named::nobody();
            }
            named = owner.or(named);
        }
        Named {
            code: named.map_or(NONE, |number| number << 1),
            of: named.map_or(&[], |_| &self.of),
        }
    }

    /// Bytes that it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.of[..])
    }

    /// Writes them to a cache.
    pub(super) fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        let names = || self.names.iter().map(|(terms, _)| terms);
        let ends = names().scan(0_u64, |end, terms| {
            *end += terms.len() as u64;
            Some(*end)
        });
        to.put(&ends.collect::<Vec<u64>>())?;
        let terms = names().flat_map(|terms| terms.iter().copied());
        to.put(&terms.collect::<Vec<u64>>())?;
        to.put(&self.of)
    }

    /// The speakers that were written, of so many entries; None for what never was.
    pub(super) fn read(from: &mut Reader, len: usize) -> Option<Self> {
        let (ends, terms) = (from.array::<u64>()?, from.array::<u64>()?);
        let mut read = Self::default();
        let mut start = 0;
        for &end in &ends[..] {
            let end = usize::try_from(end).ok()?;
            let name = terms.get(start..end)?;
            let known = read.names.len();
            if name.is_empty() || !name.is_sorted() || read.number(name) as usize != known {
                return None;
            }
            start = end;
        }
        read.of = from.numbers()?;
        let is_known = |code: u32| code == NONE || ((code >> 1) as usize) < ends.len();
        if start != terms.len() || read.of.len() != len || !read.of.iter().all(|&c| is_known(c)) {
            return None;
        }
        for &code in read.of.iter().filter(|&&code| code != NONE) {
            read.names[(code >> 1) as usize].1 &= code & THING == 0;
        }
        Some(read)
    }
}

/// The one that a query names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'a> {
    code: u32,
    /// Who said each entry; nothing where nobody is named.
    of: &'a [u32],
}

impl Named<'_> {
    fn nobody() -> Self {
        Self { code: 0, of: &[] }
    }

    /// What the sum of an entry is multiplied by.
    pub(super) fn factor(self, entry: u32) -> f64 {
        let code = self.of.get(entry as usize);
        if code == Some(&self.code) {
            FACTOR
        } else {
            1.0
        }
    }

    /// What the sums of a group of entries are multiplied by at most.
    pub(super) fn most(self, group: usize) -> f64 {
        let first = (group * GROUP).min(self.of.len());
        let members = &self.of[first..self.of.len().min(first + GROUP)];
        if members.contains(&self.code) {
            FACTOR
        } else {
            1.0
        }
    }

    /// What any sum is multiplied by at most.
    pub(super) fn largest(self) -> f64 {
        if self.of.is_empty() { 1.0 } else { FACTOR }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speakers(names: &[(&str, &str, &str)]) -> Speakers {
        let mut speakers = Speakers::default();
        for &(role, name, kind) in names {
            speakers.add(Speaker::of(role, Some(name), kind).as_ref());
        }
        speakers
    }

    fn factors(speakers: &Speakers, query: &str) -> Vec<bool> {
        let query = Query::of(query);
        let named = speakers.named(&query);
        let of = u32::try_from(speakers.of.len()).unwrap();
        (0..of).map(|entry| named.factor(entry) > 1.0).collect()
    }

    #[test]
    fn exactly_one_is_named_by_what_is_the_name_of_no_other() {
        let found = speakers(&[
            ("user", "Ann Lee", "message"),
            ("user", "Bob Lee", "message"),
            ("user", "ann lee", "message"),
            ("user", "", "message"),
        ]);
        assert_eq!(
            factors(&found, "What did Ann paint?"),
            [true, false, true, false]
        );
        assert_eq!(factors(&found, "What did Lee paint?"), [false; 4]);
        assert_eq!(
            factors(&found, "Bob Lee's river"),
            [false, true, false, false]
        );
        assert_eq!(factors(&found, "Did Ann meet Bob?"), [false; 4]);
        assert_eq!(factors(&found, "Where is the river?"), [false; 4]);
    }

    #[test]
    fn a_tool_is_no_speaker_nor_is_who_shares_its_name() {
        let found = speakers(&[
            ("assistant", "Bash", "tool_use"),
            ("user", "Bash", "tool_result"),
            ("user", "Ann", "message"),
        ]);
        assert_eq!(factors(&found, "Which bash did fail?"), [false; 3]);
        assert_eq!(factors(&found, "Ann's bash"), [false, false, true]);
        let found = speakers(&[("user", "Bash", "message"), ("tool", "Bash", "message")]);
        assert_eq!(factors(&found, "Which bash did fail?"), [false; 2]);
    }
}
