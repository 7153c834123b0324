//! BM25 as the documented archive defines it, over lists of words that the caller has split.
//!
//! ```text
//! idf(t)   = ln((N - n(t) + 0.5) / (n(t) + 0.5) + 1)
//! score(d) = sum over t of idf(t) * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length(d) / average))
//! ```
//!
//! A term that occurs twice in a query counts twice. Sums are taken in the order of the query's terms.

use hashbrown::{HashMap, HashSet};

/// The saturation of term frequency: with a smaller value, repetitions of a term soon add nothing.
const K1: f64 = 1.2;
/// The strength of length normalisation: 0 ignores the length of a text.
pub(crate) const B: f64 = 0.75;

/// Texts as lists of words, numbered from 0.
///
/// ```
/// use siltstone_core::documented::Documents;
///
/// let mut documents = Documents::default();
/// documents.add(["api", "on", "port", "3000"]);
/// documents.add(["the", "kettle", "is", "on"]);
/// let best = documents.best(&["api", "port"], 2, 10);
/// assert_eq!(best.len(), 1);
/// assert_eq!(best[0].0, 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// For each word, the texts that contain it, ascending, each with the number of occurrences.
    postings: HashMap<String, Vec<(u32, u32)>>,
    lengths: Vec<u32>,
}

impl Documents {
    /// Adds the next text.
    ///
    /// # Panics
    ///
    /// Where there are 2^32 texts, or a text has as many words.
    pub fn add<W: AsRef<str>>(&mut self, words: impl IntoIterator<Item = W>) {
        let document = count(self.lengths.len());
        let mut length = 0;
        for word in words {
            let word = word.as_ref();
            let places = match self.postings.get_mut(word) {
                Some(places) => places,
                None => self.postings.entry(word.to_owned()).or_default(),
            };
            match places.last_mut() {
                Some((last, times)) if *last == document => *times += 1,
                _ => places.push((document, 1)),
            }
            length += 1;
        }
        self.lengths.push(count(length));
    }

    /// The number of texts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are no texts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The score of each text.
    #[must_use]
    pub fn scores<W: AsRef<str>>(&self, query: &[W]) -> Vec<f64> {
        let all: Vec<u32> = (0..count(self.len())).collect();
        self.scores_of(query, &all)
    }

    /// The score of each of the texts `chosen`, as if there were no others. A text may be chosen repeatedly.
    ///
    /// # Panics
    ///
    /// Where a number is not that of a text.
    #[must_use]
    pub fn scores_of<W: AsRef<str>>(&self, query: &[W], chosen: &[u32]) -> Vec<f64> {
        let mut scores = vec![0.0; self.len()];
        let (mut repeats, mut words) = (vec![0_u32; self.len()], 0_u64);
        for &each in chosen {
            repeats[each as usize] += 1;
            words += u64::from(self.lengths[each as usize]);
        }
        #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
        let (total, words) = (chosen.len() as f64, words as f64);
        let average = words / total;
        for word in query {
            let Some(places) = self.postings.get(word.as_ref()) else {
                continue;
            };
            let repeats_of = |&(document, _): &(u32, u32)| repeats[document as usize];
            let holding = f64::from(places.iter().map(repeats_of).sum::<u32>());
            let idf = ((total - holding + 0.5) / (holding + 0.5) + 1.0).ln();
            for &(document, times) in places.iter().filter(|place| repeats_of(place) > 0) {
                let length = f64::from(self.lengths[document as usize]) / average;
                let times = f64::from(times);
                scores[document as usize] +=
                    idf * times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * length));
            }
        }
        chosen.iter().map(|&each| scores[each as usize]).collect()
    }

    /// The `limit` best texts that contain at least `least` different words of the query, each with its score;
    /// ties go to the lower number. `least` counts as at least 1.
    #[must_use]
    pub fn best<W: AsRef<str>>(&self, query: &[W], least: usize, limit: usize) -> Vec<(u32, f64)> {
        let mut shared = vec![0_usize; self.len()];
        let words: HashSet<&str> = query.iter().map(AsRef::as_ref).collect();
        for places in words.iter().filter_map(|word| self.postings.get(*word)) {
            for &(document, _) in places {
                shared[document as usize] += 1;
            }
        }
        let scores = self.scores(query);
        let found = (0..).zip(scores).zip(shared);
        let mut found: Vec<(u32, f64)> = found
            .filter(|&(_, shared)| shared >= least.max(1))
            .map(|(each, _)| each)
            .collect();
        let order = |one: &(u32, f64), other: &(u32, f64)| {
            other.1.total_cmp(&one.1).then(one.0.cmp(&other.0))
        };
        if limit < found.len() && limit > 0 {
            found.select_nth_unstable_by(limit - 1, order);
        }
        found.truncate(limit);
        found.sort_unstable_by(order);
        found
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 texts and words are in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Documents {
        let mut documents = Documents::default();
        for text in texts {
            documents.add(text.split_whitespace());
        }
        documents
    }

    #[test]
    fn a_score_is_that_of_the_formula() {
        let scores = of(&["a a b", "b c d"]).scores(&["a", "b", "a"]);
        let idf = |holding: f64| ((2.0 - holding + 0.5) / (holding + 0.5) + 1.0_f64).ln();
        let (twice, once) = (2.0 * 2.2 / (2.0 + 1.2), 2.2 / (1.0 + 1.2));
        assert!((scores[0] - (2.0 * idf(1.0) * twice + idf(2.0) * once)).abs() < 1e-12);
        assert!((scores[1] - idf(2.0) * once).abs() < 1e-12);
    }

    #[test]
    fn chosen_texts_score_as_if_they_were_alone() {
        let (texts, query) = (["a a b", "c", "b c d", "a"], ["a", "b", "a"]);
        let chosen = of(&texts).scores_of(&query, &[2, 0, 2]);
        assert_eq!(chosen, of(&[texts[2], texts[0], texts[2]]).scores(&query));
        assert!(of(&texts).scores_of(&query, &[]).is_empty());
    }

    #[test]
    fn nothing_has_no_scores() {
        assert!(of(&[]).scores(&["a"]).is_empty());
        assert!(of(&[]).best(&["a"], 1, 5).is_empty());
        assert_eq!(of(&["", "a"]).scores(&["b"]), [0.0, 0.0]);
        assert!(of(&["a"]).best(&["a"], 1, 0).is_empty());
        assert!(of(&["a"]).best::<&str>(&[], 0, 5).is_empty());
    }

    #[test]
    fn the_best_have_enough_of_the_words_and_of_equal_ones_the_first_leads() {
        let documents = of(&["a b", "a x", "a b", "b a c d e f"]);
        let ids = |least, limit| -> Vec<u32> {
            let best = documents.best(&["a", "b", "b"], least, limit);
            best.into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(ids(2, 9), [0, 2, 3]);
        assert_eq!(ids(2, 1), [0]);
        assert_eq!(ids(1, 9).len(), 4);
        assert_eq!(ids(3, 9), Vec::<u32>::new());
    }
}
