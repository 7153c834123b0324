//! The words of units, each word once for a unit, and how many units have it.

use std::hash::BuildHasherDefault;
use std::ops::Range;

use hashbrown::HashMap;
use rustc_hash::FxHasher;

use crate::tokenize::words::Scanner;

/// Words as numbers in the order of their first unit.
#[derive(Debug, Default)]
pub(super) struct Words {
    numbers: HashMap<u64, u32, BuildHasherDefault<FxHasher>>,
    /// Of each word: the number of units that have it, and the last of them.
    units: Vec<(u32, u32)>,
    bags: Vec<u32>,
    scanner: Scanner,
}

impl Words {
    /// Reads the text of the unit with the number `unit`, which is larger than that of all before. The range of its
    /// distinct words is empty, if it has none.
    pub(super) fn read(&mut self, text: &str, unit: u32) -> Range<usize> {
        let Self {
            numbers,
            units,
            bags,
            scanner,
        } = self;
        let start = bags.len();
        scanner.for_each_hashes(text, |hashes| {
            for &hash in hashes {
                let next = u32::try_from(units.len()).expect("fewer words than bytes of memory");
                let number = *numbers.entry(hash).or_insert(next);
                if number == next {
                    units.push((0, u32::MAX));
                }
                let (count, last) = &mut units[number as usize];
                if *last != unit {
                    (*count, *last) = (*count + 1, unit);
                    bags.push(number);
                }
            }
        });
        start..bags.len()
    }

    /// The numbers of the words of a unit.
    pub(super) fn of(&self, unit: &Range<usize>) -> &[u32] {
        &self.bags[unit.clone()]
    }

    /// The number of units that have each word.
    pub(super) fn frequencies(&self) -> impl Iterator<Item = u32> {
        self.units.iter().map(|&(count, _)| count)
    }
}
