//! The keys that tie a result to its call, as small numbers.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

/// Ties a result to its call: the id, or the name where there are no ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    number: u32,
    by_name: bool,
}

impl Key {
    /// Its place among all keys.
    pub(super) fn index(self) -> usize {
        self.number as usize
    }

    /// Whether calls of this key have no id.
    pub(super) fn is_name(self) -> bool {
        self.by_name
    }
}

/// The keys so far. Equal texts have equal keys, but an id and a name never have the same key.
#[derive(Debug, Default)]
pub struct Keys {
    ids: HashMap<Box<[u8]>, u32, FxBuildHasher>,
    names: HashMap<Option<Box<[u8]>>, u32, FxBuildHasher>,
    count: u32,
}

impl Keys {
    /// The key of an id.
    pub fn id(&mut self, id: &[u8]) -> Key {
        let known = self.ids.get(id).copied();
        let number = known.unwrap_or_else(|| {
            let number = self.next();
            self.ids.insert(id.into(), number);
            number
        });
        Key {
            number,
            by_name: false,
        }
    }

    /// The key of a name, or of its absence.
    pub fn name(&mut self, name: Option<&[u8]>) -> Key {
        let name = name.map(Box::from);
        let known = self.names.get(&name).copied();
        let number = known.unwrap_or_else(|| {
            let number = self.next();
            self.names.insert(name, number);
            number
        });
        Key {
            number,
            by_name: true,
        }
    }

    /// How many keys there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// A new number. It cannot overflow: fewer than 2^32 messages fit in memory.
    fn next(&mut self) -> u32 {
        let number = self.count;
        self.count += 1;
        number
    }
}
