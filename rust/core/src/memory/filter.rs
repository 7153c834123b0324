//! Filters of a search: by time, speaker and kind.
//!
//! A filter only selects results. Weights of terms, neighbours and days are computed over all entries, so a score
//! does not depend on the filter.

use hashbrown::HashMap;

use crate::id::EntryId;

/// Conditions on entries. All given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The earliest time: milliseconds since 1970, UTC.
    pub since: Option<i64>,
    /// The end of the time range, exclusive.
    pub until: Option<i64>,
    /// The exact role.
    pub role: Option<String>,
    /// The exact kind.
    pub kind: Option<String>,
    /// The exact name of the speaker or the tool.
    pub name: Option<String>,
}

impl Filter {
    /// Whether there is no condition.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there is a condition on the role, the kind or the name.
    pub(super) fn is_labelled(&self) -> bool {
        self.role.is_some() || self.kind.is_some() || self.name.is_some()
    }
}

/// The number of a text among the labels of the entries; 0 stands for no text.
type Code = u32;

/// The code of a text that no entry has.
const UNKNOWN: Code = Code::MAX;

/// The role, the kind and the name of each entry of a scope, as codes.
#[derive(Debug, Default)]
pub(super) struct Labels {
    codes: HashMap<String, Code>,
    rows: Vec<[Code; 3]>,
}

impl Labels {
    /// Their approximate bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts: usize = self.codes.keys().map(String::capacity).sum();
        let codes = self.codes.allocation_size() + texts;
        self.rows.capacity() * size_of::<[Code; 3]>() + codes
    }

    /// Adds the labels of the next entry.
    pub(super) fn push(&mut self, role: &str, kind: &str, name: Option<&str>) {
        let name = name.map_or(0, |name| self.code(name));
        let row = [self.code(role), self.code(kind), name];
        self.rows.push(row);
    }

    /// The number of entries with known labels.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Removes the labels of entries that do not stay. The labels belong to the first of `entries`, in their order.
    pub(super) fn only(&mut self, entries: &[(EntryId, i64)], stays: impl Fn(EntryId) -> bool) {
        let mut entries = entries.iter();
        self.rows
            .retain(|_| entries.next().is_some_and(|&(id, _)| stays(id)));
    }

    /// The labels of a filter, as codes.
    pub(super) fn wanted(&self, filter: &Filter) -> [Option<Code>; 3] {
        [&filter.role, &filter.kind, &filter.name].map(|text| {
            let code = |text: &String| self.codes.get(text).copied().unwrap_or(UNKNOWN);
            text.as_ref().map(code)
        })
    }

    /// Whether an entry has the wanted labels.
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
