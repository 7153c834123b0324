//! Looks up the words of a text in a cache of short words, eight words at a time.

#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "instructions that not every processor has: a Level says that this one has them"
    )
)]

#[cfg(target_arch = "x86_64")]
#[allow(clippy::wildcard_imports, reason = "the names of instructions")]
use std::arch::x86_64::*;

use super::edges::Run;
use super::key_table::{FACTOR, KeyLine, KeyTable};
use super::level::{Level, Path};

/// The longest short word, in bytes.
pub const SHORT: usize = 8;
/// The flag of a silent word: the highest bit of its first byte, which is 0 in ASCII.
const SILENT: u64 = 0x80;
/// Words that are looked up together.
const AT_ONCE: usize = 8;
/// Words whose keys are made before their lines are read.
#[cfg(target_arch = "x86_64")]
const MANY: usize = 64;

/// A cache of short ASCII words. A word is telling (it is one term) or silent (it has no term). A line has two
/// words; a third word replaces the older one.
#[derive(Clone, Debug, Default)]
pub struct ShortWords(KeyTable<Pair>);

/// The bytes of two words as numbers, padded with zeros, the newer one first; 0 for an empty place.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
struct Pair([u64; 2]);

impl KeyLine for Pair {
    /// Whether it is a telling one.
    type Known = bool;

    // 512 bytes to 512 KB.
    const FEWEST: u32 = 5;
    const MOST: u32 = 15;

    fn keep(&mut self, key: u64, is_telling: bool) {
        let word = if is_telling { key } else { key | SILENT };
        self.0 = [word, self.0[0]];
    }

    fn oldest_first(&self) -> impl Iterator<Item = (u64, bool)> {
        let [newer, older] = self.0;
        let known = [older, newer].into_iter().filter(|&word| word != 0);
        known.map(|word| (word & !SILENT, word & SILENT == 0))
    }
}

impl ShortWords {
    /// Stores a word of 1 to [`SHORT`] bytes by its key. A word that is not ASCII is not stored.
    pub fn keep(&mut self, key: u64, is_telling: bool) {
        if !key.to_le_bytes().is_ascii() {
            return;
        }
        self.0.keep(key, is_telling);
    }

    /// Looks up the words of `text` at `runs`, which are counted from `first`. Returns how many are telling words, and
    /// the numbers of the runs whose word is not stored, ascending; `room` is a buffer for them.
    ///
    /// In a text of less than eight bytes every word is unknown.
    pub fn count<'a>(
        &self,
        level: Level,
        text: &[u8],
        first: usize,
        runs: &[Run],
        room: &'a mut Vec<u32>,
    ) -> (u64, &'a [u32]) {
        if room.len() < runs.len() + AT_ONCE {
            room.resize(runs.len() + AT_ONCE, 0);
        }
        let (telling, count) = match level.path() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a level of this path is made only where the processor has these instructions; `of` makes a
            // line for every place.
            Path::Avx512 => unsafe { with_avx512(&self.0, text, first, runs, room) },
            _ => one_by_one(&self.0, text, first, runs, room),
        };
        (telling, &room[..count])
    }
}

/// The portable counterpart. The processor cannot predict which words are known, so a number is always written, and
/// only counted if its word is unknown.
fn one_by_one(
    words: &KeyTable<Pair>,
    text: &[u8],
    first: usize,
    runs: &[Run],
    unknown: &mut [u32],
) -> (u64, usize) {
    let (mut telling, mut count) = (0, 0);
    for (number, &[start, end]) in (0..).zip(runs) {
        let (length, end) = ((end - start) as usize, first + end as usize);
        let from = end.max(SHORT) - SHORT;
        let read = text.get(from..).and_then(<[u8]>::first_chunk);
        let mut is_known = false;
        if let (Some(read), 1..=SHORT) = (read, length) {
            let behind_end = (SHORT - (end - from)) * 8;
            let key = u64::from_le_bytes(*read) << behind_end >> ((SHORT - length) * 8);
            let Pair([newer, older]) = *words.line(key);
            let is = |word: u64| word & !SILENT == key;
            let tells = |word: u64| u64::from(is(word)) & u64::from(word & SILENT == 0);
            is_known = is(newer) | is(older);
            telling += tells(newer) | tells(older);
        }
        unknown[count] = number;
        count += usize::from(!is_known);
    }
    (telling, count)
}

/// # Safety
///
/// `words` must have a line for every place.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,popcnt")]
unsafe fn with_avx512(
    words: &KeyTable<Pair>,
    text: &[u8],
    first: usize,
    runs: &[Run],
    unknown: &mut [u32],
) -> (u64, usize) {
    let splat = |number: u64| _mm512_set1_epi64(number.cast_signed());
    let behind = _mm_cvtsi32_si128(words.behind.cast_signed());
    let (factor, silent) = (splat(FACTOR), splat(SILENT));
    let no_word = splat(u64::MAX); // no line has it: its first byte is not of ASCII
    let (eight, first, last) = (
        splat(SHORT as u64),
        splat(first as u64),
        splat(text.len() as u64),
    );
    let is_read_at_all = if text.len() < SHORT { 0 } else { u8::MAX };
    let lines = words.lines.as_ptr().cast::<u64>();
    let mut numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let (mut telling, mut count) = (0, 0);
    // The keys of eight words, and the places of their lines.
    let mut sought = [(splat(0), splat(0)); MANY / AT_ONCE];
    for many in runs.chunks(MANY) {
        // A gather waits in the processor for its places, and few can wait. So all keys are made before the first
        // line is read: that halves the time.
        for (some, sought) in many.chunks(AT_ONCE).zip(&mut sought) {
            let there = u8::MAX >> (AT_ONCE - some.len());
            // SAFETY: the mask `there` has a bit for each run that exists, and only those are read.
            let edges = unsafe { _mm512_maskz_loadu_epi64(there, some.as_ptr().cast()) };
            let ends = _mm512_srli_epi64::<32>(edges);
            let lengths = _mm512_sub_epi64(ends, _mm512_and_si512(edges, splat(u32::MAX.into())));
            let ends = _mm512_add_epi64(ends, first);
            let is_short = _mm512_mask_cmple_epu64_mask(there, lengths, eight);
            let is_read = is_read_at_all & _mm512_mask_cmple_epu64_mask(is_short, ends, last);
            let here = _mm512_max_epu64(ends, eight);
            let starts = _mm512_sub_epi64(here, eight);
            // SAFETY: the text has at least eight bytes, and only lanes whose end lies in the text are read.
            let read = unsafe {
                let none = _mm512_setzero_si512();
                _mm512_mask_i64gather_epi64::<1>(none, is_read, starts, text.as_ptr().cast())
            };
            let behind_end = _mm512_slli_epi64::<3>(_mm512_sub_epi64(here, ends));
            let before = _mm512_slli_epi64::<3>(_mm512_sub_epi64(eight, lengths));
            let keys = _mm512_srlv_epi64(_mm512_sllv_epi64(read, behind_end), before);
            let places = _mm512_srl_epi64(_mm512_mullo_epi64(keys, factor), behind);
            let keys = _mm512_mask_mov_epi64(no_word, is_read, keys);
            *sought = (keys, _mm512_slli_epi64::<1>(places));
        }
        for (some, &(keys, at)) in many.chunks(AT_ONCE).zip(&sought) {
            let there = u8::MAX >> (AT_ONCE - some.len());
            // SAFETY: there is a line of two numbers for every place.
            let (newer, older) = unsafe {
                let newer = _mm512_i64gather_epi64::<8>(at, lines.cast());
                (newer, _mm512_i64gather_epi64::<8>(at, lines.add(1).cast()))
            };
            let is_newer = _mm512_cmpeq_epi64_mask(_mm512_andnot_si512(silent, newer), keys);
            let is_older = _mm512_cmpeq_epi64_mask(_mm512_andnot_si512(silent, older), keys);
            let tells = _mm512_mask_testn_epi64_mask(is_newer, newer, silent)
                | _mm512_mask_testn_epi64_mask(is_older, older, silent);
            telling += u64::from(tells.count_ones());
            let is_unknown = there & !(is_newer | is_older);
            let packed = _mm256_maskz_compress_epi32(is_unknown, numbers);
            let free = &mut unknown[count..][..AT_ONCE];
            // SAFETY: `free` has the eight places that are written.
            unsafe { _mm256_storeu_si256(free.as_mut_ptr().cast(), packed) };
            count += is_unknown.count_ones() as usize;
            numbers = _mm256_add_epi32(numbers, _mm256_set1_epi32(8));
        }
    }
    (telling, count)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn key(word: &str) -> u64 {
        let mut bytes = [0; SHORT];
        bytes[..word.len()].copy_from_slice(word.as_bytes());
        u64::from_le_bytes(bytes)
    }

    /// The runs of a text of words with spaces between them.
    fn runs(text: &str) -> Vec<Run> {
        let place = |word: &str| word.as_ptr().addr() - text.as_ptr().addr();
        let edge = |place: usize| u32::try_from(place).unwrap();
        let words = text.split(' ').filter(|word| !word.is_empty());
        words
            .map(|word| [edge(place(word)), edge(place(word) + word.len())])
            .collect()
    }

    fn check(known: &HashMap<String, bool>, text: &str) {
        let mut words = ShortWords::default();
        for (word, &is_telling) in known {
            words.keep(key(word), is_telling);
        }
        for gap in [0, 3, 64] {
            let whole = format!("{}{text}", " ".repeat(gap));
            let (runs, mut first) = (runs(text), None);
            for level in Level::all() {
                let mut room = Vec::new();
                let (telling, unknown) =
                    words.count(level, whole.as_bytes(), gap, &runs, &mut room);
                let found = (telling, unknown.to_vec());
                let word = |&number: &u32| {
                    let [start, end] = runs[number as usize];
                    &text[start as usize..end as usize]
                };
                for number in &found.1 {
                    let is_early = whole.len() < SHORT;
                    let is_of_them = known.contains_key(word(number)) && word(number).is_ascii();
                    assert!(!is_of_them || is_early || known.len() > 20, "{text:?}");
                }
                let is_unknown = |number: &u32| found.1.binary_search(number).is_ok();
                let all = 0..u32::try_from(runs.len()).unwrap();
                let expected = all.filter(|number| !is_unknown(number));
                let tells = expected.filter(|number| known[word(number)]).count();
                assert_eq!(found.0, tells as u64, "{level} {text:?}");
                assert_eq!(
                    first.get_or_insert_with(|| found.clone()),
                    &found,
                    "{level} {text:?}"
                );
            }
        }
    }

    #[test]
    fn all_of_many_words_are_told_apart() {
        let number = |at: usize| (format!("w{at}"), !at.is_multiple_of(3));
        let known: HashMap<String, bool> = (0..9_000).map(number).collect();
        let text: Vec<String> = (0..20_000)
            .map(|at| format!("w{}", at * 7 % 12_000))
            .collect();
        check(&known, &text.join(" "));
    }

    #[test]
    fn a_run_beyond_the_text_is_not_read() {
        for level in Level::all() {
            let (mut words, mut room) = (ShortWords::default(), vec![7; 99]);
            words.keep(key("silt"), true);
            let runs = [[4, 8], [5, 9], [90, 94]];
            let found = words.count(level, b"the silt", 0, &runs, &mut room);
            assert_eq!(found, (1, &[1, 2][..]), "{level}");
        }
    }

    proptest! {
        #[test]
        fn every_level_finds_the_words_that_are_known(
            known in prop::collection::hash_map("[a-c0é_-]{1,4}", any::<bool>(), 0..9),
            text in vec("[a-c0é_-]{1,5}|[a-c]{7,12}", 0..40),
        ) {
            check(&known, &text.join(" "));
        }
    }
}
