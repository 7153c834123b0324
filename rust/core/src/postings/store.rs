//! All blocks of an index, and how entries are added and removed.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::mem;

use crate::postings::block::{Block, Merge, Removed, Seal};
use crate::postings::dictionary::Dictionary;
use crate::postings::newest::{Growing, Tail};
use crate::postings::part::{Part, count, entry};
use crate::simd::columns::BLOCK;

/// The number of postings that each insert moves for a merge: several times as many as it adds, so merges keep up.
const BUDGET: usize = 1024;

/// The postings of entries, numbered from 0 in the order they came. Numbers are not used again.
#[derive(Clone, Debug)]
pub struct Postings<D: Growing> {
    blocks: Vec<Block<D>>,
    fresh: Tail<D>,
    work: Option<Work<D>>,
    /// Full blocks that need work: their newest entries are not a part yet, they have several parts, or many
    /// entries were removed.
    due: VecDeque<usize>,
    len: usize,
    removed: usize,
    /// A key of at least so many entries of a full block gets a column.
    frequent: usize,
}

/// Work that is spread over inserts.
#[derive(Clone, Debug)]
enum Work<D: Growing> {
    Seal(Seal<D>),
    Merge(Merge<D>),
}

impl<D: Growing> Postings<D> {
    /// An empty index. A key of at least `frequent` entries of a block gets a column in it.
    #[must_use]
    pub fn new(frequent: usize) -> Self {
        Self {
            blocks: Vec::new(),
            fresh: Tail::new(0),
            work: None,
            due: VecDeque::new(),
            len: 0,
            removed: 0,
            frequent,
        }
    }

    /// How many entries were added, removed ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many entries were removed.
    #[must_use]
    pub fn removed(&self) -> usize {
        self.removed
    }

    /// Whether there is an entry of that number that was not removed.
    #[must_use]
    pub fn has(&self, id: u32) -> bool {
        let number = id as usize / BLOCK;
        let removed = |block: &Block<D>| {
            block
                .removed()
                .is_some_and(|removed| removed.has(place(id as usize)))
        };
        (id as usize) < self.len && !removed(&self.blocks[number])
    }

    /// The blocks, in the order of their entries; all but the last have 4,096 entries.
    #[must_use]
    pub fn blocks(&self) -> &[Block<D>] {
        &self.blocks
    }

    /// The newest entries of that block, which are in no part yet.
    #[must_use]
    pub fn fresh(&self, block: usize) -> Option<&Tail<D>> {
        let waiting = self.blocks[block].waiting().map(AsRef::as_ref);
        waiting.or_else(|| Some(&self.fresh).filter(|_| block + 1 == self.blocks.len()))
    }

    /// How many pairs of a key and an entry are held, those of removed entries included.
    #[must_use]
    pub fn postings(&self) -> usize {
        let parts = self.blocks.iter().flat_map(Block::parts);
        let waiting = self.blocks.iter().filter_map(Block::waiting);
        parts.map(|part| part.postings()).sum::<usize>()
            + waiting.map(|newest| newest.postings()).sum::<usize>()
            + self.fresh.postings()
    }

    /// The size of the postings in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let parts = self.blocks.iter().flat_map(Block::parts);
        let waiting = self.blocks.iter().filter_map(Block::waiting);
        parts.map(|part| part.bytes()).sum::<usize>()
            + waiting.map(|newest| newest.bytes()).sum::<usize>()
            + self.fresh.bytes()
    }

    /// Adds an entry of these keys, each once with its count.
    ///
    /// # Panics
    ///
    /// For the entry number 2^32: that many do not fit in memory.
    pub fn add(&mut self, row: impl IntoIterator<Item = (D::Key, u32)>) -> u32 {
        let id = u32::try_from(self.len).expect("an index in memory holds fewer than 2^32 entries");
        if self.len.is_multiple_of(BLOCK) {
            self.blocks.push(Block::default());
        }
        self.fresh.push(row);
        self.len += 1;
        if self.len.is_multiple_of(BLOCK) {
            self.end_newest();
        }
        self.advance(BUDGET);
        id
    }

    /// The last block has all its entries: keeps the newest until they are turned into a part.
    fn end_newest(&mut self) {
        let newest = mem::replace(&mut self.fresh, Tail::new(0));
        let number = self.blocks.len() - 1;
        self.blocks[number].wait(newest);
        self.due.push_back(number);
    }

    /// Marks an entry as removed. False if there is none of that number, or it was removed before.
    pub fn remove(&mut self, id: u32) -> bool {
        let id = id as usize;
        let number = id / BLOCK;
        if id >= self.len || !self.blocks[number].remove(place(id)) {
            return false;
        }
        self.removed += 1;
        let is_whole = (number + 1) * BLOCK <= self.len;
        if is_whole && self.blocks[number].is_wasteful() && !self.due.contains(&number) {
            self.due.push_back(number);
        }
        self.advance(BUDGET);
        true
    }

    /// Finishes all work that is due.
    pub fn settle(&mut self) {
        while self.advance(usize::MAX) {}
    }

    /// The postings of a block as one part, without those of removed entries.
    pub(super) fn whole(&self, number: usize) -> Part<D> {
        let mut block = self.blocks[number].clone();
        if let Some(fresh) = self.fresh(number) {
            block.seal(fresh.to_part(usize::MAX));
        }
        let mut merge = Merge::of_block(number, &block, usize::MAX);
        merge.advance(usize::MAX);
        merge.into_part()
    }

    /// Adds a finished block of `len` entries behind other full blocks.
    pub(super) fn push_block(&mut self, len: usize, part: Part<D>, removed: Option<Removed>) {
        self.len += len;
        self.removed += removed.as_ref().map_or(0, Removed::count);
        self.blocks.push(Block::of(part, removed));
        self.fresh = Tail::new(place(self.len));
    }

    /// Does a part of the due work; false where there is none.
    fn advance(&mut self, budget: usize) -> bool {
        if self.work.is_none() {
            self.work = self.due();
        }
        let is_done = match &mut self.work {
            None => return false,
            Some(Work::Seal(seal)) => seal.advance(budget),
            Some(Work::Merge(merge)) => merge.advance(budget),
        };
        match self.work.take_if(|_| is_done) {
            None => {}
            Some(Work::Merge(merge)) => merge.finish(&mut self.blocks),
            Some(Work::Seal(seal)) => {
                let number = seal.finish(&mut self.blocks);
                self.due.push_front(number); // it may have several parts now
            }
        }
        true
    }

    /// The next work: for a block that has all its entries.
    fn due(&mut self) -> Option<Work<D>> {
        while let Some(number) = self.due.pop_front() {
            let (block, frequent) = (&self.blocks[number], self.frequent);
            if let Some(newest) = block.waiting() {
                return Some(Work::Seal(Seal::of(number, newest, frequent)));
            }
            if block.parts().len() > 1 || block.is_wasteful() {
                return Some(Work::Merge(Merge::of_block(number, block, frequent)));
            }
        }
        None
    }
}

/// The place of an entry in its block.
fn place(id: usize) -> u16 {
    u16::try_from(id % BLOCK).expect("a block has 4,096 entries")
}

// The postings of a block turned round: for each entry, its keys and counts.

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
