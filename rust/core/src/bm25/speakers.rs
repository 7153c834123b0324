//! The speaker of each entry, and the speaker that a query names.
//!
//! A query that names exactly one person is nearly always about entries of that person, so these entries score more.
//! A term names a person only if no other name has it: if two people are called Ann, `Ann` names nobody.
//!
//! In a dialogue of one person and an assistant, `I` and `my` name that person. Then the entries of all others score
//! less, instead of the person's entries more: most questions say `I`, so most scores would be raised, and a score
//! has to show the quality of a hit.

use std::io::{self, Write};

use hashbrown::HashMap;

use crate::analyse::{Speaker, is_about_asker};
use crate::bm25::neighbour_links::GROUP;
use crate::bm25::terms::Query;
use crate::cache::{Reader, Writer};

/// The factor on the score of an entry whose speaker the query names. Quality is the same from 1.4 to 2.
pub(super) const FACTOR: f64 = 1.5;

/// The person of a dialogue said at least one in so many entries. In sessions with fewer, an agent works alone, and
/// `I` is the agent.
const PART: usize = 4;

/// The value for no speaker, and for several speakers.
const NONE: u32 = u32::MAX;

/// The bit of an entry's code that is set where its name is not the name of a person.
const THING: u32 = 1;

/// A name. The users without a name share an empty one.
#[derive(Clone, Debug)]
struct Name {
    /// Its terms, ascending.
    terms: Box<[u64]>,
    /// Whether it always stood for a person.
    is_person: bool,
    /// How many entries are said under it.
    entries: usize,
}

/// The speakers of entries, numbered from 0 as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Speakers {
    names: Vec<Name>,
    numbers: HashMap<Box<[u64]>, u32>,
    /// The speaker whose name has a term; `NONE` if several names have it.
    owners: HashMap<u64, u32>,
    /// For each entry, twice the number of its speaker plus [`THING`], or `NONE`.
    of: Vec<u32>,
}

impl Speakers {
    /// Adds the next entry.
    pub(super) fn add(&mut self, speaker: Option<&Speaker>) {
        let code = speaker.map_or(NONE, |speaker| {
            let number = self.number(&speaker.terms);
            self.names[number as usize].say(speaker.is_person);
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
        self.names.push(Name {
            terms: terms.into(),
            is_person: true,
            entries: 0,
        });
        for &term in terms {
            let owner = self.owners.entry(term).or_insert(next);
            if *owner != next {
                *owner = NONE;
            }
        }
        next
    }

    /// The speaker of an entry, as it was added.
    pub(super) fn get(&self, entry: u32) -> Option<Speaker> {
        let code = self.of[entry as usize];
        (code != NONE).then(|| Speaker {
            terms: self.names[(code >> 1) as usize].terms.to_vec(),
            is_person: code & THING == 0,
        })
    }

    /// The speaker that the query names, if it names exactly one: by name, or else as its asker.
    pub(super) fn named(&self, query: &Query) -> Named<'_> {
        let mut named = None;
        for term in query.terms() {
            let owner = self.owners.get(&term.hash).copied();
            let owner =
                owner.filter(|&owner| owner != NONE && self.names[owner as usize].is_person);
            if owner.is_some() && named.is_some() && named != owner {
                return Named::nobody();
            }
            named = owner.or(named);
        }
        let is_named = named.is_some();
        let asker = || self.asker().filter(|_| is_about_asker(query.text()));
        named
            .or_else(asker)
            .map_or(Named::nobody(), |number| Named {
                code: number << 1,
                of: &self.of,
                own: if is_named { FACTOR } else { 1.0 },
                others: if is_named { 1.0 } else { 1.0 / FACTOR },
            })
    }

    /// The only person of a dialogue, if that person said at least a quarter of the entries, and not all of them.
    fn asker(&self) -> Option<u32> {
        let mut people = (0..).zip(&self.names).filter(|(_, name)| name.is_person);
        let (number, name) = people.next()?;
        let is_dialogue = people.next().is_none()
            && name.entries < self.of.len()
            && name.entries * PART >= self.of.len();
        is_dialogue.then_some(number)
    }

    /// Its size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let terms: usize = self.names.iter().map(|name| name.terms.len()).sum();
        let named = self.names.capacity() * size_of::<Name>() + 2 * terms * size_of::<u64>();
        let known = self.numbers.allocation_size() + self.owners.allocation_size();
        self.of.capacity() * size_of::<u32>() + named + known
    }

    /// Writes them to a cache.
    pub(super) fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        let names = || self.names.iter().map(|name| &name.terms);
        let ends = names().scan(0_u64, |end, terms| {
            *end += terms.len() as u64;
            Some(*end)
        });
        to.put(&ends.collect::<Vec<u64>>())?;
        let terms = names().flat_map(|terms| terms.iter().copied());
        to.put(&terms.collect::<Vec<u64>>())?;
        to.put(&self.of)
    }

    /// Reads back the speakers of `len` entries; None where the data is damaged.
    pub(super) fn read(from: &mut Reader, len: usize) -> Option<Self> {
        let (ends, terms) = (from.array::<u64>()?, from.array::<u64>()?);
        let mut read = Self::default();
        let mut start = 0;
        for &end in &ends[..] {
            let end = usize::try_from(end).ok()?;
            let name = terms.get(start..end)?;
            let known = read.names.len();
            if !name.is_sorted() || read.number(name) as usize != known {
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
            read.names[(code >> 1) as usize].say(code & THING == 0);
        }
        Some(read)
    }
}

impl Name {
    /// An entry is said under it.
    fn say(&mut self, is_person: bool) {
        self.is_person &= is_person;
        self.entries += 1;
    }
}

/// The factors of a query on the sums of entries, by speaker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'a> {
    code: u32,
    /// The speaker of each entry; empty if the query names nobody.
    of: &'a [u32],
    /// The factor on the sums of the named speaker, and the factor on all other sums, which is not larger.
    own: f64,
    others: f64,
}

impl Named<'_> {
    fn nobody() -> Self {
        Self {
            code: 0,
            of: &[],
            own: 1.0,
            others: 1.0,
        }
    }

    /// The factor on the sum of an entry.
    pub(super) fn factor(self, entry: u32) -> f64 {
        let code = self.of.get(entry as usize);
        if code == Some(&self.code) {
            self.own
        } else {
            self.others
        }
    }

    /// The largest factor in a group of entries.
    pub(super) fn most(self, group: usize) -> f64 {
        let first = (group * GROUP).min(self.of.len());
        let members = &self.of[first..self.of.len().min(first + GROUP)];
        if members.contains(&self.code) {
            self.own
        } else {
            self.others
        }
    }

    /// The largest factor of all entries.
    pub(super) fn largest(self) -> f64 {
        self.own
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
    fn the_one_person_of_a_dialogue_is_named_by_who_asks() {
        let named = |said: &[(&str, &str, &str)], query: &str| -> Vec<f64> {
            let (found, query) = (speakers(said), Query::of(query));
            let named = found.named(&query);
            let factors = (0..said.len()).map(|entry| named.factor(u32::try_from(entry).unwrap()));
            let factors: Vec<f64> = factors.collect();
            let most = factors.iter().copied().fold(0.0, f64::max);
            assert_eq!(named.most(0).to_bits(), most.to_bits());
            factors
        };
        let (user, other) = (("user", "", "message"), ("assistant", "", "message"));
        let less = 1.0 / FACTOR;
        assert_eq!(named(&[user, other], "Where is my kettle?"), [1.0, less]);
        assert_eq!(named(&[user, other], "Where is your kettle?"), [1.0; 2]);
        assert_eq!(named(&[user, user], "Where is my kettle?"), [1.0; 2]);
        let ann = ("user", "Ann", "message");
        assert_eq!(named(&[ann, other], "Where is my kettle?"), [1.0, less]);
        assert_eq!(named(&[ann, other], "Is Ann my boss?"), [FACTOR, 1.0]);
        assert_eq!(named(&[ann, user, other], "Where is my kettle?"), [1.0; 3]);
        let working = [user, other, other, other, ("user", "", "tool_result")];
        assert_eq!(named(&working, "Where is my kettle?"), [1.0; 5]);
        assert_eq!(named(&working[..4], "my kettle"), [1.0, less, less, less]);
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
