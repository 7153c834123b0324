//! Counts the terms of texts, and finds the wanted terms among them, for callers that need nothing else.
//!
//! The rules read each different word once. Then a table finds its terms by the bytes of the word, as it was
//! written: most words of a text are neither lower-cased nor hashed.

use std::ops::{Deref, Range};

use hashbrown::HashMap;

use super::analyser::{Analyser, with_kept};
use super::key::{exact_key, long_key};
use crate::simd::Level;
use crate::simd::clusters::Clusters;
use crate::simd::edges::Runs;
use crate::simd::key_table::{KeyLine, KeyTable};
use crate::simd::words::ShortWords;

/// The most longer words that are remembered.
const MOST_LONGER: usize = 1 << 15;

/// Calls `visit` for each of `texts`, read as English, in order: with its count of terms, and with the numbers of
/// its `wanted` terms in any order, a number for each occurrence.
///
/// Stop words are not terms, unless the text has no other words.
pub fn sift<T>(texts: &[T], wanted: &HashMap<u64, u32>, mut visit: impl FnMut(u64, &mut [u32]))
where
    T: Deref<Target = str>,
{
    with_kept(|analyser| {
        let mut sieve = Sieve::of(analyser, wanted);
        let level = Level::current();
        for text in texts {
            let count = sieve.read(level, text);
            visit(count, &mut sieve.met);
        }
    });
}

/// Reads texts, and remembers the words of all texts so far.
struct Sieve<'a> {
    rules: Rules<'a>,
    clusters: Clusters,
    known: Known,
    /// Buffers for the current text, kept for their capacity: the numbers of its words that `known.plain` does not
    /// have, and the wanted terms that were found.
    unknown: Vec<u32>,
    met: Vec<u32>,
}

/// Finds the terms of an unknown word by the rules.
struct Rules<'a> {
    analyser: &'a mut Analyser,
    wanted: &'a HashMap<u64, u32>,
    /// A buffer, kept for its capacity.
    terms: Vec<u64>,
}

/// The words that were read before, with their terms.
#[derive(Default)]
struct Known {
    /// Words without a wanted term that have one term or none.
    plain: ShortWords,
    /// Words of at most eight bytes.
    short: Short,
    /// Words of nine to 24 bytes.
    longer: HashMap<[u64; 3], Adds>,
    /// The wanted terms of words that have several, or one with a large number.
    several: Vec<Box<[u32]>>,
}

/// The terms of a word in 21 bits: their count in the low bits, and the wanted terms above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Adds(u32);

/// The wanted terms of a word: the number of a single one, or the place of several in [`Known::several`].
enum Hit {
    One(u32),
    Several(usize),
}

impl Adds {
    /// The number of bits of the whole, and of the count.
    const BITS: usize = 21;
    const COUNT: usize = 5;
    const MOST: usize = (1 << Self::COUNT) - 1;
    /// From this value on, a hit is a place in [`Known::several`].
    const HALF: u32 = 1 << (Self::BITS - Self::COUNT - 1);
    /// The most places in [`Known::several`].
    const SEVERAL: u32 = if cfg!(test) { 50 } else { Self::HALF - 1 };

    #[inline]
    fn count(self) -> u64 {
        u64::from(self.0) & Self::MOST as u64
    }

    /// For a word without wanted terms that has at most one term: whether it has one. None for all other words.
    fn is_plain(self) -> Option<bool> {
        (self.0 <= 1).then_some(self.0 == 1)
    }

    #[inline]
    fn hit(self) -> Option<Hit> {
        let hit = (self.0 >> Self::COUNT).checked_sub(1)?;
        Some(match hit.checked_sub(Self::HALF) {
            None => Hit::One(hit),
            Some(at) => Hit::Several(at as usize),
        })
    }
}

impl<'a> Sieve<'a> {
    fn of(analyser: &'a mut Analyser, wanted: &'a HashMap<u64, u32>) -> Self {
        Self {
            rules: Rules {
                analyser,
                wanted,
                terms: Vec::new(),
            },
            clusters: Clusters::default(),
            known: Known::default(),
            unknown: Vec::new(),
            met: Vec::new(),
        }
    }

    /// Reads a text: fills `met` with its wanted terms, and returns its count of terms.
    fn read(&mut self, level: Level, text: &str) -> u64 {
        let Self {
            rules,
            clusters,
            known,
            unknown,
            met,
        } = self;
        met.clear();
        let mut count = 0;
        clusters.for_each_runs(text, |runs| match runs {
            Runs::Reaching(range) => count += rules.learn(known, text, range, met),
            Runs::Behind(first, runs) => {
                let bytes = text.as_bytes();
                let (telling, unknown) = known.plain.count(level, bytes, first, runs, unknown);
                count += telling;
                for &number in unknown {
                    let [start, end] = runs[number as usize];
                    let range = first + start as usize..first + end as usize;
                    let key = exact_key(bytes, range.start, range.end);
                    let Some(adds) = key.and_then(|key| known.short.line(key).find(key)) else {
                        count += rules.learn(known, text, range, met);
                        continue;
                    };
                    count += adds.count();
                    known.meet(adds, met);
                }
            }
        });
        if count == 0 {
            count = rules.read_silent(text, met);
        }
        count
    }
}

impl Rules<'_> {
    /// Reads a word that is not in the table of short words, and remembers it: adds its wanted terms to `met`, and
    /// returns its count of terms.
    #[cold]
    #[inline(never)]
    fn learn(
        &mut self,
        known: &mut Known,
        text: &str,
        range: Range<usize>,
        met: &mut Vec<u32>,
    ) -> u64 {
        let key = exact_key(text.as_bytes(), range.start, range.end);
        let longer = || long_key(text.as_bytes(), range.start, range.end);
        let longer = if key.is_none() { longer() } else { None };
        if let Some(&adds) = longer.and_then(|longer| known.longer.get(&longer)) {
            known.meet(adds, met);
            return adds.count();
        }
        self.terms.clear();
        self.analyser.read_cluster(text, range, &mut self.terms);
        let before = met.len();
        self.meet(met);
        let adds = known.adds(self.terms.len(), &met[before..]);
        match (key, longer, adds) {
            (Some(key), _, Some(adds)) => {
                known.short.keep(key, adds);
                if let Some(is_telling) = adds.is_plain() {
                    known.plain.keep(key, is_telling);
                }
            }
            (_, Some(longer), Some(adds)) if known.longer.len() < MOST_LONGER => {
                known.longer.insert(longer, adds);
            }
            _ => {}
        }
        self.terms.len() as u64
    }

    /// Reads a text that has only stop words: they are its terms. Returns their count.
    #[cold]
    fn read_silent(&mut self, text: &str, met: &mut Vec<u32>) -> u64 {
        self.terms.clear();
        self.analyser.read_all(text, &mut self.terms);
        met.clear();
        self.meet(met);
        self.terms.len() as u64
    }

    fn meet(&self, met: &mut Vec<u32>) {
        let wanted = |term| self.wanted.get(term).copied();
        met.extend(self.terms.iter().filter_map(wanted));
    }
}

impl Known {
    /// Adds the wanted terms of a word to `met`.
    #[inline]
    fn meet(&self, adds: Adds, met: &mut Vec<u32>) {
        match adds.hit() {
            None => {}
            Some(Hit::One(number)) => met.push(number),
            Some(Hit::Several(at)) => met.extend_from_slice(&self.several[at]),
        }
    }

    /// The terms of a word in the form that is remembered; `None` if they do not fit that form.
    fn adds(&mut self, count: usize, hits: &[u32]) -> Option<Adds> {
        let count = u32::try_from(count).ok()?;
        if count as usize > Adds::MOST {
            return None;
        }
        let hit = match hits {
            [] => return Some(Adds(count)),
            &[one] if one < Adds::HALF => one,
            several => {
                let at = u32::try_from(self.several.len()).ok()?;
                if at >= Adds::SEVERAL {
                    return None;
                }
                self.several.push(several.into());
                Adds::HALF + at
            }
        };
        Some(Adds((hit + 1) << Adds::COUNT | count))
    }
}

/// A cache of the terms of short words. A line has three words; a fourth word replaces the oldest of its line.
type Short = KeyTable<Line>;

/// Three words and their terms, in half a line of the processor's cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Line {
    keys: [u64; Line::WORDS],
    adds: u64,
}

impl Line {
    const WORDS: usize = 3;

    /// The terms of a word. The processor cannot predict its place in the line, so all three are compared without a
    /// branch.
    #[inline]
    fn find(&self, key: u64) -> Option<Adds> {
        let [first, second, third] = self.keys;
        let place = usize::from(second == key) + 2 * usize::from(third == key);
        let is_known = first == key || second == key || third == key;
        is_known.then_some(self.adds_of(place))
    }

    #[inline]
    fn adds_of(&self, place: usize) -> Adds {
        let adds = self.adds >> (place * Adds::BITS) & ((1 << Adds::BITS) - 1);
        Adds(u32::try_from(adds).unwrap_or_default())
    }
}

impl KeyLine for Line {
    type Known = Adds;

    // 2 KB to 512 KB.
    const FEWEST: u32 = 6;
    const MOST: u32 = 14;

    fn keep(&mut self, key: u64, adds: Adds) {
        self.keys = [key, self.keys[0], self.keys[1]];
        self.adds = self.adds << Adds::BITS | u64::from(adds.0);
    }

    fn oldest_first(&self) -> impl Iterator<Item = (u64, Adds)> {
        let known = (0..Self::WORDS)
            .rev()
            .filter(|&place| self.keys[place] != 0);
        known.map(|place| (self.keys[place], self.adds_of(place)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analyse::terms;

    /// The terms of each text, and the wanted ones among them.
    fn plainly(texts: &[String], wanted: &HashMap<u64, u32>) -> Vec<(u64, Vec<u32>)> {
        let one = |text: &String| {
            let terms = terms(text);
            let met = terms.iter().filter_map(|term| wanted.get(term).copied());
            let mut met: Vec<u32> = met.collect();
            met.sort_unstable();
            (terms.len() as u64, met)
        };
        texts.iter().map(one).collect()
    }

    fn check(texts: &[String], asked: &str) {
        let mut asked = terms(asked);
        asked.sort_unstable();
        asked.dedup();
        let wanted: HashMap<u64, u32> = asked.into_iter().zip(0..).collect();
        let expected = plainly(texts, &wanted);
        for level in Level::all() {
            let mut found = Vec::new();
            level.run(|| {
                sift(texts, &wanted, |count, met| {
                    met.sort_unstable();
                    found.push((count, met.to_vec()));
                });
            });
            assert_eq!(found, expected, "{level} {texts:?}");
        }
    }

    #[test]
    fn many_words_are_told_apart_whoever_left_for_whom() {
        let of =
            |word: usize| format!("w{word} silt{word} Deploying{word} in_w{word} the 1.{word}");
        let texts: Vec<String> = (0..6_000).map(|at| of(at * 7 % 4_000)).collect();
        check(&texts, "w7 silt21 deploying21 inw9 the 1.49 w3999 silt3998");
    }

    #[test]
    fn a_word_of_very_many_terms_is_read_each_time() {
        let long = "a-b_c".repeat(30);
        let texts = ["silt", &long, &long, "the", &long].map(str::to_owned);
        check(&texts, "silt b ca");
    }

    #[test]
    fn more_words_with_wanted_terms_than_are_remembered_are_all_found() {
        let texts: Vec<String> = (0..2 * Adds::SEVERAL)
            .map(|at| format!("silt-{at:x}-silt"))
            .collect();
        check(&texts, "silt");
    }

    #[test]
    fn a_line_has_three_words_and_the_fourth_takes_the_place_of_the_oldest() {
        let (mut line, adds) = (Line::default(), |number: u32| Adds(number << 3 | 0x1F_0000));
        for number in 1..=9_u64 {
            line.keep(number, adds(u32::try_from(number).unwrap()));
            let known: Vec<u64> = (1..=9).filter(|&each| line.find(each).is_some()).collect();
            let expected: Vec<u64> = (number.saturating_sub(2).max(1)..=number).collect();
            assert_eq!(known, expected);
            for each in known {
                let expected = adds(u32::try_from(each).unwrap());
                assert_eq!(line.find(each), Some(expected));
            }
            let oldest_first: Vec<u64> = line.oldest_first().map(|(key, _)| key).collect();
            assert_eq!(oldest_first, expected);
        }
    }

    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "[ -~\\t\\n\\x00\\x1c\\x7f]{0,40}",
            6 => "(what|the|it|Silt|SILT|walking|walked|parseHTTP|v1|2|10|of|in_progress|Ann's){1,3}[-_'’.,/ ]{0,2}",
            3 => "[aAbBsSvV0195'’ʼ_.,é\u{301}\u{3099}かが漢字한ﬁＡ\u{FF0E}\u{A0}\u{3000} -]{0,20}",
            2 => "\\PC{0,12}",
        ]
    }

    proptest! {
        #[test]
        fn counts_are_those_of_the_terms_of_each_text(
            pieces in prop::collection::vec(prop::collection::vec(piece(), 0..8), 0..12),
            asked in piece(),
        ) {
            let texts: Vec<String> = pieces.iter().map(|pieces| pieces.join(" ")).collect();
            let said = pieces.concat().concat();
            check(&texts, &asked);
            check(&texts, &said);
        }
    }
}
