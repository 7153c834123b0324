//! The terms of texts, kept for later queries over nearly the same texts.

use std::ops::Deref;

use crate::analyse;
use crate::bm25::once::{Sought, Tally, in_pieces, scored};
use crate::bm25::params::Bm25Params;
use crate::bm25::terms::Query;

/// The terms of one text. A text that is several known texts, each on lines of its own, has the terms of all of
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTerms {
    hashes: Box<[u64]>,
    /// Whether the text has content words. If it has none, its terms are its function words.
    says: bool,
}

impl KnownTerms {
    /// The terms of each text. Large inputs are read by several threads.
    #[must_use]
    pub fn of<T>(texts: &[T]) -> Vec<Self>
    where
        T: Deref<Target = str> + Sync,
    {
        let pieces = in_pieces(texts, |texts| {
            let mut terms = Vec::new();
            let learn = |text: &T| {
                terms.clear();
                let says = analyse::terms_into(text, &mut terms);
                let hashes = terms.as_slice().into();
                Self { hashes, says }
            };
            texts.iter().map(learn).collect::<Vec<_>>()
        });
        pieces.into_iter().flatten().collect()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.hashes.len()
    }

    /// The same scores as [`scores`](super::scores), for texts that are given as their known pieces, each on lines
    /// of its own.
    #[must_use]
    pub fn scores<'a, P>(
        texts: impl Iterator<Item = P>,
        query: &Query,
        params: Bm25Params,
    ) -> Vec<f64>
    where
        P: Iterator<Item = &'a Self> + Clone,
    {
        let sought = Sought::of(query);
        let mut tally = Tally::of(&sought);
        for pieces in texts {
            let says = pieces.clone().any(|piece| piece.says);
            let spoken = pieces.filter(|piece| piece.says == says);
            tally.add(spoken.map(|piece| &*piece.hashes));
        }
        scored(query, params, &[tally])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bm25::scores;

    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            3 => "(silt|settles|slow|kettle|deploys|deployed|in_progress|w4){1,3}( (the|on|silt|of)){0,3}",
            1 => "(the |of |and ){0,4}",
            1 => "[-., 漢字É]{0,6}",
        ]
    }

    proptest! {
        #[test]
        fn scores_are_those_of_the_joined_texts_to_the_last_bit(
            texts in prop::collection::vec(prop::collection::vec(line(), 1..4), 0..40),
            asked in line(),
        ) {
            let (query, params) = (Query::of(&asked), Bm25Params::default());
            let known: Vec<_> = texts.iter().map(|lines| KnownTerms::of(lines)).collect();
            let joined: Vec<String> = texts.iter().map(|lines| lines.join("\n")).collect();
            let found = KnownTerms::scores(known.iter().map(|lines| lines.iter()), &query, params);
            prop_assert_eq!(found, scores(&joined, &query, params));
        }
    }

    #[test]
    fn words_that_say_nothing_count_where_there_are_no_others() {
        let of = |lines: &[&str]| {
            KnownTerms::of(lines)
                .iter()
                .map(KnownTerms::count)
                .sum::<usize>()
        };
        assert_eq!(of(&["of the", "silt"]), 3);
        let both = KnownTerms::of(&["of the", "silt"]);
        let query = Query::of("of the");
        let one = |lines: &[KnownTerms]| {
            KnownTerms::scores([lines.iter()].into_iter(), &query, Bm25Params::default())[0]
        };
        assert!(one(&both[..1]) > 0.0);
        assert!(one(&both).abs() < f64::EPSILON);
    }
}
