//! Words sorted by length on their way to a hash function.
//!
//! XXH3 takes another path for each of a few classes of length. Words of a text come in all lengths, so
//! hashed in order they have the processor guess wrong about every second time, at twice the price of
//! the hash itself. Hashed a class at a time they do not, and each class has a loop of its own.

use std::mem;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::simd::xxh3::{hash_up_to_eight, hash_up_to_sixteen, hash_up_to_three};

const CLASSES: usize = 4;
/// The class of each length as in XXH3: up to 3, up to 8, up to 16, and longer.
const CLASS: [u8; 18] = [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3];
/// Words that wait in a class at most.
const WAITING: usize = 64;

/// Words that wait to be hashed, by class of length: where each begins, and how long it is.
#[derive(Clone, Debug)]
pub(super) struct ByLength {
    classes: [[(usize, usize); WAITING]; CLASSES],
    waiting: [usize; CLASSES],
    /// Those of a class, on their way out.
    hashes: [u64; WAITING],
}

impl Default for ByLength {
    fn default() -> Self {
        Self {
            classes: [[(0, 0); WAITING]; CLASSES],
            waiting: [0; CLASSES],
            hashes: [0; WAITING],
        }
    }
}

impl ByLength {
    /// Lets a word of `bytes` wait, and visits the hashes of all that wait if its class is full. It has one byte
    /// at least, and eight follow its first.
    #[inline]
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        word: Range<usize>,
        visit: &mut impl FnMut(&[u64]),
    ) {
        let length = word.end - word.start;
        let class = usize::from(CLASS[length.min(CLASS.len() - 1)]) % CLASSES;
        let place = self.waiting[class] % WAITING;
        self.classes[class][place] = (word.start, length);
        self.waiting[class] = place + 1;
        if place + 1 == WAITING {
            self.drain(bytes, visit);
        }
    }

    /// Visits the hashes of all that wait, which are words of `bytes`. Not inlined, so that what is visited can
    /// be.
    #[inline(never)]
    pub(super) fn drain(&mut self, bytes: &[u8], visit: &mut impl FnMut(&[u64])) {
        let Self {
            classes,
            waiting,
            hashes,
        } = self;
        let [threes, eights, sixteens, long] = &*classes;
        let waiting = mem::take(waiting);
        visit(hash_all(&threes[..waiting[0]], hashes, |start, length| {
            hash_up_to_three(bytes, start, length)
        }));
        visit(hash_all(&eights[..waiting[1]], hashes, |start, length| {
            hash_up_to_eight(bytes, start, length)
        }));
        visit(hash_all(
            &sixteens[..waiting[2]],
            hashes,
            |start, length| hash_up_to_sixteen(bytes, start, length),
        ));
        visit(hash_all(&long[..waiting[3]], hashes, |start, length| {
            xxh3_64(&bytes[start..start + length])
        }));
    }
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
