//! A cache of the terms of recent words: texts use few words, and use them often.
//!
//! Each thread that analyses texts has two tables of fixed size. A word that is not in them is read by the rules
//! and replaces another word, so no text can make the tables grow, and words chosen to collide only cost what they
//! would cost without a cache. Keys are the bytes of the words themselves, so a hit is always right.

/// Lines for stretches of one term, with two places each: 512 KB.
const WORDS: usize = 1 << 13;
/// Lines for all other stretches, with one place each: 256 KB.
const COMPOUNDS: usize = 1 << 12;
/// The most terms of a stretch that is remembered.
pub(super) const TERMS: usize = 4;

/// Numbers in a cache line of the processor.
const LINE: usize = 8;

/// The terms of some words, by their bytes.
#[derive(Default)]
pub(super) struct Memo {
    words: Table<WORDS>,
    compounds: Table<COMPOUNDS>,
}

/// The term of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The hash of its normal form.
    pub(super) term: u64,
    pub(super) flags: Flags,
}

/// The properties of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(pub(super) u8);

impl Flags {
    /// It is a content word.
    pub(super) const SAYS: u8 = 1;
    /// It is a character inside of a run of CJK.
    pub(super) const INSIDE: u8 = 2;
    /// It is a stop word of English.
    pub(super) const ENGLISH: u8 = 4;
    /// It is evidence for another language than English.
    pub(super) const FOREIGN: u8 = 8;
    /// The number of flags.
    const BITS: usize = 4;
}

impl Memo {
    /// The term of a short stretch that has exactly one.
    pub(super) fn word(&self, key: [u64; 2]) -> Option<Told> {
        let (told, is_known) = find(self.words.lines(), key);
        is_known.then_some(told)
    }

    /// Looks up at most 64 short stretches. Fills `told` with their terms, and returns a bit for each stretch that
    /// was found.
    ///
    /// The contents of each line are copied whether they match or not, so the processor need not wait for one line
    /// before it reads the next.
    #[inline]
    pub(super) fn words(&self, keys: impl Iterator<Item = [u64; 2]>, told: &mut [Told]) -> u64 {
        let lines = self.words.lines();
        let mut known = 0;
        for ((key, told), bit) in keys.zip(told).zip(0..u64::BITS) {
            let (found, is_known) = find(lines, key);
            *told = found;
            known |= u64::from(is_known) << bit;
        }
        known
    }

    /// Stores the term of a stretch; it replaces the older one of its line.
    pub(super) fn keep_word(&mut self, key: [u64; 2], told: Told) {
        let place = Table::<WORDS>::place([key[0], key[1], 0]);
        let line = &mut self.words.lines_mut()[place];
        line.copy_within(..LINE / 2, LINE / 2);
        line[..LINE / 2].copy_from_slice(&[key[0], key[1], told.term, told.flags.0.into()]);
    }

    /// The terms of any other stretch of up to 24 bytes, in order.
    pub(super) fn compound(&self, key: [u64; 3]) -> Option<impl Iterator<Item = Told> + use<'_>> {
        let line = &self.compounds.lines()[Table::<COMPOUNDS>::place(key)];
        let [first, second, third, told, terms @ ..] = line;
        let differs = first ^ key[0] | second ^ key[1] | third ^ key[2];
        (differs == 0).then(|| {
            let count = usize::from(told.to_le_bytes()[0]);
            let terms = terms.iter().zip(0..).take(count);
            terms.map(move |(&term, number)| {
                let flags = told >> (8 + Flags::BITS * number);
                let [flags, ..] = flags.to_le_bytes();
                Told {
                    term,
                    flags: Flags(flags & ((1 << Flags::BITS) - 1)),
                }
            })
        })
    }

    /// Stores the terms of a stretch, unless there are more than `TERMS`.
    pub(super) fn keep_compound(&mut self, key: [u64; 3], told: &[Told]) {
        if told.len() > TERMS {
            return;
        }
        let place = Table::<COMPOUNDS>::place(key);
        let line = &mut self.compounds.lines_mut()[place];
        line[..3].copy_from_slice(&key);
        line[3] = told.len() as u64;
        for (number, told) in told.iter().enumerate() {
            line[3] |= u64::from(told.flags.0) << (8 + Flags::BITS * number);
            line[4 + number] = told.term;
        }
    }
}

/// The entry in the line of a key, and whether it is really that of the key.
#[inline]
fn find(lines: &[[u64; LINE]], key: [u64; 2]) -> (Told, bool) {
    let line = &lines[Table::<WORDS>::place([key[0], key[1], 0])];
    let differs = |at: usize| line[at] ^ key[0] | line[at + 1] ^ key[1];
    let is_other = differs(LINE / 2) == 0;
    let at = usize::from(is_other) * (LINE / 2);
    let told = Told {
        term: line[at + 2],
        flags: Flags(line[at + 3].to_le_bytes()[0]),
    };
    (told, is_other | (differs(0) == 0))
}

/// Lines of numbers. All numbers are 0 at first, which is no key; unused pages take no memory.
struct Table<const LINES: usize> {
    numbers: Vec<u64>,
    /// The offset of the first number that is aligned to a cache line.
    start: usize,
}

impl<const LINES: usize> Default for Table<LINES> {
    fn default() -> Self {
        let numbers = vec![0_u64; (LINES + 1) * LINE];
        let start = numbers.as_ptr().align_offset(size_of::<[u64; LINE]>());
        Self {
            start: start.min(LINE),
            numbers,
        }
    }
}

impl<const LINES: usize> Table<LINES> {
    #[inline]
    fn lines(&self) -> &[[u64; LINE]] {
        self.numbers[self.start..].as_chunks().0
    }

    fn lines_mut(&mut self) -> &mut [[u64; LINE]] {
        self.numbers[self.start..].as_chunks_mut().0
    }

    /// The line of a key: the high bits of a sum of products that depends on every byte of the key.
    #[inline]
    fn place(key: [u64; 3]) -> usize {
        let sum = key[0]
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(key[1].wrapping_mul(0xC2B2_AE3D_27D4_EB4F))
            .wrapping_add(key[2].wrapping_mul(0x1656_67B1_9E37_79F9));
        usize::try_from(sum >> (u64::BITS - LINES.ilog2())).unwrap_or(0)
    }
}

// Short stretches of text as numbers, so that they can be compared and looked up without a loop over bytes.

/// The longest stretch with a key of two numbers, in bytes.
pub(super) const SHORT: usize = 16;

/// The longest stretch with a key of three numbers, in bytes.
pub(super) const LONG: usize = 24;

/// The longest stretch with a key of one number, in bytes.
const EIGHT: usize = 8;

/// The bytes `start..end` as three numbers of eight bytes each, padded with zeros; None for more than 24 bytes.
///
/// Two different stretches without a NUL never have the same key.
pub(super) fn long_key(bytes: &[u8], start: usize, end: usize) -> Option<[u64; 3]> {
    let stretch = &bytes[start..end];
    (stretch.len() <= LONG).then(|| {
        let mut padded = [0; LONG];
        padded[..stretch.len()].copy_from_slice(stretch);
        let eights = padded.as_chunks::<EIGHT>().0;
        [0, 1, 2].map(|number| u64::from_le_bytes(eights[number]))
    })
}

/// The bytes `start..end` as two numbers, for up to 16 bytes. A plain word has the key of its lower case.
///
/// A plain word has only letters and digits, all in lower case except that the first may be a capital: analysis
/// neither cuts it nor drops anything. All longer stretches share one key that no short stretch has. The stretch
/// may only have letters, digits, `_ - ' . ,` and characters outside of ASCII.
#[inline]
pub(super) fn short_key(bytes: &[u8], start: usize, end: usize) -> [u64; 2] {
    let length = (end - start).min(SHORT + 1);
    let [first, second] = numbers(first_bytes(&bytes[start..]));
    let (first, second) = (first & KEEP[length][0], second & KEEP[length][1]);
    let lower = first | (first & FIRST) >> 1;
    let first = if is_plain(first, second) {
        lower
    } else {
        first
    };
    // This key has a byte behind a NUL, which no stretch contains.
    [first, second | u64::from(length > SHORT)]
}

/// Whether a stretch with these bytes is a plain word.
#[inline]
fn is_plain(first: u64, second: u64) -> bool {
    let is_underscore = u64::from(first & 0xFF == u64::from(b'_'));
    odd(first, FIRST) | odd(second, 0) | is_underscore == 0
}

/// Whether a stretch is a plain word, and at most 16 bytes.
pub(super) fn is_plain_word(stretch: &str) -> bool {
    let (first, rest) = stretch.as_bytes().split_at(stretch.len().min(1));
    let is_lower = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_any = |byte: &u8| byte.is_ascii_alphanumeric();
    stretch.len() <= SHORT && first.iter().all(is_any) && rest.iter().all(is_lower)
}

/// The bit of each byte that is set in `@A-Z[\]^_` and in lower case.
const LETTER: u64 = 0x4040_4040_4040_4040;

/// The bit of the first byte, where a capital may stand.
const FIRST: u64 = 0x40;

/// Returns 0 if all bytes are lower case letters, digits or NUL; bytes that `allowed` marks may be capitals.
///
/// Letters have bit 6 (0x40), digits bits 5 and 4 (0x30), lower case bit 5 (0x20). `'`, `-`, `.` and `,` have only
/// bit 5, `_` has bit 6 but not bit 5, as capitals do; bytes outside of ASCII have bit 7. The shifts bring all of
/// these bits to bit 6, and the mask removes bits that come from the neighbouring byte.
#[inline]
fn odd(bytes: u64, allowed: u64) -> u64 {
    let is_word = bytes | bytes << 2;
    let is_lower = bytes << 1 | allowed;
    let is_wide = bytes >> 1;
    let is_there = bytes | bytes << 1 | bytes << 2 | bytes >> 1;
    (!(is_word & is_lower) & is_there | is_wide) & LETTER
}

#[inline]
fn numbers(bytes: [u8; SHORT]) -> [u64; 2] {
    let both = u128::from_le_bytes(bytes);
    #[expect(clippy::cast_possible_truncation, reason = "either half is meant")]
    [both as u64, (both >> u64::BITS) as u64]
}

/// The first bytes of `rest`, with zeros behind its end.
#[inline]
fn first_bytes<const COUNT: usize>(rest: &[u8]) -> [u8; COUNT] {
    match rest.first_chunk() {
        Some(read) => *read,
        None => at_the_end(rest),
    }
}

/// The last bytes of a text, with zeros behind them.
#[cold]
fn at_the_end<const COUNT: usize>(rest: &[u8]) -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

/// For each length, the mask of the bytes that are kept; 0 for stretches that are too long.
static KEEP: [[u64; 2]; SHORT + 2] = {
    let mut keep = [[0_u64; 2]; SHORT + 2];
    let mut length = 1;
    while length <= SHORT {
        keep[length] = keep[length - 1];
        let byte = length - 1;
        keep[length][byte / EIGHT] |= 0xFF << (byte % EIGHT * 8);
        length += 1;
    }
    keep
};

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> [u64; 3] {
        let text = format!("silt{number}");
        long_key(text.as_bytes(), 0, text.len()).unwrap()
    }

    fn plain(number: u64) -> [u64; 2] {
        let text = format!("silt{number}");
        short_key(text.as_bytes(), 0, text.len())
    }

    fn told(number: u64) -> Told {
        Told {
            term: number,
            flags: Flags(u8::try_from(number % 16).unwrap()),
        }
    }

    #[test]
    fn a_word_has_its_own_term_or_none_whatever_came_after() {
        let mut memo = Memo::default();
        let count = 5 * WORDS as u64;
        for number in 0..count {
            assert_eq!(memo.word(plain(number)), None);
            memo.keep_word(plain(number), told(number));
            assert_eq!(memo.word(plain(number)), Some(told(number)));
        }
        let mut at_once = [Told::default(); 64];
        let bits = memo.words((count - 64..count).map(plain), &mut at_once);
        for (bit, number) in (count - 64..count).enumerate() {
            let one_by_one = memo.word(plain(number));
            assert_eq!(one_by_one, (bits >> bit & 1 == 1).then_some(at_once[bit]));
        }
        let known = |number: &u64| {
            let found = memo.word(plain(*number));
            assert!(found.is_none_or(|found| found == told(*number)));
            found.is_some()
        };
        let known = (0..count).filter(known).count();
        assert!((WORDS..=2 * WORDS).contains(&known), "{known}");
    }

    #[test]
    fn a_compound_has_its_own_terms_or_none_whatever_came_after() {
        let mut memo = Memo::default();
        let count = 5 * COMPOUNDS as u64;
        let terms =
            |number: u64| -> Vec<Told> { (number..=number + number % 6).map(told).collect() };
        for number in 0..count {
            assert!(memo.compound(key(number)).is_none());
            memo.keep_compound(key(number), &terms(number));
            let found: Option<Vec<Told>> = memo.compound(key(number)).map(Iterator::collect);
            let expected = Some(terms(number)).filter(|terms| terms.len() <= TERMS);
            assert_eq!(found, expected);
        }
        for number in 0..count {
            if let Some(found) = memo.compound(key(number)) {
                assert_eq!(found.collect::<Vec<_>>(), terms(number));
            }
        }
    }

    fn whole(text: &[u8]) -> [u64; 3] {
        long_key(text, 0, text.len()).unwrap()
    }

    #[test]
    fn a_key_is_its_bytes_whatever_is_around_them() {
        let text = b"siltandstoneandriveranddelta";
        for length in 1..=LONG {
            for start in 0..=text.len() - length {
                let end = start + length;
                let stretch = &text[start..end];
                assert_eq!(long_key(text, start, end), Some(whole(stretch)));
                assert_eq!(short_key(text, start, end), short_key(stretch, 0, length));
            }
        }
        assert_eq!(whole(b"abcdefgh"), [u64::from_le_bytes(*b"abcdefgh"), 0, 0]);
        assert_ne!(whole(b"silt"), whole(b"silts"));
        assert_eq!(long_key(text, 0, LONG + 1), None);
    }

    /// The rule, byte by byte.
    fn by_the_byte(text: &[u8]) -> [u64; 2] {
        if text.len() > SHORT {
            return [0, 1];
        }
        let is_plain = str::from_utf8(text).is_ok_and(is_plain_word);
        let lower = text.to_ascii_lowercase();
        let [first, second, _] = whole(if is_plain { &lower } else { text });
        [first, second]
    }

    #[test]
    fn a_plain_word_has_lower_case_letters_and_digits_behind_its_first() {
        let of_cluster = (0..=255_u8).filter(|&byte| {
            !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"_-'.,".contains(&byte)
        });
        for byte in of_cluster {
            for length in 1..=LONG {
                for place in 0..length {
                    let mut text = vec![b'x'; length];
                    text[place] = byte;
                    let found = short_key(&text, 0, length);
                    assert_eq!(found, by_the_byte(&text), "{byte:#x} {place} {length}");
                }
            }
        }
    }
}
