//! Groups words by length before they are hashed.
//!
//! XXH3 has a different code path for each of a few classes of length. Words of a text come in all lengths, so if
//! they were hashed in order, the processor would mispredict about every second branch, which costs as much again
//! as the hash. Hashed class by class, they need no such branch, and each class has its own loop.

use std::mem;

use xxhash_rust::xxh3::xxh3_64;

use crate::simd::edges::Run;
use crate::simd::xxh3::{hash_up_to_eight, hash_up_to_sixteen, hash_up_to_three};

const CLASSES: usize = 4;
/// Bits of the counter of a class.
const BITS: u8 = 16;
/// The shift of the counter for each length. The classes are those of XXH3: up to 3, up to 8, up to 16, and longer.
const SHIFT: [u8; 18] = [
    0, 0, 0, 0, 16, 16, 16, 16, 16, 32, 32, 32, 32, 32, 32, 32, 32, 48,
];
/// The most words that wait in a class.
const WAITING: usize = 64;

/// Words that wait to be hashed, by class of length: the start and the length of each.
#[derive(Clone, Debug)]
pub(super) struct ByLength {
    classes: [[(usize, usize); WAITING]; CLASSES],
    /// The four counters in one number: it stays in a register. Separate counters would go through memory, and each
    /// word would wait for the one before.
    waiting: u64,
    /// A buffer for the hashes of a class.
    hashes: [u64; WAITING],
}

impl Default for ByLength {
    fn default() -> Self {
        Self {
            classes: [[(0, 0); WAITING]; CLASSES],
            waiting: 0,
            hashes: [0; WAITING],
        }
    }
}

impl ByLength {
    /// Adds the words at `runs`, counted from `first` in `bytes`, and calls `visit` with the hashes of all waiting
    /// words when a class is full. A word has at least one byte, and at least eight bytes follow its start.
    #[inline]
    pub(super) fn push_all(
        &mut self,
        bytes: &[u8],
        first: usize,
        runs: &[Run],
        visit: &mut impl FnMut(&[u64]),
    ) {
        let mut waiting = self.waiting;
        for &[start, end] in runs {
            let length = end.wrapping_sub(start) as usize;
            let shift = SHIFT[length.min(SHIFT.len() - 1)];
            let place = usize::from(count(waiting, shift)) % WAITING;
            self.classes[usize::from(shift / BITS)][place] = (first + start as usize, length);
            waiting += 1 << shift;
            if place + 1 == WAITING {
                self.waiting = mem::take(&mut waiting);
                self.drain(bytes, visit);
            }
        }
        self.waiting = waiting;
    }

    /// Calls `visit` with the hashes of all waiting words of `bytes`. Not inlined, so that `visit` can be.
    #[inline(never)]
    pub(super) fn drain(&mut self, bytes: &[u8], visit: &mut impl FnMut(&[u64])) {
        let Self {
            classes: [threes, eights, sixteens, long],
            waiting,
            hashes,
        } = self;
        let waiting = mem::take(waiting);
        let many = |class: u8| usize::from(count(waiting, class * BITS));
        visit(hash_all(&threes[..many(0)], hashes, |start, length| {
            hash_up_to_three(bytes, start, length)
        }));
        visit(hash_all(&eights[..many(1)], hashes, |start, length| {
            hash_up_to_eight(bytes, start, length)
        }));
        visit(hash_all(&sixteens[..many(2)], hashes, |start, length| {
            hash_up_to_sixteen(bytes, start, length)
        }));
        visit(hash_all(&long[..many(3)], hashes, |start, length| {
            xxh3_64(&bytes[start..start + length])
        }));
    }
}

/// The counter at that place.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the bits of one count")]
fn count(waiting: u64, shift: u8) -> u16 {
    (waiting >> shift) as u16
}

#[inline]
fn hash_all<'a>(
    words: &[(usize, usize)],
    hashes: &'a mut [u64; WAITING],
    one: impl Fn(usize, usize) -> u64,
) -> &'a [u64] {
    for (hash, &(start, length)) in hashes.iter_mut().zip(words) {
        *hash = one(start, length);
    }
    &hashes[..words.len()]
}
