//! The terms of texts that were asked about before, for the next question about nearly the same ones.

use std::fmt::{self, Debug, Formatter};
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use xxhash_rust::xxh3::xxh3_128_with_secret;

use crate::analyse;
use crate::bm25::once::{Sought, Tally, in_pieces, scored};
use crate::bm25::params::Bm25Params;
use crate::bm25::terms::Query;

/// Terms that are kept at most, which are 32 MB: of more texts none are.
const MOST: usize = 1 << 22;
/// Numbers of a secret.
const SECRET: usize = 24;

/// The terms of the texts of the last question.
///
/// A history that grew by two messages has two new texts: the others are found by digests, at a fraction of the
/// time that their words take to be read. Digests have 128 bits and a secret of their own.
pub struct KnownTexts {
    secret: Vec<u8>,
    places: HashMap<u128, Place, FxBuildHasher>,
    /// Terms of texts, one after the other; each time brings new ones.
    terms: Vec<Vec<u64>>,
}

/// Where the terms of a text are.
#[derive(Clone, Copy, Debug)]
struct Place {
    among: usize,
    start: usize,
    end: usize,
}

impl Default for KnownTexts {
    fn default() -> Self {
        let chance = RandomState::new();
        let secret = (0..SECRET).flat_map(|at| chance.hash_one(at).to_le_bytes());
        Self {
            secret: secret.collect(),
            places: HashMap::default(),
            terms: Vec::new(),
        }
    }
}

impl Debug for KnownTexts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownTexts")
            .field("texts", &self.places.len())
            .finish_non_exhaustive()
    }
}

impl KnownTexts {
    /// What [`scores`](super::scores) says of the same; the texts are known afterwards.
    #[must_use]
    pub fn scores<T>(&mut self, texts: &[T], query: &Query, params: Bm25Params) -> Vec<f64>
    where
        T: Deref<Target = str> + Sync,
    {
        let digest = |text: &T| xxh3_128_with_secret(text.as_bytes(), &self.secret);
        let digests: Vec<u128> = texts.iter().map(digest).collect();
        let places = self.places(texts, &digests);
        let sought = Sought::of(query);
        let mut tally = Tally::of(&sought);
        for &place in &places {
            tally.add(self.terms_at(place));
        }
        self.forget(&digests, &places);
        scored(query, params, &[tally])
    }

    /// Where the terms of each text are; those that nobody has asked about before are read.
    fn places<T>(&mut self, texts: &[T], digests: &[u128]) -> Vec<Place>
    where
        T: Deref<Target = str> + Sync,
    {
        let known: Vec<Option<Place>> = digests
            .iter()
            .map(|digest| self.places.get(digest).copied())
            .collect();
        let new = || (0..texts.len()).filter(|&at| known[at].is_none());
        let new_texts: Vec<&str> = new().map(|at| &*texts[at]).collect();
        let pieces = in_pieces(&new_texts, |texts| {
            let (mut terms, mut ends) = (Vec::new(), Vec::with_capacity(texts.len()));
            for text in texts {
                analyse::terms_into(text, &mut terms);
                ends.push(terms.len());
            }
            (terms, ends)
        });
        let mut learnt = Vec::with_capacity(new_texts.len());
        for (terms, ends) in pieces.into_iter().filter(|(_, ends)| !ends.is_empty()) {
            let (among, mut start) = (self.terms.len(), 0);
            for end in ends {
                learnt.push(Place { among, start, end });
                start = end;
            }
            self.terms.push(terms);
        }
        self.places
            .extend(new().map(|at| digests[at]).zip(learnt.iter().copied()));
        let mut learnt = learnt.into_iter();
        known
            .into_iter()
            .filter_map(|place| place.or_else(|| learnt.next()))
            .collect()
    }

    fn terms_at(&self, Place { among, start, end }: Place) -> &[u64] {
        &self.terms[among][start..end]
    }

    /// Lets go of what nobody asked about, where it is more than what was, or where all of it is too much.
    fn forget(&mut self, digests: &[u128], asked: &[Place]) {
        let used: usize = asked.iter().map(|place| place.end - place.start).sum();
        let kept: usize = self.terms.iter().map(Vec::len).sum();
        if used > MOST {
            self.places = HashMap::default();
            self.terms = Vec::new();
        } else if kept > 2 * used || self.terms.len() > asked.len() {
            let (mut places, mut terms) = (HashMap::default(), Vec::with_capacity(used));
            for (&digest, &place) in digests.iter().zip(asked) {
                let start = terms.len();
                terms.extend_from_slice(self.terms_at(place));
                let (among, end) = (0, terms.len());
                places.insert(digest, Place { among, start, end });
            }
            (self.places, self.terms) = (places, vec![terms]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bm25::scores;

    fn texts(range: std::ops::Range<usize>) -> Vec<String> {
        let word = |number: usize| ["silt", "settles", "slow", "kettle", "the"][number % 5];
        let text = |number: usize| format!("{} {} w{number}", word(number), word(number / 5));
        range.map(text).collect()
    }

    #[test]
    fn scores_are_those_of_texts_that_nobody_knew_to_the_last_bit() {
        let mut known = KnownTexts::default();
        let rounds = [0..0, 0..40, 0..42, 20..42, 3..5, 0..60, 50..60, 0..0, 0..3];
        for (asked, round) in ["silt", "the kettle w41", "", "slow w3"]
            .into_iter()
            .cycle()
            .zip(rounds)
        {
            let (texts, query) = (texts(round.clone()), Query::of(asked));
            let params = Bm25Params::default();
            assert_eq!(
                known.scores(&texts, &query, params),
                scores(&texts, &query, params),
                "{round:?}"
            );
        }
    }

    #[test]
    fn what_nobody_asks_about_any_more_is_let_go() {
        let (mut known, query) = (KnownTexts::default(), Query::of("silt"));
        for round in 0..300 {
            let texts = texts(round..round + 50);
            let _ = known.scores(&texts, &query, Bm25Params::default());
            let kept: usize = known.terms.iter().map(Vec::len).sum();
            assert!(kept <= 2 * 50 * 3, "{kept}");
            assert!(known.places.len() <= 3 * 50 && known.terms.len() <= 50);
        }
    }

    #[test]
    fn too_many_terms_are_not_kept() {
        let (mut known, query) = (KnownTexts::default(), Query::of("silt"));
        let texts = ["silt ".repeat(MOST + 1)];
        assert!(known.scores(&texts, &query, Bm25Params::default())[0] > 0.0);
        assert!(known.places.is_empty() && known.terms.is_empty());
    }
}
