//! From a text to its terms: words without those that say nothing, in their normal forms.

use xxhash_rust::xxh3::xxh3_64;

use super::normal::Normalizer;
use super::words::Scanner;

/// Calls `visit` with each term of `text`, in order.
///
/// What says nothing is left out, unless there is nothing else: stop words, and Chinese grammar.
///
/// ```
/// use siltstone_core::analyse::for_each_term;
///
/// let mut found = Vec::new();
/// for_each_term("What did the children's mothers paint?", |term| found.push(term.to_owned()));
/// assert_eq!(found, ["child", "mom", "paint"]); // `mother` and `mom` are one
/// ```
pub fn for_each_term(text: &str, mut visit: impl FnMut(&str)) {
    let (mut scanner, normalizer) = (Scanner::default(), Normalizer::default());
    let says_something = text.split_whitespace().any(|piece| {
        let mut found = false;
        scanner.for_each_word(piece, &mut |_, says| found |= says);
        found
    });
    for piece in text.split_whitespace() {
        scanner.for_each_word(piece, &mut |word, says| {
            if says || !says_something {
                visit(&normalizer.normal(word));
            }
        });
    }
}

/// The hashes of the terms of `text`, in order.
#[must_use]
pub fn terms(text: &str) -> Vec<u64> {
    let mut found = Vec::new();
    for_each_term(text, |term| found.push(hash(term)));
    found
}

/// What a term is known by.
#[must_use]
pub fn hash(term: &str) -> u64 {
    xxh3_64(term.as_bytes())
}
