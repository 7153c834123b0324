//! Finds stretches of a text that have words and the signs that may join them, 64 bytes at a time.
//!
//! A cluster is a maximal run of letters, digits, underscores and bytes outside of ASCII, with a single apostrophe
//! or hyphen between two of these, and a single dot or comma between two digits. Everything that an analyser reads
//! as one word or one compound lies in one cluster, so clusters can be read one by one. A byte outside of ASCII may
//! be any character, so it counts as a letter and as a digit.

#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "instructions of one architecture, which all of its processors have"
    )
)]

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
#[allow(clippy::wildcard_imports, reason = "the names of instructions")]
use std::arch::x86_64::*;

use super::classify::BLOCK;
#[cfg(any(test, not(target_arch = "x86_64")))]
use super::classify::mask_of;
use super::edges::{Edges, Runs};

/// Blocks that are processed together.
const GROUP: usize = 32;

type Block = [u8; BLOCK];

/// Finds clusters, and keeps its buffers from one text to the next.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    masks: Vec<u64>,
    edges: Edges,
    /// A buffer for the kinds of a group. It is kept, since texts are short and clearing it takes long.
    kinds: Box<[Kinds; GROUP]>,
}

impl Clusters {
    /// Calls `visit` with the range of each cluster of `text`, in order.
    #[inline]
    pub fn for_each(&mut self, text: &str, mut visit: impl FnMut(Range<usize>)) {
        self.find(text.as_bytes());
        self.edges.for_each_runs(&self.masks, |runs| match runs {
            Runs::Reaching(run) => visit(run),
            Runs::Behind(first, runs) => {
                for &[start, end] in runs {
                    visit(first + start as usize..first + end as usize);
                }
            }
        });
    }

    /// Fills `masks`: a bit for each byte, set where it belongs to a cluster. The last bit is clear.
    fn find(&mut self, text: &[u8]) {
        let (blocks, rest) = text.as_chunks::<BLOCK>();
        let mut last = [b' '; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        self.masks.clear();
        let (mut before, mut here) = (Kinds::default(), None);
        for group in blocks.chunks(GROUP).chain([&[last][..]]) {
            let kinds = &mut self.kinds[..group.len()];
            classify(group, kinds);
            for &after in &*kinds {
                if let Some(known) = here.replace(after) {
                    self.masks.push(cluster_mask(before, known, after));
                    before = known;
                }
            }
        }
        let known = here.unwrap_or_default();
        self.masks
            .push(cluster_mask(before, known, Kinds::default()));
    }

    /// Frees the memory of an unusually long text, down to that of a text of `bytes` bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.masks.clear();
        self.masks.shrink_to(bytes / BLOCK);
    }
}

/// The kinds of the bytes of a block, one bit for each byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kinds {
    /// A letter, a digit, an underscore, or not ASCII.
    word: u64,
    /// A digit, or not ASCII.
    digit: u64,
    /// An apostrophe or a hyphen.
    hyphen: u64,
    /// A dot or a comma.
    dot: u64,
}

/// The bytes of a block that belong to a cluster, from the kinds of this block and of its neighbours.
#[inline]
fn cluster_mask(before: Kinds, here: Kinds, after: Kinds) -> u64 {
    let between = |here: u64, before: u64, after: u64| {
        (here << 1 | before >> (BLOCK - 1)) & (here >> 1 | after << (BLOCK - 1))
    };
    let words = between(here.word, before.word, after.word);
    let digits = between(here.digit, before.digit, after.digit);
    here.word | here.hyphen & words | here.dot & digits
}

#[cfg(target_arch = "x86_64")]
fn classify(blocks: &[Block], kinds: &mut [Kinds]) {
    // SAFETY: every processor of this architecture has SSE2.
    unsafe { with_sse2(blocks, kinds) }
}

#[cfg(not(target_arch = "x86_64"))]
use scalar as classify;

/// The portable counterpart.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn scalar(blocks: &[Block], kinds: &mut [Kinds]) {
    for (block, kinds) in blocks.iter().zip(kinds) {
        let mask = |is: fn(u8) -> bool| mask_of(&block.map(is));
        *kinds = Kinds {
            word: mask(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80),
            digit: mask(|byte| byte.is_ascii_digit() || byte >= 0x80),
            hyphen: mask(|byte| byte == b'\'' || byte == b'-'),
            dot: mask(|byte| byte == b'.' || byte == b','),
        };
    }
}

/// A quarter of a block at a time. Only a build that optimises across files makes such code of the counterpart by
/// itself; in others an add to an index takes three times as long without this.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn with_sse2(blocks: &[Block], kinds: &mut [Kinds]) {
    const QUARTER: usize = BLOCK / 4;
    let splat = |byte: u8| _mm_set1_epi8(byte.cast_signed());
    let is = |bytes, byte| _mm_cmpeq_epi8(bytes, splat(byte));
    let or = |one, other| _mm_or_si128(one, other);
    // Comparisons are signed: bytes outside of ASCII are below all others.
    let within = |bytes, first: u8, last: u8| {
        let above = _mm_cmpgt_epi8(bytes, splat(first - 1));
        _mm_and_si128(above, _mm_cmpgt_epi8(splat(last + 1), bytes))
    };
    for (block, kinds) in blocks.iter().zip(kinds) {
        *kinds = Kinds::default();
        for (number, quarter) in block.as_chunks::<QUARTER>().0.iter().enumerate() {
            // SAFETY: a quarter of a block is the 16 bytes that are read.
            let bytes = unsafe { _mm_loadu_si128(quarter.as_ptr().cast()) };
            let mask =
                |flags| u64::from(_mm_movemask_epi8(flags).cast_unsigned()) << (number * QUARTER);
            let lower = or(bytes, splat(b'a' - b'A'));
            // The highest bit of each byte says whether it is ASCII.
            let digit = mask(or(within(bytes, b'0', b'9'), bytes));
            kinds.digit |= digit;
            kinds.word |= digit | mask(or(within(lower, b'a', b'z'), is(bytes, b'_')));
            kinds.hyphen |= mask(or(is(bytes, b'\''), is(bytes, b'-')));
            kinds.dot |= mask(or(is(bytes, b'.'), is(bytes, b',')));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The clusters of a text, byte by byte.
    fn by_the_byte(text: &str) -> Vec<Range<usize>> {
        let bytes = text.as_bytes();
        let at = |place: usize| bytes.get(place).copied().unwrap_or(b' ');
        let digit = |place: usize| at(place).is_ascii_digit() || !at(place).is_ascii();
        let word =
            |place: usize| digit(place) || at(place).is_ascii_alphabetic() || at(place) == b'_';
        let between =
            |is: &dyn Fn(usize) -> bool, place: usize| place > 0 && is(place - 1) && is(place + 1);
        let belongs = |place: usize| match at(place) {
            b'\'' | b'-' => between(&word, place),
            b'.' | b',' => between(&digit, place),
            _ => word(place),
        };
        let mut found: Vec<Range<usize>> = Vec::new();
        for place in (0..bytes.len()).filter(|&place| belongs(place)) {
            match found.last_mut() {
                Some(last) if last.end == place => last.end += 1,
                _ => found.push(place..place + 1),
            }
        }
        found
    }

    fn check(text: &str) {
        let (expected, mut clusters) = (by_the_byte(text), Clusters::default());
        let mut found = Vec::new();
        clusters.for_each(text, |range| found.push(range));
        assert_eq!(found, expected, "{text:?}");
        let blocks = text.as_bytes().as_chunks().0;
        let [mut kinds, mut twin] = [
            vec![Kinds::default(); blocks.len()],
            vec![Kinds::default(); blocks.len()],
        ];
        classify(blocks, &mut kinds);
        scalar(blocks, &mut twin);
        assert_eq!(kinds, twin, "{text:?}");
    }

    #[test]
    fn what_joins_is_of_a_cluster_between_what_it_joins_alone() {
        let of = |text: &str| -> Vec<String> {
            let mut found = Vec::new();
            Clusters::default().for_each(text, |range| {
                found.push(text[range].to_owned());
            });
            found
        };
        assert_eq!(
            of("don't 'quote' a--b a-b"),
            ["don't", "quote", "a", "b", "a-b"]
        );
        assert_eq!(
            of("1.5 v1.a 10,000, __x__"),
            ["1.5", "v1", "a", "10,000", "__x__"]
        );
        assert_eq!(of("été, 1.é ¿qué?"), ["été", "1.é", "¿qué"]);
        assert_eq!(of(""), [] as [&str; 0]);
    }

    #[test]
    fn every_byte_of_ascii_is_what_it_is_at_every_place() {
        for byte in 0..0x80_u8 {
            for places in [0..3, 60..70, 126..130, 2046..2051] {
                for place in places {
                    let mut text = vec![b'7'; 2060];
                    text[place] = byte;
                    check(str::from_utf8(&text).unwrap());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_clusters_are_those_that_byte_by_byte_finds(
            text in "[ aZ09_'.,é漢-]{0,400}",
            any in "\\PC{0,100}",
            gap in 0_usize..70,
        ) {
            check(&text);
            check(&format!("{any}{}{text}", " ".repeat(gap)));
            check(&format!("{}{any}", "x".repeat(2_000 + gap)));
        }
    }
}
