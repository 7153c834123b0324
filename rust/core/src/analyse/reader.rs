//! From the clusters of a text to its terms: by the memo, and by the rules where that does not know them.

use std::ops::Range;

use super::key::{SHORT, is_plain_word, long_key, short_key};
use super::memo::{Memo, TERMS, Told};
use super::normal::{Normalizer, hash};
use super::stop::is_stop_word;
use super::words::Scanner;

/// Clusters that are looked up together, and terms that are handed on together.
pub(super) const AT_ONCE: usize = 32;

/// A cluster that waits to be looked up.
#[derive(Clone, Copy, Default)]
pub(super) struct Cluster {
    key: [u64; 2],
    start: usize,
    end: usize,
}

impl Cluster {
    /// That which lies in this range of `text`.
    #[inline]
    pub(super) fn of(text: &str, Range { start, end }: Range<usize>) -> Self {
        let key = short_key(text.as_bytes(), start, end);
        Self { key, start, end }
    }
}

/// Looks clusters up, and reads what the memo does not have.
#[derive(Default)]
pub(super) struct Reader {
    memo: Memo,
    scanner: Scanner,
    terms: Terms,
}

impl Reader {
    /// Gives back what a cluster took that was much longer than others are.
    pub(super) fn shrink(&mut self) {
        self.scanner = Scanner::default();
    }

    /// Finds the terms of at most [`AT_ONCE`] clusters, in order.
    #[inline(never)]
    pub(super) fn look_up(&mut self, text: &str, clusters: &[Cluster], found: &mut Found<'_>) {
        let mut told = [Told::default(); AT_ONCE];
        let keys = clusters.iter().map(|cluster| cluster.key);
        let known = self.memo.words(keys, &mut told);
        for ((cluster, &told), bit) in clusters.iter().zip(&told).zip(0..) {
            if known >> bit & 1 == 1 {
                found.push(told);
            } else {
                self.learn(text, cluster, found);
            }
        }
    }

    /// Finds the terms of a cluster that was not among those of one term.
    #[inline(never)]
    fn learn(&mut self, text: &str, cluster: &Cluster, found: &mut Found<'_>) {
        let Cluster { key, start, end } = *cluster;
        if is_plain_word(&text[start..end]) {
            // It may have been learnt a moment ago.
            let known = self.memo.word(key);
            let told = || self.terms.told(&mut self.memo, key, &text[start..end]);
            found.push(known.unwrap_or_else(told));
            return;
        }
        let long = long_key(text.as_bytes(), start, end);
        if let Some(known) = long.and_then(|long| self.memo.compound(long)) {
            known.for_each(|told| found.push(told));
            return;
        }
        // One more than are remembered, to see that there are more.
        let (mut terms, mut count) = ([Told::default(); TERMS + 1], 0);
        self.read(&text[start..end], |told| {
            terms[count.min(TERMS)] = told;
            count += 1;
            found.push(told);
        });
        match (&terms[..count.min(TERMS + 1)], long) {
            (&[told], _) if end - start <= SHORT => self.memo.keep_word(key, told),
            (terms, Some(long)) => self.memo.keep_compound(long, terms),
            _ => {}
        }
    }

    /// Calls `visit` with the terms of a cluster, in order.
    fn read(&mut self, cluster: &str, mut visit: impl FnMut(Told)) {
        let Self {
            memo,
            scanner,
            terms,
        } = self;
        // White space that is not ASCII may be in it.
        for piece in cluster.split_whitespace() {
            scanner.for_each_word(piece, &mut |word, says| {
                visit(Told {
                    term: terms.term(memo, word),
                    says,
                });
            });
        }
    }
}

/// Makes terms of words by the rules.
#[derive(Default)]
struct Terms {
    normalizer: Normalizer,
    /// A word in lower case, kept here for its capacity.
    lower: String,
}

impl Terms {
    /// The term of a word in lower case.
    fn term(&mut self, memo: &mut Memo, word: &str) -> u64 {
        // Words of other letters are remembered by their clusters alone.
        if word.len() > SHORT || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return hash(&self.normalizer.normal(word));
        }
        let key = short_key(word.as_bytes(), 0, word.len());
        let known = memo.word(key);
        known.unwrap_or_else(|| self.told(memo, key, word)).term
    }

    /// The term of a plain word that the memo does not have, by the rules.
    fn told(&mut self, memo: &mut Memo, key: [u64; 2], word: &str) -> Told {
        self.lower.clear();
        self.lower.push_str(word);
        self.lower.make_ascii_lowercase();
        let told = Told {
            term: hash(&self.normalizer.normal(&self.lower)),
            says: !is_stop_word(&self.lower),
        };
        memo.keep_word(key, told);
        told
    }
}

/// The terms that were found: those that say something, or all.
pub(super) struct Found<'a> {
    terms: &'a mut Vec<u64>,
    all: bool,
    newest: [u64; AT_ONCE],
    count: usize,
}

impl<'a> Found<'a> {
    pub(super) fn new(terms: &'a mut Vec<u64>, all: bool) -> Self {
        Self {
            terms,
            all,
            newest: [0; AT_ONCE],
            count: 0,
        }
    }

    /// Written whether it says anything or not, which nobody can guess.
    #[inline]
    fn push(&mut self, told: Told) {
        self.newest[self.count % AT_ONCE] = told.term;
        self.count += usize::from(told.says | self.all);
        if self.count == AT_ONCE {
            self.flush();
        }
    }

    #[inline(never)]
    pub(super) fn flush(&mut self) {
        self.terms.extend_from_slice(&self.newest[..self.count]);
        self.count = 0;
    }
}
