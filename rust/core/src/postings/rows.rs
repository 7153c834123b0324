//! The postings of a block turned round: for each entry, its keys and counts.

use std::borrow::Cow;

use crate::postings::dictionary::Dictionary;
use crate::postings::part::{Part, count, entry};
use crate::postings::store::Postings;
use crate::postings::tail::Growing;
use crate::simd::columns::BLOCK;

/// The entries of one block, by their places in it.
#[derive(Debug)]
pub struct Rows<K> {
    /// Where the keys of each entry begin, followed by the end of the last ones.
    starts: Vec<usize>,
    keys: Vec<(K, u32)>,
}

impl<K> Rows<K> {
    /// The keys of an entry, ascending, and how often it has each; none where it was removed.
    #[must_use]
    pub fn row(&self, place: usize) -> &[(K, u32)] {
        &self.keys[self.starts[place]..self.starts[place + 1]]
    }
}

impl<D: Growing> Postings<D> {
    /// The entries of a block.
    #[must_use]
    pub fn rows(&self, number: usize) -> Rows<D::Key> {
        let block = &self.blocks()[number];
        let is_fresh = self.fresh(number).is_some_and(|fresh| !fresh.is_empty());
        let part = match block.parts() {
            [part] if !is_fresh && block.removed().is_none() => Cow::Borrowed(part.as_ref()),
            _ => Cow::Owned(self.whole(number)),
        };
        rows(&part)
    }
}

fn rows<D: Dictionary>(part: &Part<D>) -> Rows<D::Key> {
    let lists = || {
        part.keys()
            .iter()
            .zip((0..).map(|place| part.list_at(place)))
    };
    // First the number of keys of each entry, stored one place later; their running sum then is where the keys
    // begin.
    let mut starts = vec![0_usize; BLOCK + 1];
    for (_, list) in lists() {
        list.for_each_code(|code| starts[usize::from(entry(code)) + 1] += 1);
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut next = starts.clone();
    let filler = part.keys().first().copied();
    let mut keys = filler.map_or_else(Vec::new, |key| vec![(key, 0); sum]);
    for (&key, list) in lists() {
        list.for_each_code(|code| {
            let next = &mut next[usize::from(entry(code))];
            keys[*next] = (key, u32::from(count(code)) + list.more_of(entry(code)));
            *next += 1;
        });
    }
    Rows { starts, keys }
}
