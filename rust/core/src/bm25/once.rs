//! Scores texts for one query without an index: for callers that ask once, or that ask again about nearly the same
//! texts.

use std::mem;
use std::ops::{Deref, Range};
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread::{self, Builder};

use hashbrown::HashMap;

use crate::analyse;
use crate::bm25::params::Bm25Params;
use crate::bm25::score::{Collection, Weighing};
use crate::bm25::terms::{Hint, Query, QueryTerm};

/// One thread is used for each so many bytes of text.
const WORTH_A_THREAD: usize = 256 * 1024;
/// The most threads: with more, they wait for memory.
const MOST_THREADS: usize = 8;

/// Terms that are checked together.
const AT_ONCE: usize = 32;

/// The score of each of `texts` for `query`, 0 to 1: the score that an index of these texts would give.
///
/// Each text is read once, and only those of its terms that the query has are kept, so this takes a fraction of the
/// time of building an index. Large inputs are read by several threads.
///
/// ```
/// use siltstone_core::bm25::{Bm25Params, Query, scores};
///
/// let texts = ["silt settles where water is slow", "the kettle is on"];
/// let found = scores(&texts, &Query::of("Where does silt settle?"), Bm25Params::default());
/// assert!(found[0] > 0.0 && found[1] == 0.0);
/// ```
#[must_use]
pub fn scores<T>(texts: &[T], query: &Query, params: Bm25Params) -> Vec<f64>
where
    T: Deref<Target = str> + Sync,
{
    let sought = Sought::of(query);
    let pieces = in_pieces(texts, |texts| {
        let mut tally = Tally::of(&sought);
        analyse::sift(texts, &sought.places, |length, met| tally.note(length, met));
        tally
    });
    scored(query, params, &pieces)
}

/// The score of each text of the `pieces`, in order.
pub(super) fn scored(query: &Query, params: Bm25Params, pieces: &[Tally<'_>]) -> Vec<f64> {
    let lengths = || pieces.iter().flat_map(|piece| &piece.lengths).copied();
    let collection = Collection {
        documents: lengths().count() as u64,
        words: lengths().sum(),
    };
    let df = |place: usize| pieces.iter().map(|piece| piece.df[place]).sum();
    let weigh = |(place, term): (usize, &QueryTerm)| {
        Weighing::Plain.weight(term.count, collection.idf(df(place)))
    };
    let weights: Vec<f64> = query.terms().iter().enumerate().map(weigh).collect();
    let ceiling = Weighing::Plain.ceiling(params, weights.iter().sum());
    let texts = pieces.iter().flat_map(Tally::texts);
    let one = |(length, counts): (u64, &[(u32, u32)])| {
        let norm = collection.norm(params, length);
        let sum = counts.iter().fold(0.0, |sum, &(term, tf)| {
            sum + Collection::part_by(params, weights[term as usize], tf, norm)
        });
        if sum > 0.0 {
            (sum / ceiling).min(1.0)
        } else {
            0.0
        }
    };
    texts.map(one).collect()
}

/// The terms of a query, prepared for look-up.
pub(super) struct Sought {
    hint: Hint,
    /// The place in the query of each hash.
    places: HashMap<u64, u32>,
}

impl Sought {
    pub(super) fn of(query: &Query) -> Self {
        let terms = query.terms().iter().map(|term| term.hash);
        Self {
            hint: Hint::of(query),
            places: terms.zip(0..).collect(),
        }
    }
}

/// The counts of a query's terms in texts.
pub(super) struct Tally<'a> {
    sought: &'a Sought,
    /// How many terms each text has.
    lengths: Vec<u64>,
    /// The terms of the query that each text has, by their place in the query, ascending, with their counts; text
    /// after text.
    counts: Vec<(u32, u32)>,
    /// Where the counts of each text end.
    ends: Vec<usize>,
    /// How many texts have each term.
    df: Vec<usize>,
    /// The terms met in the current text; kept for its capacity.
    met: Vec<u32>,
}

impl<'a> Tally<'a> {
    pub(super) fn of(sought: &'a Sought) -> Self {
        Self {
            sought,
            lengths: Vec::new(),
            counts: Vec::new(),
            ends: Vec::new(),
            df: vec![0; sought.places.len()],
            met: Vec::new(),
        }
    }

    /// Adds a text by its terms, in pieces.
    pub(super) fn add<'t>(&mut self, pieces: impl IntoIterator<Item = &'t [u64]>) {
        let Sought { hint, places } = self.sought;
        let (mut met, mut length) = (mem::take(&mut self.met), 0);
        met.clear();
        for terms in pieces {
            for some in terms.chunks(AT_ONCE) {
                // The term is always written, since a branch here could not be predicted.
                let (mut likely, mut count) = ([0; AT_ONCE], 0);
                for &term in some {
                    likely[count % AT_ONCE] = term;
                    count += usize::from(hint.has(term));
                }
                let likely = likely[..count].iter();
                met.extend(likely.filter_map(|term| places.get(term)));
            }
            length += terms.len() as u64;
        }
        self.note(length, &mut met);
        self.met = met;
    }

    /// Adds a text by how many terms it has, and the places of those that the query has.
    fn note(&mut self, length: u64, met: &mut [u32]) {
        if met.len() > 1 {
            met.sort_unstable();
        }
        for run in met.chunk_by(|one, other| one == other) {
            self.df[run[0] as usize] += 1;
            let tf = u32::try_from(run.len()).unwrap_or(u32::MAX);
            self.counts.push((run[0], tf));
        }
        self.ends.push(self.counts.len());
        self.lengths.push(length);
    }

    /// The length and the counts of each text.
    fn texts(&self) -> impl Iterator<Item = (u64, &[(u32, u32)])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends).map(|(start, &end)| start..end);
        let counts = ranges.map(|range: Range<usize>| &self.counts[range]);
        self.lengths.iter().copied().zip(counts)
    }
}

/// Splits `texts` into pieces of about equal bytes, and runs `work` on each in a thread of its own (the first one
/// in this thread). The results are in order.
pub(super) fn in_pieces<T, R>(texts: &[T], work: impl Fn(&[T]) -> R + Sync) -> Vec<R>
where
    T: Deref<Target = str> + Sync,
    R: Send,
{
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let threads = (bytes / WORTH_A_THREAD).clamp(1, threads());
    let (first, others) = parted(texts, bytes / threads);
    if others.is_empty() {
        return vec![work(first)];
    }
    let work = &work;
    thread::scope(|scope| {
        let begun = others.into_iter().map(|texts| {
            let begun = Builder::new().spawn_scoped(scope, move || work(texts));
            begun.map_err(|_| texts) // the system gave no thread
        });
        let begun: Vec<_> = begun.collect();
        let mut made = vec![work(first)];
        made.extend(begun.into_iter().map(|begun| match begun {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(texts) => work(texts),
        }));
        made
    })
}

/// `texts` in pieces of `bytes` or a little more; the last piece may have less.
fn parted<T: Deref<Target = str>>(texts: &[T], bytes: usize) -> (&[T], Vec<&[T]>) {
    let (mut ends, mut sum) = (Vec::new(), 0);
    for (place, text) in texts.iter().enumerate() {
        sum += text.len();
        if sum > bytes {
            ends.push(place + 1);
            sum = 0;
        }
    }
    let (mut rest, mut start) = (texts, 0);
    let mut pieces = Vec::new();
    for end in ends {
        let (piece, after) = rest.split_at(end - start);
        pieces.push(piece);
        (rest, start) = (after, end);
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(rest);
    }
    let first = pieces.remove(0);
    (first, pieces)
}

/// How many threads may work at once.
fn threads() -> usize {
    static KNOWN: OnceLock<usize> = OnceLock::new(); // the system call reads files
    let asked = || thread::available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS));
    *KNOWN.get_or_init(asked)
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
            let found = scores(&texts, &query, Bm25Params::default());
            assert_eq!(found, indexed(&texts, &query), "{asked}");
        }
    }

    #[test]
    fn without_texts_there_are_no_scores() {
        let none: [&str; 0] = [];
        assert!(scores(&none, &Query::of("silt"), Bm25Params::default()).is_empty());
    }

    #[test]
    fn many_texts_are_read_in_pieces_and_none_is_left_out_or_moved() {
        let long = "silt ".repeat(WORTH_A_THREAD / 20);
        for count in [0, 1, 2, 9, 31] {
            let texts: Vec<String> = (0..count)
                .map(|number| format!("{number} {long}"))
                .collect();
            let pieces = in_pieces(&texts, |some| {
                let first = |text: &String| text.split(' ').next().unwrap_or("").to_owned();
                some.iter().map(first).collect::<Vec<_>>()
            });
            let expected: Vec<String> = (0..count).map(|number| number.to_string()).collect();
            assert_eq!(pieces.concat(), expected);
            assert!(pieces.len() <= threads());
        }
    }
}
