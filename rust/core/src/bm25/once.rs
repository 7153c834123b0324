//! Texts against one query, without an index: for those who ask once.

use hashbrown::HashMap;

use crate::analyse;
use crate::bm25::params::Bm25Params;
use crate::bm25::score::{Collection, Weighing};
use crate::bm25::terms::{Hint, Query, QueryTerm};

/// How telling each of `texts` is of `query`, 0 to 1: what an index of these texts would score them.
///
/// Each text is read once, and of its terms those alone are kept that the query has, so it takes a fraction
/// of the time that the index takes to be made.
///
/// ```
/// use siltstone_core::bm25::{Bm25Params, Query, scores};
///
/// let texts = ["silt settles where water is slow", "the kettle is on"];
/// let found = scores(texts, &Query::of("Where does silt settle?"), Bm25Params::default());
/// assert!(found[0] > 0.0 && found[1] == 0.0);
/// ```
#[must_use]
pub fn scores<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    query: &Query,
    params: Bm25Params,
) -> Vec<f64> {
    let read = Read::of(texts, query);
    let collection = Collection {
        documents: read.lengths.len() as u64,
        words: read.lengths.iter().sum(),
    };
    let weigh =
        |(term, &df): (&QueryTerm, &usize)| Weighing::Plain.weight(term.count, collection.idf(df));
    let weights: Vec<f64> = query.terms().iter().zip(&read.df).map(weigh).collect();
    let ceiling = Weighing::Plain.ceiling(params, weights.iter().sum());
    let mut found = vec![0.0; read.lengths.len()];
    for ((score, &length), range) in found.iter_mut().zip(&read.lengths).zip(read.ranges()) {
        let norm = collection.norm(params, length);
        let parts = read.counts[range].iter();
        let sum: f64 = parts.fold(0.0, |sum, &(term, tf)| {
            sum + Collection::part_by(params, weights[term as usize], tf, norm)
        });
        if sum > 0.0 {
            *score = (sum / ceiling).min(1.0);
        }
    }
    found
}

/// What the texts have of a query.
#[derive(Default)]
struct Read {
    /// How many terms each text has.
    lengths: Vec<u64>,
    /// Terms of the query by their place in it, ascending, and how often a text has each; text after text.
    counts: Vec<(u32, u32)>,
    /// Where those of each text end.
    ends: Vec<usize>,
    /// How many texts have each term.
    df: Vec<usize>,
}

impl Read {
    fn of<'a>(texts: impl IntoIterator<Item = &'a str>, query: &Query) -> Self {
        let hint = Hint::of(query);
        let places: HashMap<u64, u32> = query
            .terms()
            .iter()
            .zip(0_u32..)
            .map(|(term, place)| (term.hash, place))
            .collect();
        let mut read = Self {
            df: vec![0; query.terms().len()],
            ..Self::default()
        };
        let (mut terms, mut met) = (Vec::new(), Vec::<u32>::new());
        for text in texts {
            terms.clear();
            met.clear();
            analyse::terms_into(text, &mut terms);
            let may_be = terms.iter().filter(|&&term| hint.has(term));
            met.extend(may_be.filter_map(|term| places.get(term)));
            met.sort_unstable();
            for run in met.chunk_by(|one, other| one == other) {
                read.df[run[0] as usize] += 1;
                let tf = u32::try_from(run.len()).unwrap_or(u32::MAX);
                read.counts.push((run[0], tf));
            }
            read.ends.push(read.counts.len());
            read.lengths.push(terms.len() as u64);
        }
        read
    }

    /// Where the counts of each text lie.
    fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bm25::{Bm25Index, Document};

    /// Scores of an index of the same texts.
    fn indexed(texts: &[&str], query: &Query) -> Vec<f64> {
        let mut index = Bm25Index::new(Bm25Params::default());
        for text in texts {
            index.add(&Document::of(text));
        }
        let mut found = vec![0.0; texts.len()];
        for best in index.search(query, texts.len()) {
            found[best.id as usize] = best.score;
        }
        found
    }

    #[test]
    fn scores_are_those_of_an_index_of_the_same_texts_to_the_last_bit() {
        let words = [
            "silt", "settles", "slow", "water", "kettle", "the", "on", "deploys", "deployed",
        ];
        let texts: Vec<String> = (0..700_usize)
            .map(|number| {
                let count = number % 17;
                let chosen =
                    (0..count).map(|at| words[(number * 7 + at * at + 3 * at) % words.len()]);
                chosen.collect::<Vec<_>>().join(" ")
            })
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for asked in [
            "silt",
            "Where does the water settle, slow water?",
            "deploy",
            "the",
            "unknown",
            "",
        ] {
            let query = Query::of(asked);
            let found = scores(texts.iter().copied(), &query, Bm25Params::default());
            assert_eq!(found, indexed(&texts, &query), "{asked}");
        }
    }

    #[test]
    fn without_texts_there_are_no_scores() {
        assert!(scores([], &Query::of("silt"), Bm25Params::default()).is_empty());
    }
}
