//! Finds lines that an earlier result has, by the hashes of three consecutive lines.

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

/// A result that the reader has seen, with the handle that names it.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    /// Its name in references.
    pub handle: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// Consecutive lines that an earlier result has too.
pub(super) struct Found<'a> {
    pub(super) handle: &'a str,
    /// Its first line there, from 0.
    pub(super) line: usize,
    /// How many lines.
    pub(super) length: usize,
}

const WINDOW: usize = 3;
const FEWEST_LINES: usize = 4;
const FEWEST_BYTES: usize = 160;

/// The lines of earlier results.
pub(super) struct Seen<'a> {
    results: Vec<(&'a str, Vec<u64>)>,
    places: FxHashMap<u64, (u32, u32)>,
}

impl<'a> Seen<'a> {
    /// Indexes all of `earlier`. If several results have a stretch, the latest counts; within one result, the first
    /// place counts.
    pub(super) fn of(earlier: &[Earlier<'a>]) -> Self {
        let mut results = Vec::with_capacity(earlier.len());
        let mut places: FxHashMap<u64, (u32, u32)> = FxHashMap::default();
        for (number, each) in (0_u32..).zip(earlier) {
            let keys: Vec<u64> = each.text.split('\n').map(key).collect();
            for (line, window) in (0_u32..).zip(keys.windows(WINDOW)) {
                let place = places.entry(combined(window)).or_insert((number, line));
                if place.0 != number {
                    *place = (number, line);
                }
            }
            results.push((each.handle, keys));
        }
        Self { results, places }
    }

    /// The lines from `at` on that an earlier result has in the same order; `None` if they are too few for a
    /// reference.
    pub(super) fn longest(&self, keys: &[u64], lines: &[&str], at: usize) -> Option<Found<'a>> {
        let window = keys.get(at..at + WINDOW)?;
        let &(result, line) = self.places.get(&combined(window))?;
        let (handle, known) = self.results.get(result as usize)?;
        let line = line as usize;
        let both = keys.get(at..)?.iter().zip(known.get(line..)?);
        let length = both.take_while(|(one, other)| one == other).count();
        let bytes: usize = lines
            .iter()
            .skip(at)
            .take(length)
            .map(|line| line.len() + 1)
            .sum();
        (length >= FEWEST_LINES && bytes >= FEWEST_BYTES).then_some(Found {
            handle,
            line,
            length,
        })
    }
}

/// The keys of all `lines`.
pub(super) fn keys(lines: &[&str]) -> Vec<u64> {
    lines.iter().map(|line| key(line)).collect()
}

/// The hash of a line, without the line number that a tool has added and without white space at its end.
fn key(line: &str) -> u64 {
    let line = line.trim_end();
    let rest = line
        .trim_start_matches(' ')
        .trim_start_matches(|c: char| c.is_ascii_digit());
    let said = rest.strip_prefix('→').or_else(|| rest.strip_prefix('\t'));
    xxh3_64(said.unwrap_or(line).as_bytes())
}

fn combined(window: &[u64]) -> u64 {
    window.iter().fold(0, |sum, key| {
        (sum.rotate_left(21) ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    })
}
