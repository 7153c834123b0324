//! What do the benches run on? Seeded corpora: the same texts on every machine and in every run.

/// A generator of numbers: `splitmix64`. Small, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// The sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `bound`, which is not 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A word of the vocabulary: one to four syllables, the same for the same number.
#[must_use]
pub fn word(number: u64) -> String {
    const SYLLABLES: [&str; 16] = [
        "ka", "lo", "mi", "ne", "su", "ta", "ri", "vo", "shel", "trans", "port", "ing", "er",
        "con", "pre", "dom",
    ];
    let mut word = String::new();
    let mut rest = number;
    loop {
        word.push_str(SYLLABLES[usize::try_from(rest % 16).unwrap_or(0)]);
        rest /= 16;
        if rest == 0 {
            return word;
        }
    }
}

/// `count` texts of about `bytes` bytes: words of a vocabulary of 20,000, the frequent ones frequent, with
/// capitals and punctuation as prose has them.
#[must_use]
pub fn texts(count: usize, bytes: usize, seed: u64) -> Vec<String> {
    let mut seeded = Seeded::new(seed);
    (0..count).map(|_| text(&mut seeded, bytes)).collect()
}

fn text(seeded: &mut Seeded, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 32);
    while text.len() < bytes {
        // The minimum of three draws: a word's frequency falls as its number grows.
        let number = (0..3).map(|_| seeded.below(20_000)).min().unwrap_or(0);
        let mut next = word(number);
        if seeded.below(12) == 0 {
            next[..1].make_ascii_uppercase();
        }
        text.push_str(&next);
        text.push_str(match seeded.below(12) {
            0 => ". ",
            1 => ", ",
            _ => " ",
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_texts() {
        assert_eq!(texts(3, 600, 7), texts(3, 600, 7));
        assert_ne!(texts(3, 600, 7), texts(3, 600, 8));
        assert!(
            texts(3, 600, 7)
                .iter()
                .all(|text| (600..640).contains(&text.len()))
        );
    }
}
