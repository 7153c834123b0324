//! Columns of counts: the share of frequent keys in the sums of a block.
//!
//! A column has four bits for each of 4,096 entries. Word `32 * g + l` has the counts of the entry `128 * g + l`
//! and of the entries 32, 64 and 96 behind it. So a register of words, shifted and masked, has the counts of
//! consecutive entries, and nothing has to be widened.

/// Entries of a block.
pub const BLOCK: usize = 4096;

/// Bits of a count.
const BITS: usize = 4;
/// The largest count of a column.
pub(crate) const MAX_COUNT: u16 = (1 << BITS) - 1;
/// Words that are read together, and the number of entries in them.
const WORDS: usize = 32;
const GROUP: usize = WORDS * (u16::BITS as usize / BITS);

/// The sums of a block: the dot product of the query with each entry.
pub type Sums = [u16; BLOCK];

/// The counts of a block's entries for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column(Box<[u16; BLOCK / 4]>);

impl Default for Column {
    fn default() -> Self {
        Self(Box::new([0; BLOCK / 4]))
    }
}

impl Column {
    /// The count of `entry`, which is below 4,096.
    #[inline]
    #[must_use]
    pub fn get(&self, entry: u16) -> u16 {
        let (word, shift) = place(entry);
        self.0[word] >> shift & MAX_COUNT
    }

    /// Sets the count of an entry that has none yet; at most 15.
    ///
    /// # Panics
    ///
    /// If `count` is above 15, which is a bug of the caller.
    pub fn set(&mut self, entry: u16, count: u16) {
        assert!(count <= MAX_COUNT, "a column holds counts up to 15");
        let (word, shift) = place(entry);
        self.0[word] |= count << shift;
    }

    /// Its words, as they lie in memory.
    #[must_use]
    pub fn words(&self) -> &[u16] {
        &self.0[..]
    }

    /// The column of these words; `None` if their number is not that of a column.
    #[must_use]
    pub(crate) fn of_words(words: &[u16]) -> Option<Self> {
        let mut column = Self::default();
        (words.len() == column.0.len()).then(|| column.0.copy_from_slice(words))?;
        Some(column)
    }

    /// The entries with a count, ascending, and their counts.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u16)> {
        (0..)
            .take(BLOCK)
            .map(|entry| (entry, self.get(entry)))
            .filter(|&(_, count)| count > 0)
    }
}

#[inline]
fn place(entry: u16) -> (usize, usize) {
    let entry = usize::from(entry) % BLOCK;
    let (group, within) = (entry / GROUP, entry % GROUP);
    (group * WORDS + within % WORDS, within / WORDS * BITS)
}

/// Adds to the sum of each entry its count in `column`, times `weight`.
///
/// The first `entries` sums are right afterwards; those behind them are undefined. Sums wrap at 2^16: the caller makes
/// sure that they stay below. The compiler vectorizes the integers of 16 bits on every target.
pub fn add_column(sums: &mut Sums, entries: usize, column: &Column, weight: u16) {
    let some = entries.div_ceil(GROUP);
    let groups = &mut sums.as_chunks_mut::<GROUP>().0[..some];
    for (sums, words) in groups.iter_mut().zip(column.0.as_chunks::<WORDS>().0) {
        let runs = sums.as_chunks_mut::<WORDS>().0;
        for (quarter, run) in runs.iter_mut().enumerate() {
            for (sum, word) in run.iter_mut().zip(words) {
                let count = word >> (quarter * BITS) & MAX_COUNT;
                *sum = sum.wrapping_add(count.wrapping_mul(weight));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn column() -> impl Strategy<Value = Column> {
        vec((0_u16..4096, 1_u16..=MAX_COUNT), 0..600).prop_map(|counts| {
            let mut column = Column::default();
            for (entry, count) in counts {
                if column.get(entry) == 0 {
                    column.set(entry, count);
                }
            }
            column
        })
    }

    proptest! {
        #[test]
        fn a_column_adds_what_entry_by_entry_adds(
            column in column(),
            weight in any::<u16>(),
            before in any::<u16>(),
            entries in 0..=BLOCK,
        ) {
            let count = |entry: usize| column.get(u16::try_from(entry).unwrap());
            let expected = |entry| before.wrapping_add(count(entry).wrapping_mul(weight));
            let mut sums = [before; BLOCK];
            add_column(&mut sums, entries, &column, weight);
            for (entry, &sum) in sums[..entries].iter().enumerate() {
                prop_assert_eq!(sum, expected(entry));
            }
        }

        #[test]
        fn a_column_gives_back_what_was_set(column in column()) {
            let mut copy = Column::default();
            for (entry, count) in column.iter() {
                copy.set(entry, count);
            }
            prop_assert_eq!(copy, column);
        }
    }
}
