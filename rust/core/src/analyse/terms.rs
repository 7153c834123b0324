//! From a text to its terms: words without those that say nothing, in their normal forms.

use super::analyser::with_kept;
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
    let normalizer = Normalizer::default();
    for_each_word(text, |word| visit(&normalizer.normal(word)));
}

/// The hashes of the terms of `text`, in order.
#[must_use]
pub fn terms(text: &str) -> Vec<u64> {
    let mut found = Vec::new();
    terms_into(text, &mut found);
    found
}

/// Adds the hashes of the terms of `text` to `found`, in order: for those who read many texts.
pub fn terms_into(text: &str, found: &mut Vec<u64>) {
    with_kept(|analyser| analyser.read_all(text, found));
}

/// What `read` makes of the hashes of the terms of `text`, in ascending order: for those who count them.
pub fn with_sorted_terms<T>(text: &str, read: impl FnOnce(&[u64]) -> T) -> T {
    with_kept(|analyser| analyser.with_sorted(text, read))
}

/// Calls `visit` with each word of `text` that says something, in order; with each at all where none does.
pub(super) fn for_each_word(text: &str, mut visit: impl FnMut(&str)) {
    let mut scanner = Scanner::default();
    let says_something = text.split_whitespace().any(|piece| {
        let mut found = false;
        scanner.for_each_word(piece, &mut |_, says| found |= says);
        found
    });
    for piece in text.split_whitespace() {
        scanner.for_each_word(piece, &mut |word, says| {
            if says || !says_something {
                visit(word);
            }
        });
    }
}
