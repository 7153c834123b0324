//! Corpora for the benches: made from a seed, so the same on every machine.

/// Syllables that words are put together from.
const SYLLABLES: [&str; 32] = [
    "al", "an", "ar", "be", "co", "de", "di", "el", "en", "er", "fa", "in", "ka", "la", "le", "lo",
    "ma", "me", "mo", "ne", "on", "or", "pa", "re", "ri", "sa", "se", "si", "ta", "te", "ti", "ve",
];

/// A small generator of numbers: a multiplication, and the high bits of its result.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// The numbers of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, below `bound`.
    ///
    /// # Panics
    ///
    /// Where `bound` is 0: nothing is below it.
    pub fn below(&mut self, bound: usize) -> usize {
        // Knuth's MMIX generator; its high bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits fit") % bound
    }
}

/// `count` texts of about `bytes` bytes of ASCII: a few words often, most of them seldom.
#[must_use]
pub fn texts(seed: u64, count: usize, bytes: usize) -> Vec<String> {
    let mut numbers = Numbers::new(seed);
    let words: Vec<String> = (0..20_000).map(|_| word(&mut numbers)).collect();
    (0..count)
        .map(|_| {
            let mut text = String::with_capacity(bytes + 16);
            while text.len() < bytes {
                // The smaller of two draws, squared: the head of the list is drawn most.
                let rank = numbers.below(words.len()).min(numbers.below(words.len()));
                text.push_str(&words[rank * rank / words.len()]);
                text.push_str([" ", " ", " ", ", ", ". ", "\n", "_", "()"][numbers.below(8)]);
            }
            text
        })
        .collect()
}

/// The same texts with a dash in each, which is not ASCII.
#[must_use]
pub fn texts_with_a_dash(seed: u64, count: usize, bytes: usize) -> Vec<String> {
    let mut texts = texts(seed, count, bytes);
    for text in &mut texts {
        let middle = text.len() / 2;
        text.replace_range(middle..=middle, "—");
    }
    texts
}

fn word(numbers: &mut Numbers) -> String {
    let syllables = 2 + numbers.below(4).min(numbers.below(4));
    (0..syllables)
        .map(|_| SYLLABLES[numbers.below(SYLLABLES.len())])
        .collect()
}
