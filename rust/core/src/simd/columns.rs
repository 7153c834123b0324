//! Columns of counts: the share of frequent keys in the sums of a block.
//!
//! A column has four bits for each of 4,096 entries. Word `32 * g + l` has the counts of the entry `128 * g + l`
//! and of the entries 32, 64 and 96 behind it. So a register of words, shifted and masked, has the counts of
//! consecutive entries, and nothing has to be widened.

#![allow(
    unsafe_code,
    reason = "instructions that not every processor has: a Level says that this one has them"
)]

#[cfg(target_arch = "x86_64")]
#[allow(clippy::wildcard_imports, reason = "the names of instructions")]
use std::arch::x86_64::*;

use super::level::Level;
use super::prefetch::prefetch;

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
    /// Prefetches the first counts.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.0[..]);
    }

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

/// Sets the sum of each entry to its counts in `columns`, each times the weight of its column; 0 without any count.
///
/// At least the sums of the first `entries` are set; those behind them are undefined. Sums wrap at 2^16: the caller
/// makes sure that they stay below.
pub fn set_columns(level: Level, sums: &mut Sums, entries: usize, columns: &[(&Column, u16)]) {
    let some = entries.div_ceil(GROUP);
    match level.path() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level of this path is made only where the processor has AVX2.
        super::level::Path::Avx2 => unsafe {
            with_avx2(&mut sums.as_chunks_mut().0[..some], columns);
        },
        _ => portable(&mut sums.as_chunks_mut().0[..some], columns),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(groups: &mut [[u16; GROUP]], columns: &[(&Column, u16)]) {
    const HALF: usize = WORDS / 2;
    let low = _mm256_set1_epi16(MAX_COUNT.cast_signed());
    for (number, sums) in groups.iter_mut().enumerate() {
        for half in 0..2 {
            let mut runs = [_mm256_setzero_si256(); GROUP / WORDS];
            for (column, weight) in columns {
                let words = &column.0.as_chunks::<HALF>().0[2 * number + half];
                let weight = _mm256_set1_epi16(weight.cast_signed());
                // SAFETY: 16 words are the 32 bytes that are read.
                let words = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
                let quarters = [
                    _mm256_and_si256(words, low),
                    _mm256_and_si256(_mm256_srli_epi16::<4>(words), low),
                    _mm256_and_si256(_mm256_srli_epi16::<8>(words), low),
                    _mm256_srli_epi16::<12>(words),
                ];
                for (run, counts) in runs.iter_mut().zip(quarters) {
                    *run = _mm256_add_epi16(*run, _mm256_mullo_epi16(counts, weight));
                }
            }
            for (quarter, run) in runs.into_iter().enumerate() {
                let sums = &mut sums.as_chunks_mut::<HALF>().0[2 * quarter + half];
                // SAFETY: 16 sums are the 32 bytes that are written.
                unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), run) };
            }
        }
    }
}

/// The portable counterpart, on integers of 16 bits, which the compiler vectorizes on every target.
///
/// A word is read as two bytes with one count each. As long as the weights of some columns are together at most
/// [`LIGHT`], no sum exceeds a byte, so half as many products and sums are needed.
fn portable(groups: &mut [[u16; GROUP]], columns: &[(&Column, u16)]) {
    groups.as_flattened_mut().fill(0);
    let mut rest = columns;
    while let [(column, weight), ..] = *rest {
        let light = light(rest);
        let (now, later) = rest.split_at(light.max(1));
        rest = later;
        if light > 0 {
            add_light(groups, now);
        } else {
            add_heavy(groups, column, weight);
        }
    }
}

/// The largest sum of weights for which the products of counts fit in a byte.
const LIGHT: u16 = u8::MAX as u16 / MAX_COUNT;

/// How many columns, from the first on, have weights that are together at most [`LIGHT`].
fn light(columns: &[(&Column, u16)]) -> usize {
    let mut room = LIGHT;
    let fits = |&&(_, weight): &&(&Column, u16)| {
        let left = room.checked_sub(weight);
        room = left.unwrap_or(0);
        left.is_some()
    };
    columns.iter().take_while(fits).count()
}

fn add_light(groups: &mut [[u16; GROUP]], columns: &[(&Column, u16)]) {
    /// The mask of the first and the third count of a word, each in a byte.
    const EVEN: u16 = 0x0F0F;
    for (number, sums) in groups.iter_mut().enumerate() {
        let (mut even, mut odd) = ([0_u16; WORDS], [0_u16; WORDS]);
        for (column, weight) in columns {
            let words = &column.0.as_chunks::<WORDS>().0[number];
            for ((even, odd), word) in even.iter_mut().zip(&mut odd).zip(words) {
                *even += (word & EVEN) * weight;
                *odd += (word >> BITS & EVEN) * weight;
            }
        }
        let quarters = [
            even.map(|two| two & 0xFF),
            odd.map(|two| two & 0xFF),
            even.map(|two| two >> 8),
            odd.map(|two| two >> 8),
        ];
        for (sums, quarter) in sums.as_chunks_mut::<WORDS>().0.iter_mut().zip(quarters) {
            for (sum, more) in sums.iter_mut().zip(quarter) {
                *sum = sum.wrapping_add(more);
            }
        }
    }
}

fn add_heavy(groups: &mut [[u16; GROUP]], column: &Column, weight: u16) {
    let words = column.0.as_chunks::<WORDS>().0;
    for (sums, words) in groups.iter_mut().zip(words) {
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

    /// Weights of all sizes, and many small ones, some of which fit into a byte together.
    fn weight() -> impl Strategy<Value = u16> {
        prop_oneof![Just(1), 0..=LIGHT + 1, any::<u16>()]
    }

    #[test]
    fn counts_and_weights_that_just_fit_into_a_byte_are_added_up() {
        let mut full = Column::default();
        (0..4096).for_each(|entry| full.set(entry, MAX_COUNT));
        for weights in [
            vec![LIGHT],
            vec![1; 17],
            vec![1; 40],
            vec![9, 8, 1, LIGHT, LIGHT + 1],
        ] {
            let columns: Vec<_> = weights.iter().map(|&weight| (&full, weight)).collect();
            let expected = [MAX_COUNT * weights.iter().sum::<u16>(); BLOCK];
            for level in Level::all() {
                let mut sums = [1; BLOCK];
                set_columns(level, &mut sums, BLOCK, &columns);
                assert!(sums == expected, "{level} {weights:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_level_sets_what_entry_by_entry_adds(
            columns in vec((column(), weight()), 0..9),
            before in any::<u16>(),
            entries in 0..=BLOCK,
        ) {
            let columns: Vec<_> = columns.iter().map(|(column, weight)| (column, *weight)).collect();
            let mut expected = [0_u16; BLOCK];
            for (entry, sum) in (0..).zip(&mut expected) {
                for (column, weight) in &columns {
                    *sum = sum.wrapping_add(column.get(entry).wrapping_mul(*weight));
                }
            }
            for level in Level::all() {
                let mut sums = [before; BLOCK];
                set_columns(level, &mut sums, entries, &columns);
                prop_assert!(sums[..entries] == expected[..entries], "{level}");
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
