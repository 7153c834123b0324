//! Turns a word into its bucket, by a rule that is stored with the data.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::named;
use crate::tokenize::words::for_each_word;
use crate::vector::BUCKETS;

/// The way a text becomes buckets: how it is cut into words, and how a word is hashed.
///
/// Stable across versions: stored embeddings depend on it (`tests/vectors/buckets.json`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashRule {
    /// `xxh3`: the words of `words-1`, by [`word_hash`].
    #[default]
    Xxh3,
    /// `poly31`: the stretches between white space, by `h = 31 * h + lowercase(byte)`.
    Poly31,
}

impl HashRule {
    /// All rules.
    pub const ALL: [Self; 2] = [Self::Xxh3, Self::Poly31];

    /// Bucket of a word: its hash modulo 4,096.
    ///
    /// Two words may share a bucket; the embedding then holds the sum of both.
    #[inline]
    #[must_use]
    pub fn bucket(self, word: &str) -> u16 {
        match self {
            Self::Xxh3 => reduce(word_hash(word)),
            Self::Poly31 => reduce(poly31(word)),
        }
    }

    /// Calls `visit` with the bucket of each word of `text`, in order.
    pub(super) fn for_each_bucket(self, text: &str, mut visit: impl FnMut(u16)) {
        match self {
            Self::Xxh3 => for_each_word(text, |word| visit(self.bucket(word))),
            Self::Poly31 => text
                .split_whitespace()
                .for_each(|word| visit(self.bucket(word))),
        }
    }
}

impl fmt::Display for HashRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

named!(HashRule, "hash_rule": Xxh3 = "xxh3", Poly31 = "poly31");

/// The 64-bit hash of a word: XXH3 of its UTF-8, seed 0.
#[inline]
#[must_use]
pub fn word_hash(word: &str) -> u64 {
    xxh3_64(word.as_bytes())
}

/// `h = 31 * h + byte` over the UTF-8 of `word`, ASCII letters in lower case, from 0, modulo 2^64.
fn poly31(word: &str) -> u64 {
    word.bytes().fold(0, |hash: u64, byte| {
        hash.wrapping_mul(31)
            .wrapping_add(u64::from(byte.to_ascii_lowercase()))
    })
}

/// The bucket of a hash.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a bucket is below 2^16")]
fn reduce(hash: u64) -> u16 {
    (hash % BUCKETS as u64) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poly31_worked_by_hand() {
        // "Hi" is h = 104, i = 105 in lower case: 31 * 104 + 105 = 3329
        assert_eq!(HashRule::Poly31.bucket("Hi"), 3329);
    }

    #[test]
    fn an_unknown_rule_is_named_with_the_choices() {
        let error = "md5".parse::<HashRule>().unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
        assert_eq!(
            error.to_string(),
            "hash_rule must be 'xxh3' or 'poly31', got \"md5\""
        );
        for rule in HashRule::ALL {
            assert_eq!(rule.to_string().parse::<HashRule>().unwrap(), rule);
        }
    }
}
