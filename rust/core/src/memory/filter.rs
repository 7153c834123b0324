//! Filters of a search: by time, speaker and kind.
//!
//! A filter decides what is given back. Weights of terms, neighbours and days are those of all entries, so a score
//! does not depend on it.

use hashbrown::HashMap;

use crate::id::EntryId;

/// Conditions on entries; all that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Said then or later: milliseconds since 1970, UTC.
    pub since: Option<i64>,
    /// Said before.
    pub until: Option<i64>,
    /// Their role, exactly.
    pub role: Option<String>,
    /// Their kind.
    pub kind: Option<String>,
    /// Their speaker's or tool's name.
    pub name: Option<String>,
}

impl Filter {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it asks for more than a time.
    pub(super) fn is_labelled(&self) -> bool {
        self.role.is_some() || self.kind.is_some() || self.name.is_some()
    }
}

/// The number of a text among those that entries have; 0 is no text.
type Code = u32;

/// Stands for a text that no entry has.
const UNKNOWN: Code = Code::MAX;

/// The role, the kind and the name of each entry of a scope, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Labels {
    codes: HashMap<String, Code>,
    rows: Vec<[Code; 3]>,
}

impl Labels {
    /// Bytes that they take, about.
    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<[Code; 3]>()
    }

    /// Adds those of the next entry.
    pub(super) fn push(&mut self, role: &str, kind: &str, name: Option<&str>) {
        let name = name.map_or(0, |name| self.code(name));
        let row = [self.code(role), self.code(kind), name];
        self.rows.push(row);
    }

    /// The number of entries whose labels are known.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Leaves out those of entries that do not stay, of `entries`, which they are the first of.
    pub(super) fn only(&mut self, entries: &[(EntryId, i64)], stays: impl Fn(EntryId) -> bool) {
        let mut entries = entries.iter();
        self.rows
            .retain(|_| entries.next().is_some_and(|&(id, _)| stays(id)));
    }

    /// The labels of a filter, as numbers.
    pub(super) fn wanted(&self, filter: &Filter) -> [Option<Code>; 3] {
        [&filter.role, &filter.kind, &filter.name].map(|text| {
            let code = |text: &String| self.codes.get(text).copied().unwrap_or(UNKNOWN);
            text.as_ref().map(code)
        })
    }

    /// Whether an entry has what is wanted.
    pub(super) fn has(&self, point: u32, wanted: [Option<Code>; 3]) -> bool {
        let row = self.rows.get(point as usize);
        row.is_some_and(|row| {
            let mut both = row.iter().zip(wanted);
            both.all(|(&code, wanted)| wanted.is_none_or(|wanted| wanted == code))
        })
    }

    fn code(&mut self, text: &str) -> Code {
        let next = Code::try_from(self.codes.len() + 1).unwrap_or(UNKNOWN);
        *self.codes.entry_ref(text).or_insert(next)
    }
}
