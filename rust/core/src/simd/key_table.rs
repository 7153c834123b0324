//! A table of short words by their keys, which grows up to a bound and then forgets the oldest word of a line.

/// Spreads words over the lines: the high bits of the product depend on every byte.
pub(super) const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
/// By how much the table grows, as a power of two.
const STEP: u32 = 2;

/// A few words that share a place in the table, and the value of each.
pub trait KeyLine: Clone + Default {
    /// The value of a word.
    type Known;

    /// Lines to begin with, as a power of two.
    const FEWEST: u32;
    /// Lines at most, as a power of two.
    const MOST: u32;

    /// Stores a word. In a full line it replaces the oldest one.
    fn keep(&mut self, key: u64, known: Self::Known);

    /// The words of the line, oldest first.
    fn oldest_first(&self) -> impl Iterator<Item = (u64, Self::Known)>;
}

/// Lines of words.
///
/// The keys are the bytes of the words, so an answer is always right. Words that were chosen to share a line cost
/// no more than unknown words.
#[derive(Clone, Debug)]
pub struct KeyTable<L> {
    /// A power of two of them.
    pub(super) lines: Vec<L>,
    /// How far a product is shifted right, so that only the number of the line is left.
    pub(super) behind: u32,
    /// How many words were stored since the last change of the number of lines.
    kept: usize,
}

impl<L: KeyLine> Default for KeyTable<L> {
    fn default() -> Self {
        Self::of(L::FEWEST)
    }
}

impl<L: KeyLine> KeyTable<L> {
    fn of(power: u32) -> Self {
        Self {
            lines: vec![L::default(); 1 << power],
            behind: u64::BITS - power,
            kept: 0,
        }
    }

    /// Stores an unknown word; makes more lines first if there are too few.
    pub fn keep(&mut self, key: u64, known: L::Known) {
        let power = u64::BITS - self.behind;
        if self.kept >= self.lines.len() && power < L::MOST {
            let before = std::mem::replace(self, Self::of(power + STEP));
            let all = before.lines.iter().flat_map(L::oldest_first);
            all.for_each(|(key, known)| self.keep(key, known));
        }
        let place = self.place(key);
        self.lines[place].keep(key, known);
        self.kept += 1;
    }

    /// The line that has a word, if the table has it.
    #[inline]
    #[must_use]
    pub fn line(&self, key: u64) -> &L {
        &self.lines[self.place(key)]
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        usize::try_from(key.wrapping_mul(FACTOR) >> self.behind).unwrap_or_default()
    }
}
