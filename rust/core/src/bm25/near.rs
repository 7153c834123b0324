//! What an entry and those beside it have of a query together, term by term.
//!
//! ```text
//! near(t, e) = sqrt(part(t, e)^2 + sum over k of share(k)^2 * (part(t, e-k)^2 + part(t, e+k)^2))
//! near(e)    = sum of near(t, e) over the terms of the query
//! ```
//!
//! `part(t, e)` is that of the entry's best passage, `e-k` and `e+k` are the entries `k` places away in the
//! conversation. A neighbour that has what the entry lacks adds its whole share; one that repeats what the
//! entry has adds little. `near(e)` is never more than the sum of the entry's parts and of the shares of
//! its neighbours', which is quick to say: see `bound`.

use crate::bm25::chain::{Chain, REACH};
use crate::bm25::scorer::{Part, Scorer};

/// What a neighbour adds of a term that the entry lacks, the nearest first.
const SHARES: [f64; REACH] = [0.41, 0.4, 0.3, 0.2];

/// Their squares, written out so that every language has the same bits.
const SQUARES: [f64; REACH] = [0.1681, 0.16, 0.09, 0.04];

/// An entry cannot be near the query by more than so many times the best of itself and its neighbours.
pub(super) const MOST: f64 = 1.0 + 2.0 * (0.41 + 0.4 + 0.3 + 0.2);

/// How the score of an entry came about. All shares are parts of the score.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// What each term of the query adds, for the best passage.
    pub parts: Vec<Part>,
    /// The best passage of the entry, from 0.
    pub passage: u32,
    /// How many it has.
    pub passages: u32,
    /// What that passage adds: the sum of the parts.
    pub own: f64,
    /// What stands beside it, those before it first, the nearest first.
    pub neighbors: Vec<Neighbor>,
    /// What was said on the same day adds.
    pub day: f64,
}

/// An entry beside one that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// Its number in the index.
    pub id: u32,
    /// Where it stands: -4 to -1, or 1 to 4.
    pub place: i64,
    /// What it adds; more than 0.
    pub score: f64,
}

/// The parts of entries for one query, each entry looked up once.
pub(super) struct Parts<'a> {
    query: &'a Scorer<'a>,
    /// For each entry one more than its place in `rows`; 0 where it was not looked up.
    places: Vec<u32>,
    rows: Vec<f64>,
}

impl<'a> Parts<'a> {
    pub(super) fn new(query: &'a Scorer<'a>, entries: usize) -> Self {
        Self {
            query,
            places: vec![0; entries],
            rows: Vec::new(),
        }
    }

    /// Looks up an entry, whose best passage `best` names; all its parts are 0 where it has none.
    fn look_up(&mut self, entry: u32, best: impl Fn(u32) -> Option<u32>) {
        if self.places[entry as usize] == 0 {
            match best(entry) {
                Some(passage) => self.query.extend_with_addends(passage, &mut self.rows),
                None => self.rows.resize(self.rows.len() + self.query.len(), 0.0),
            }
            let rows = self.rows.len() / self.query.len().max(1);
            self.places[entry as usize] = u32::try_from(rows).expect("fewer rows than entries");
        }
    }

    /// The parts of an entry that was looked up, one a term.
    fn row(&self, entry: u32) -> &[f64] {
        let terms = self.query.len();
        let end = self.places[entry as usize] as usize * terms;
        &self.rows[end - terms..end]
    }
}

/// `near(e)`; `best` names the best passage of an entry.
pub(super) fn near(
    parts: &mut Parts<'_>,
    chain: &Chain,
    entry: u32,
    best: impl Fn(u32) -> Option<u32>,
) -> f64 {
    let sides = chain.neighbors(entry);
    let window = sides.iter().flatten().flatten().copied();
    window
        .chain([entry])
        .for_each(|each| parts.look_up(each, &best));
    let parts = &*parts;
    let near = (0..parts.query.len()).map(|term| square(parts, entry, sides, term).sqrt());
    near.fold(0.0, |sum, next| sum + next)
}

/// `near(t, e)^2` of the term in that place.
fn square(parts: &Parts<'_>, entry: u32, sides: [[Option<u32>; REACH]; 2], term: usize) -> f64 {
    let part = |neighbor: Option<u32>| neighbor.map_or(0.0, |each| parts.row(each)[term]);
    let own = parts.row(entry)[term];
    let mut square = own * own;
    for (place, share) in SQUARES.into_iter().enumerate() {
        let [before, after] = sides.map(|side| part(side[place]));
        square += share * (before * before + after * after);
    }
    square
}

/// At least `near(e)`: the sums of the entry and of its neighbours, each with its share.
pub(super) fn bound(own: &[f64], chain: &Chain, entry: u32) -> f64 {
    let [before, after] = chain.neighbors(entry);
    let of = |neighbor: Option<u32>| neighbor.map_or(0.0, |each| own[each as usize]);
    let beside = SHARES.into_iter().enumerate();
    beside.fold(own[entry as usize], |sum, (place, share)| {
        sum + share * (of(before[place]) + of(after[place]))
    })
}

/// What the terms of an entry add to `near(e)`, and what its neighbours add: each its part of the square.
pub(super) fn shares(
    parts: &mut Parts<'_>,
    chain: &Chain,
    entry: u32,
    best: impl Fn(u32) -> Option<u32>,
) -> (Vec<f64>, Vec<Neighbor>) {
    near(parts, chain, entry, best);
    let sides = chain.neighbors(entry);
    let roots: Vec<f64> = (0..parts.query.len())
        .map(|term| square(parts, entry, sides, term).sqrt())
        .collect();
    let of = |entry: u32, share: f64| -> Vec<f64> {
        let row = parts.row(entry).iter().zip(&roots);
        row.map(|(&part, &root)| {
            if part > 0.0 {
                share * part * part / root
            } else {
                0.0
            }
        })
        .collect()
    };
    let mut neighbors = Vec::new();
    for (side, sign) in sides.into_iter().zip([-1, 1]) {
        for ((neighbor, share), distance) in side.into_iter().zip(SQUARES).zip(1..) {
            let Some(id) = neighbor else { continue };
            let score: f64 = of(id, share).iter().sum();
            if score > 0.0 {
                neighbors.push(Neighbor {
                    id,
                    place: sign * distance,
                    score,
                });
            }
        }
    }
    (of(entry, 1.0), neighbors)
}
