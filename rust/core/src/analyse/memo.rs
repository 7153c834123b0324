//! The terms of the words that came last: texts use few words, and use them often.

use super::normal::Normalizer;
use super::terms::hash;

/// Words that are remembered; 128 KB of them for a thread that analyses texts.
const WORDS: usize = 1 << 13;

/// For each of some words its term, both by their hashes. A word takes the place of another.
pub(super) struct Memo {
    normalizer: Normalizer,
    places: Vec<(u64, u64)>,
}

impl Default for Memo {
    fn default() -> Self {
        Self {
            normalizer: Normalizer::default(),
            // No word yet: each place has a hash that belongs to the next one.
            places: (1..=WORDS as u64).map(|other| (other, 0)).collect(),
        }
    }
}

impl Memo {
    /// The hash of a word's normal form.
    ///
    /// Two words of one hash have one term, as two terms of one hash are one.
    pub(super) fn term(&mut self, word: &str) -> u64 {
        let known = hash(word);
        let place = &mut self.places[place(known)];
        if place.0 != known {
            *place = (known, hash(&self.normalizer.normal(word)));
        }
        place.1
    }
}

fn place(hash: u64) -> usize {
    usize::try_from(hash % WORDS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_its_term_whatever_came_before() {
        let mut memo = Memo::default();
        let normalizer = Normalizer::default();
        for round in 0..3_u32 {
            for number in 0..20_000_u32 {
                let word = format!("walking{}ed", number * 7 % (9_000 + round));
                let word = if number % 3 == 0 { "paintings" } else { &word };
                assert_eq!(memo.term(word), hash(&normalizer.normal(word)), "{word}");
            }
        }
    }

    #[test]
    fn no_place_has_a_word_to_begin_with() {
        let memo = Memo::default();
        let places = memo.places.iter().enumerate();
        assert!(places.into_iter().all(|(at, &(hash, _))| place(hash) != at));
    }
}
