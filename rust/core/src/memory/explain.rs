//! Explanations of scores.

use crate::analyse::Language;
use crate::bm25::{Part, Query, Why};
use crate::id::EntryId;
use crate::index::Near;
use crate::memory::analysed::fields;
use crate::memory::options::Ranker;
use crate::memory::rank::{Analysis, Ranked, Ranking};
use crate::memory::scope::Scope;
use crate::sqlite::NewEntry;

/// The parts of a score.
#[derive(Clone, Debug, PartialEq)]
pub enum Explanation {
    /// The scores of terms, and of entries beside the hit.
    Lexical(LexicalExplanation),
    /// The cosine distance that the score was made of.
    Cosine {
        /// 0 for the same direction, 1 for nothing in common.
        distance: f64,
    },
    /// The two sides of the documented hybrid.
    Hybrid {
        /// The cosine of the hashed term frequencies; 0 where that side did not find the entry.
        cosine: f64,
        /// The part of the query's best BM25 that the entry has; 0 likewise.
        share: f64,
        /// The terms that this share comes from.
        lexical: LexicalExplanation,
    },
    /// The nearest vector of the entry.
    Dense(Near),
    /// The two sides of `fused`: terms and vectors.
    Fused(FusedExplanation),
}

/// The parts of a fused score.
#[derive(Clone, Debug, PartialEq)]
pub struct FusedExplanation {
    /// The score by `lexical`.
    pub words: f64,
    /// The parts of that score.
    pub lexical: LexicalExplanation,
    /// The nearest vector of the entry; None if it has no vector yet.
    pub near: Option<Near>,
    /// The way in which both were made one score.
    pub how: FusedBy,
}

/// The way in which two sides became one score.
#[derive(Clone, Debug, PartialEq)]
pub enum FusedBy {
    /// By z-scores.
    ZScore {
        /// The distance of each side from the mean of the session, in standard deviations, terms first; 0 without a
        /// vector.
        z: [f64; 2],
        /// The weights of the sides.
        weights: [f64; 2],
        /// The weighted sum of both sides.
        own: f64,
        /// The scores that the vectors of neighbours add or take.
        neighbors: Vec<ExplainedNeighbor>,
    },
    /// By reciprocal ranks.
    Ranks([Option<u32>; 2]),
}

/// The parts of a lexical score. The scores of terms, of neighbours and of the day sum up to the score of the hit; where
/// that is cut at 1, they sum up to more.
#[derive(Clone, Debug, PartialEq)]
pub struct LexicalExplanation {
    /// The terms that the entry's best passage has in common with the query.
    pub terms: Vec<ExplainedTerm>,
    /// The number of that passage, from 0.
    pub passage: u32,
    /// The number of passages of the entry.
    pub passages: u32,
    /// The score of that passage.
    pub own: f64,
    /// The entries beside the hit that have a term of the query: those before it first.
    pub neighbors: Vec<ExplainedNeighbor>,
    /// The score that entries of the same day add.
    pub day: f64,
    /// The language that the text was read in.
    pub language: Language,
    /// The factor on all of these but the day: more than 1 if the query names the speaker of the entry.
    pub speaker: f64,
}

/// A term that a passage has in common with the query.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedTerm {
    /// Its score.
    pub part: Part,
    /// In which fields it stands, and how often.
    pub fields: Vec<(&'static str, u32)>,
}

/// An entry beside one that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExplainedNeighbor {
    /// Its id; 0 for a message that is no entry yet.
    pub id: EntryId,
    /// Its distance from the hit: -4 to -1, or 1 to 4.
    pub place: i64,
    /// Its score.
    pub score: f64,
}

pub(super) fn explain(
    scope: &Scope,
    query: &Analysis,
    ranking: &Ranking,
    ranked: &Ranked,
    entry: &NewEntry,
) -> Explanation {
    match query {
        Analysis::Lexical(query) => {
            let why = scope.why(query, ranked.point);
            Explanation::Lexical(explain_lexical(scope, why, ranked.point, entry))
        }
        Analysis::Cosine(_) => Explanation::Cosine {
            distance: 1.0 - ranked.parts.cosine,
        },
        Analysis::Dense(query, _) | Analysis::Fused(query, _)
            if ranking.ranker == Ranker::Lexical =>
        {
            let why = scope.why(query, ranked.point);
            Explanation::Lexical(explain_lexical(scope, why, ranked.point, entry))
        }
        Analysis::Dense(..) => ranked
            .parts
            .near
            .map_or(Explanation::Cosine { distance: 1.0 }, Explanation::Dense),
        Analysis::Fused(query, _) => {
            Explanation::Fused(explain_fused(scope, query, ranking, ranked, entry))
        }
        Analysis::Hybrid(query, _) => Explanation::Hybrid {
            cosine: ranked.parts.cosine,
            share: ranked.parts.share,
            lexical: by_itself(
                explain_lexical(
                    scope,
                    scope.why_alone(query, ranked.point),
                    ranked.point,
                    entry,
                ),
                ranked.parts.share,
            ),
        },
    }
}

/// The id of an entry; 0 for what is none.
fn entry_id(id: EntryId) -> EntryId {
    id.max(EntryId(0))
}

fn explain_fused(
    scope: &Scope,
    query: &Query,
    ranking: &Ranking,
    ranked: &Ranked,
    entry: &NewEntry,
) -> FusedExplanation {
    let (parts, point) = (ranked.parts, ranked.point);
    let lexical = explain_lexical(scope, scope.why(query, point), point, entry);
    let beside = lexical.neighbors.iter().map(|neighbor| neighbor.score);
    let words = (lexical.own + beside.sum::<f64>() + lexical.day).min(1.0);
    let how = match &ranking.sides {
        None => FusedBy::Ranks(parts.ranks),
        Some(sides) => FusedBy::ZScore {
            z: [
                sides.spreads[0].z(sides.lexical[point as usize]),
                parts
                    .near
                    .map_or(0.0, |near| sides.spreads[1].z(near.cosine)),
            ],
            weights: sides.weights,
            own: sides.mix[point as usize],
            neighbors: sides
                .beside(scope, point)
                .into_iter()
                .map(|(neighbor, place, score)| ExplainedNeighbor {
                    id: entry_id(scope.id(neighbor)),
                    place,
                    score,
                })
                .collect(),
        },
    };
    FusedExplanation {
        words,
        lexical,
        near: parts.near,
        how,
    }
}

/// The explanation of an entry by itself, scaled: its terms add up to `share`.
fn by_itself(mut lexical: LexicalExplanation, share: f64) -> LexicalExplanation {
    let scale = if lexical.own > 0.0 {
        share / lexical.own
    } else {
        0.0
    };
    lexical.own = share;
    for term in &mut lexical.terms {
        term.part.score *= scale;
    }
    lexical
}

fn explain_lexical(scope: &Scope, why: Why, point: u32, entry: &NewEntry) -> LexicalExplanation {
    let fields = fields(entry, scope.reading.languages);
    let passage = fields.passages().nth(why.passage as usize);
    let text = passage.map_or_else(Vec::new, |passage| fields.text_of(passage));
    let places = [
        ("text", &text),
        ("name", &fields.name),
        ("date", &fields.date),
    ];
    let found_in = |hash: u64| {
        let count = |terms: &[u64]| terms.iter().filter(|&&term| term == hash).count();
        places
            .iter()
            .map(|&(field, terms)| (field, u32::try_from(count(terms)).unwrap_or(u32::MAX)))
            .filter(|&(_, count)| count > 0)
            .collect()
    };
    LexicalExplanation {
        passage: why.passage,
        passages: why.passages,
        own: why.own,
        day: why.day,
        language: scope.lexical.language(point),
        speaker: why.speaker,
        neighbors: why
            .neighbors
            .iter()
            .map(|neighbor| ExplainedNeighbor {
                id: entry_id(scope.id(neighbor.id)),
                place: neighbor.place,
                score: neighbor.score,
            })
            .collect(),
        terms: why
            .parts
            .into_iter()
            .map(|part| ExplainedTerm {
                fields: found_in(part.hash),
                part,
            })
            .collect(),
    }
}
