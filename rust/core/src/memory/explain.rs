//! Explanations of scores: the parts of a score by name, as a user reads them.

use crate::bm25::{Part, Query, Why};
use crate::id::EntryId;
use crate::index::Near;
use crate::memory::catch_up::fields;
use crate::memory::options::Ranker;
use crate::memory::rank::{Analysis, By, Ranked, Ranking};
use crate::memory::session_index::Scope;
use crate::sqlite::NewEntry;

/// Values by name, in the order in which they are shown.
pub type Explanation = Vec<(&'static str, Explained)>;

/// A value in an explanation.
#[derive(Clone, Debug, PartialEq)]
pub enum Explained {
    /// There is no value, such as a cosine of an entry without a vector.
    Nothing,
    /// A score, a share or a factor.
    Number(f64),
    /// A count, a place or an id.
    Count(i64),
    /// A term, or the code of a language.
    Text(String),
    /// Several things of one kind.
    List(Vec<Explanation>),
    /// A value that has parts itself.
    Parts(Explanation),
}

impl From<f64> for Explained {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Explained {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl<T: Into<Self>> From<Option<T>> for Explained {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, T::into)
    }
}

/// The parts of the score of `ranked`.
pub(super) fn explain(
    scope: &Scope,
    query: &Analysis,
    ranking: &Ranking,
    ranked: &Ranked,
    entry: &NewEntry,
) -> Explanation {
    let (parts, point) = (ranked.parts, ranked.point);
    let mut explanation = match &query.by {
        By::Lexical(query) => lexical(scope, scope.why(query, point), point, entry),
        By::Cosine(_) => cosine(Some(parts.cosine)),
        By::Dense(query, _) | By::Fused(query, _) if ranking.ranker == Ranker::Lexical => {
            lexical(scope, scope.why(query, point), point, entry)
        }
        By::Dense(..) => match parts.near {
            Some(near) => nearest(Some(near)),
            None => cosine(Some(0.0)),
        },
        By::Fused(query, _) => fused(scope, query, ranking, ranked, entry),
        By::Hybrid(query, _) => {
            let mut why = scope.why_alone(query, point);
            scale_to(&mut why, parts.share);
            let mut explanation = vec![
                ("cosine", parts.cosine.into()),
                ("bm25", parts.share.into()),
            ];
            explanation.extend(terms(scope, why, point, entry));
            explanation
        }
    };
    explanation.push(("decay", parts.decay.into()));
    if parts.asks < 1.0 {
        explanation.push(("asks", parts.asks.into()));
    }
    explanation.push(("score", ranked.score.into()));
    explanation
}

/// The scores of the passage, of the neighbours and of the day add up to the score of the hit; if they add up to more
/// than 1, the score is 1.
fn lexical(scope: &Scope, why: Why, point: u32, entry: &NewEntry) -> Explanation {
    let beside = why.neighbors.iter();
    let beside = beside.map(|neighbor| (neighbor.id, neighbor.place, neighbor.score));
    let mut explanation = vec![
        ("own", why.own.into()),
        ("neighbors", neighbors(scope, beside)),
        ("day", why.day.into()),
        ("speaker", why.speaker.into()),
    ];
    explanation.extend(terms(scope, why, point, entry));
    explanation
}

/// The terms that the query shares with the entry's best passage, the language in which its text was read, and the
/// number of the passage among the passages of the entry.
fn terms(scope: &Scope, why: Why, point: u32, entry: &NewEntry) -> Explanation {
    let fields = fields(entry, scope.reading.languages);
    let passage = fields.passages().nth(why.passage as usize);
    let text = passage.map_or_else(Vec::new, |passage| fields.text_of(passage));
    let places = [
        ("text", &text),
        ("name", &fields.name),
        ("date", &fields.date),
    ];
    let count = |hash: u64, terms: &[u64]| {
        let count = terms.iter().filter(|&&term| term == hash).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    };
    let term = |part: Part| {
        let counts = places.map(|(field, terms)| (field, count(part.hash, terms)));
        let counts = counts.into_iter().filter(|&(_, count)| count > 0);
        let counts = counts.map(|(field, count)| (field, count.into()));
        let mut term = vec![("term", Explained::Text(part.term))];
        if let Some(word) = part.instead_of {
            term.push(("instead_of", Explained::Text(word)));
        }
        term.push(("tf", part.tf.into()));
        term.push(("idf", part.idf.into()));
        term.push(("score", part.score.into()));
        term.push(("fields", Explained::Parts(counts.collect())));
        term
    };
    let language = scope.lexical.language(point).code();
    vec![
        (
            "terms",
            Explained::List(why.parts.into_iter().map(term).collect()),
        ),
        ("language", Explained::Text(language.to_owned())),
        ("passage", why.passage.into()),
        ("passages", why.passages.into()),
    ]
}

/// Scales the shares of the terms of an entry without neighbours, so that they add up to `share`.
fn scale_to(why: &mut Why, share: f64) {
    let scale = if why.own > 0.0 { share / why.own } else { 0.0 };
    for part in &mut why.parts {
        part.score *= scale;
    }
}

fn cosine(cosine: Option<f64>) -> Explanation {
    vec![
        ("cosine", cosine.into()),
        ("distance", cosine.map(|cosine| 1.0 - cosine).into()),
    ]
}

/// The vector of the entry that is nearest to the query. An entry may have no vector yet.
fn nearest(near: Option<Near>) -> Explanation {
    let mut explanation = cosine(near.map(|near| near.cosine));
    explanation.push(("vector", near.map(|near| near.passage).into()));
    explanation.push(("vectors", near.map(|near| near.passages).into()));
    explanation
}

/// Both sides of a fused score: terms and vectors.
fn fused(
    scope: &Scope,
    query: &Query,
    ranking: &Ranking,
    ranked: &Ranked,
    entry: &NewEntry,
) -> Explanation {
    let (parts, point) = (ranked.parts, ranked.point);
    let why = scope.why(query, point);
    let beside = why.neighbors.iter().map(|neighbor| neighbor.score);
    let words = (why.own + beside.sum::<f64>() + why.day).min(1.0);
    let mut explanation = nearest(parts.near);
    explanation.push(("lexical", words.into()));
    explanation.extend(terms(scope, why, point, entry));
    let Some(sides) = &ranking.sides else {
        explanation.push(("ranks", both(parts.ranks)));
        return explanation;
    };
    let near = parts.near.map(|near| sides.spreads[1].z(near.cosine));
    let z = [
        sides.spreads[0].z(sides.lexical[point as usize]),
        near.unwrap_or(0.0),
    ];
    explanation.push(("z", both(z)));
    explanation.push(("weights", both(sides.weights)));
    explanation.push(("own", sides.mix[point as usize].into()));
    let beside = sides.beside(scope, point).into_iter();
    explanation.push(("neighbors", neighbors(scope, beside)));
    explanation
}

/// The values of both sides, terms first.
fn both<T: Into<Explained>>([lexical, dense]: [T; 2]) -> Explained {
    Explained::Parts(vec![("lexical", lexical.into()), ("dense", dense.into())])
}

/// Neighbours of a hit with their ids, their distances from it in the conversation, and their scores. Neighbours before
/// it come first. The id is 0 for a message in context, which has no entry.
fn neighbors(scope: &Scope, beside: impl Iterator<Item = (u32, i64, f64)>) -> Explained {
    let neighbor = |(point, place, score): (u32, i64, f64)| {
        vec![
            (
                "entry_id",
                Explained::Count(scope.id(point).max(EntryId(0)).0),
            ),
            ("place", Explained::Count(place)),
            ("score", score.into()),
        ]
    };
    Explained::List(beside.map(neighbor).collect())
}
