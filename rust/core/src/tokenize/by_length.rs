//! Words sorted by length on their way to a hash function.
//!
//! XXH3 takes another path for each of a few classes of length. Words of a text come in all lengths, so
//! hashed in order they have the processor guess wrong about every second time, at twice the price of
//! the hash itself. Hashed a class at a time they do not.

use std::mem;
use std::ops::Range;

const CLASSES: usize = 4;
/// The class of each length as in XXH3: up to 3, up to 8, up to 16, and longer.
const CLASS: [u8; 18] = [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3];
/// Words that wait in a class at most.
const WAITING: usize = 64;

/// Words that wait to be visited, by class of length.
#[derive(Clone, Debug)]
pub(super) struct ByLength {
    classes: [[(usize, usize); WAITING]; CLASSES],
    waiting: [usize; CLASSES],
}

impl Default for ByLength {
    fn default() -> Self {
        Self {
            classes: [[(0, 0); WAITING]; CLASSES],
            waiting: [0; CLASSES],
        }
    }
}

impl ByLength {
    /// Lets `word` wait, and visits all that wait if its class is full.
    #[inline]
    pub(super) fn push(&mut self, word: Range<usize>, visit: &mut impl FnMut(Range<usize>)) {
        let length = (word.end - word.start).min(CLASS.len() - 1);
        let class = usize::from(CLASS[length]) % CLASSES;
        let place = self.waiting[class] % WAITING;
        self.classes[class][place] = (word.start, word.end);
        self.waiting[class] = place + 1;
        if place + 1 == WAITING {
            self.drain(visit);
        }
    }

    /// Visits all that wait. Not inlined, so that what is visited can be.
    #[inline(never)]
    pub(super) fn drain(&mut self, visit: &mut impl FnMut(Range<usize>)) {
        for (class, waiting) in self.classes.iter().zip(&mut self.waiting) {
            for &(start, end) in class.iter().take(mem::take(waiting)) {
                visit(start..end);
            }
        }
    }
}
