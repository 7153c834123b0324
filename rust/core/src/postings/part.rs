//! A part: the postings of some entries of a block, key by key. It never changes.

use crate::cache::Array;
use crate::postings::dictionary::Dictionary;
use crate::simd::columns::{BLOCK, Column, MAX_COUNT};
use crate::simd::prefetch::prefetch;

const COUNT_BITS: u32 = 4;
/// The largest count of a code; larger counts have an [`Overflow`] besides.
pub(super) const MAX_CODE: u32 = MAX_COUNT as u32;

/// The entry of a code, by its place in the block.
#[inline]
#[must_use]
pub fn entry(code: u16) -> u16 {
    code >> COUNT_BITS
}

/// The count of a code: how often the entry has the key, up to 15.
#[inline]
#[must_use]
pub fn count(code: u16) -> u16 {
    code & MAX_COUNT
}

/// Keys in one word of bits.
const WORD: usize = 64;

/// Packs an entry (12 bits) and a count (4 bits) into one code. Codes ascend with their entries.
#[inline]
pub(super) fn code(entry: u16, count: u32) -> u16 {
    let count = u16::try_from(count.min(MAX_CODE)).expect("at most 15");
    entry << COUNT_BITS | count
}

/// The rest of a count above 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// The place of the key in the part.
    pub(super) place: u32,
    /// The entry, by its place in the block.
    pub entry: u16,
    /// How often it has the key beyond 15 times.
    pub more: u32,
}

/// The posting list of a key in a part.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    /// Codes, ascending by entry; none where there is a column.
    pub codes: &'a [u16],
    /// The counts of all entries of the block, where the key is frequent.
    pub column: Option<&'a Column>,
    /// The counts above 15.
    pub overflow: &'a [Overflow],
    len: u32,
}

impl List<'_> {
    /// How many entries have the key.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.len as usize
    }

    /// Calls `visit` with each code, in order.
    pub(crate) fn for_each_code(&self, mut visit: impl FnMut(u16)) {
        match self.column {
            Some(column) => column
                .iter()
                .for_each(|(entry, count)| visit(code(entry, u32::from(count)))),
            None => self.codes.iter().copied().for_each(visit),
        }
    }

    /// How often `entry` has the key beyond 15 times.
    #[inline]
    #[must_use]
    pub(crate) fn more_of(&self, entry: u16) -> u32 {
        let above = self.overflow.iter().find(|above| above.entry == entry);
        above.map_or(0, |above| above.more)
    }
}

/// A frequent key, with its column.
#[derive(Clone, Debug)]
pub(super) struct Dense {
    pub(super) place: u32,
    /// How many entries are only in the column: 0 where the codes are kept too.
    pub(super) len: u32,
    pub(super) column: Column,
}

/// The posting lists of a range of entries.
#[derive(Clone, Debug)]
pub struct Part<D> {
    pub(super) dictionary: D,
    /// Where the codes of each key begin, followed by the end of the last ones.
    pub(super) starts: Array<u32>,
    pub(super) codes: Array<u16>,
    pub(super) overflow: Vec<Overflow>,
    pub(super) dense: Vec<Dense>,
    /// A bit for each key that has a column or a count above 15. Few keys do; only these are looked up.
    special: Box<[u64]>,
}

impl<D: Dictionary> Part<D> {
    pub(super) fn new(
        dictionary: D,
        starts: Array<u32>,
        codes: Array<u16>,
        overflow: Vec<Overflow>,
        dense: Vec<Dense>,
    ) -> Self {
        let mut special = vec![0_u64; dictionary.keys().len().div_ceil(WORD)].into_boxed_slice();
        let columns = dense.iter().map(|dense| dense.place);
        for place in columns.chain(overflow.iter().map(|above| above.place)) {
            special[place as usize / WORD] |= 1 << (place as usize % WORD);
        }
        Self {
            dictionary,
            starts,
            codes,
            overflow,
            dense,
            special,
        }
    }

    /// The postings of `key`.
    #[inline]
    pub fn list(&self, key: D::Key) -> Option<List<'_>> {
        self.dictionary.place(key).map(|place| self.list_at(place))
    }

    /// The dictionary of its keys.
    pub(crate) fn dictionary(&self) -> &D {
        &self.dictionary
    }

    /// The codes of the key at that place; none where there is a column.
    #[inline]
    pub(crate) fn codes_at(&self, place: usize) -> &[u16] {
        &self.codes[self.starts[place] as usize..self.starts[place + 1] as usize]
    }

    /// Prefetches the memory that [`codes_at`](Self::codes_at) reads.
    #[inline]
    pub(crate) fn prefetch_at(&self, place: usize) {
        prefetch(&self.starts[place..=place]);
    }

    /// The column of the key at that place, whether its codes are kept beside it or not.
    #[inline]
    pub(crate) fn column_at(&self, place: usize) -> Option<&Column> {
        let found = self
            .dense
            .binary_search_by_key(&place, |dense| dense.place as usize);
        found.ok().map(|found| &self.dense[found].column)
    }

    /// Its keys, ascending.
    pub fn keys(&self) -> &[D::Key] {
        self.dictionary.keys()
    }

    /// The postings of the key at that place.
    #[inline]
    pub(crate) fn list_at(&self, place: usize) -> List<'_> {
        let (start, end) = (self.starts[place], self.starts[place + 1]);
        let list = List {
            codes: &self.codes[start as usize..end as usize],
            column: None,
            overflow: &[],
            len: end - start,
        };
        if self.special[place / WORD] >> (place % WORD) & 1 == 0 {
            return list;
        }
        // Where the codes are kept, the column repeats them and is not needed.
        let dense = if start < end {
            None
        } else {
            let found = self
                .dense
                .binary_search_by_key(&place, |dense| dense.place as usize);
            found.ok().map(|found| &self.dense[found])
        };
        List {
            column: dense.map(|dense| &dense.column),
            overflow: self.overflow_at(place),
            len: dense.map_or(list.len, |dense| dense.len),
            ..list
        }
    }

    /// How often `entry` has the key at that place beyond 15 times.
    #[must_use]
    pub(crate) fn more_at(&self, place: usize, entry: u16) -> u32 {
        if self.special[place / WORD] >> (place % WORD) & 1 == 0 {
            return 0;
        }
        // `overflow` is sorted by key, then by entry.
        let found = self
            .overflow
            .binary_search_by_key(&(place, entry), |above| (above.place as usize, above.entry));
        found.map_or(0, |found| self.overflow[found].more)
    }

    fn overflow_at(&self, place: usize) -> &[Overflow] {
        let start = self
            .overflow
            .partition_point(|above| (above.place as usize) < place);
        let rest = &self.overflow[start..];
        let same = |above: &&Overflow| above.place as usize == place;
        &rest[..rest.iter().take_while(same).count()] // nearly always none
    }

    /// How many pairs of a key and an entry it holds.
    #[must_use]
    pub fn postings(&self) -> usize {
        let dense = self.dense.iter().map(|dense| dense.len as usize);
        self.codes.len() + dense.sum::<usize>()
    }

    /// Its size in memory, in bytes, without the directory of its dictionary.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.keys())
            + size_of_val(&self.starts[..])
            + size_of_val(&self.codes[..])
            + size_of_val(&self.overflow[..])
            + size_of_val(&self.special[..])
            + self.dense.len() * (size_of::<Dense>() + BLOCK / 2)
    }
}

/// Builds a part, key by key.
#[derive(Clone, Debug)]
pub struct Builder<D: Dictionary> {
    keys: Vec<D::Key>,
    starts: Vec<u32>,
    codes: Vec<u16>,
    overflow: Vec<Overflow>,
    dense: Vec<Dense>,
    /// A key of at least so many entries gets a column.
    frequent: usize,
}

impl<D: Dictionary> Builder<D> {
    pub(super) fn new(frequent: usize, codes: usize) -> Self {
        Self {
            keys: Vec::new(),
            starts: vec![0],
            codes: Vec::with_capacity(codes),
            overflow: Vec::new(),
            dense: Vec::new(),
            frequent,
        }
    }

    /// Adds a posting to the current key; entries ascend.
    #[inline]
    pub(super) fn push(&mut self, code: u16) {
        self.codes.push(code);
    }

    /// Adds postings to the current key, in their order.
    #[inline]
    pub(super) fn extend(&mut self, codes: &[u16]) {
        self.codes.extend_from_slice(codes);
    }

    /// Sets all postings of the current key from a column of `entries` entries; counts above 15 are added by
    /// `overflow`.
    pub(super) fn column(&mut self, column: &Column, entries: usize) {
        if entries < self.frequent {
            // Every entry is written, and an entry without a count is overwritten by the next one: a branch here
            // could not be predicted.
            let mut end = self.codes.len();
            self.codes.resize(end + BLOCK, 0);
            for entry in (0..).take(BLOCK) {
                let count = column.get(entry);
                self.codes[end] = code(entry, count.into());
                end += usize::from(count > 0);
            }
            self.codes.truncate(end);
            return;
        }
        self.dense.push(Dense {
            place: narrow(self.keys.len()),
            len: narrow(entries),
            column: column.clone(),
        });
    }

    /// Adds the rest of a count above 15 to the current key; entries ascend.
    pub(super) fn overflow(&mut self, entry: u16, more: u32) {
        let place = narrow(self.keys.len());
        self.overflow.push(Overflow { place, entry, more });
    }

    /// Ends the current key. A key without postings is left out.
    pub(super) fn end_key(&mut self, key: D::Key) {
        let start = self.starts[self.keys.len()] as usize;
        let codes = &self.codes[start..];
        let place = narrow(self.keys.len());
        let is_column = self.dense.last().is_some_and(|last| last.place == place);
        if codes.is_empty() && !is_column {
            return;
        }
        if codes.len() >= self.frequent {
            let mut column = Column::default();
            for &code in codes {
                column.set(entry(code), count(code));
            }
            let len = if D::KEEPS_CODES { 0 } else { codes.len() };
            self.codes.truncate(start + codes.len() - len);
            self.dense.push(Dense {
                place,
                len: narrow(len),
                column,
            });
        }
        self.keys.push(key);
        self.starts.push(narrow(self.codes.len()));
    }

    pub(super) fn finish(mut self) -> Part<D> {
        self.keys.shrink_to_fit();
        self.starts.shrink_to_fit();
        self.codes.shrink_to_fit();
        Part::new(
            D::of(self.keys),
            self.starts.into(),
            self.codes.into(),
            self.overflow,
            self.dense,
        )
    }
}

fn narrow(len: usize) -> u32 {
    u32::try_from(len).expect("a block has fewer than 2^32 postings")
}
