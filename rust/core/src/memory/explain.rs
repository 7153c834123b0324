//! Explanations of scores.

use crate::analyse::Language;
use crate::bm25::{Part, Query, Why};
use crate::id::EntryId;
use crate::index::Near;
use crate::memory::catch_up::fields;
use crate::memory::options::Ranker;
use crate::memory::rank::{Analysis, By, Ranked, Ranking};
use crate::memory::session_index::Scope;
use crate::sqlite::NewEntry;

/// The parts of a score.
#[derive(Clone, Debug, PartialEq)]
pub enum Explanation {
    /// The score by terms: its terms, its neighbours and its day.
    Lexical(LexicalExplanation),
    /// The cosine distance that gave the score.
    Cosine {
        /// 0 for the same direction, 1 for nothing in common.
        distance: f64,
    },
    /// Both sides of the documented hybrid.
    Hybrid {
        /// The cosine of the hashed term frequencies; 0 where the cosine side did not find the entry.
        cosine: f64,
        /// The entry's share of the best BM25 score of the query; 0 where BM25 did not find the entry.
        share: f64,
        /// The terms that gave this share.
        lexical: LexicalExplanation,
    },
    /// The vector of the entry that is nearest to the query.
    Dense(Near),
    /// Both sides of the ranker `Fused`: terms and vectors.
    Fused(FusedExplanation),
}

/// The parts of a fused score.
#[derive(Clone, Debug, PartialEq)]
pub struct FusedExplanation {
    /// The score by terms.
    pub words: f64,
    /// The parts of that score.
    pub lexical: LexicalExplanation,
    /// The nearest vector of the entry; None if it has no vector yet.
    pub near: Option<Near>,
    /// The fusion of both scores.
    pub how: FusedBy,
}

/// A fusion of two scores.
#[derive(Clone, Debug, PartialEq)]
pub enum FusedBy {
    /// By z-scores.
    ZScore {
        /// The z-score of each side over the entries of the session, terms first; 0 without a vector.
        z: [f64; 2],
        /// The weights of the sides.
        weights: [f64; 2],
        /// The weighted sum of both scores of the entry itself.
        own: f64,
        /// The scores that the vectors of neighbours add or subtract.
        neighbors: Vec<ExplainedNeighbor>,
    },
    /// By reciprocal ranks: the rank of the entry by terms and by vectors, from 1.
    Ranks([Option<u32>; 2]),
}

/// The parts of a lexical score. The scores of the passage, of the neighbours and of the day add up to the score of the
/// hit; if they add up to more than 1, the score is 1.
#[derive(Clone, Debug, PartialEq)]
pub struct LexicalExplanation {
    /// The terms that the query shares with the entry's best passage.
    pub terms: Vec<ExplainedTerm>,
    /// The number of the best passage, from 0.
    pub passage: u32,
    /// The number of passages of the entry.
    pub passages: u32,
    /// The score of the best passage.
    pub own: f64,
    /// The neighbours of the entry that contain a term of the query. Neighbours before it come first.
    pub neighbors: Vec<ExplainedNeighbor>,
    /// The score that other entries of the same day add.
    pub day: f64,
    /// The language in which the text was read.
    pub language: Language,
    /// The factor on all scores but the day's. It is above 1 if the query names the speaker of the entry.
    pub speaker: f64,
}

/// A term that the query shares with a passage.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedTerm {
    /// Its score.
    pub part: Part,
    /// The fields that contain it, each with the number of occurrences.
    pub fields: Vec<(&'static str, u32)>,
}

/// A neighbour of a hit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExplainedNeighbor {
    /// Its id; 0 for a message in context, which has no entry.
    pub id: EntryId,
    /// Its distance from the hit in the conversation: -4 to -1 before it, 1 to 4 after it.
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
    match &query.by {
        By::Lexical(query) => {
            let why = scope.why(query, ranked.point);
            Explanation::Lexical(explain_lexical(scope, why, ranked.point, entry))
        }
        By::Cosine(_) => Explanation::Cosine {
            distance: 1.0 - ranked.parts.cosine,
        },
        By::Dense(query, _) | By::Fused(query, _) if ranking.ranker == Ranker::Lexical => {
            let why = scope.why(query, ranked.point);
            Explanation::Lexical(explain_lexical(scope, why, ranked.point, entry))
        }
        By::Dense(..) => ranked
            .parts
            .near
            .map_or(Explanation::Cosine { distance: 1.0 }, Explanation::Dense),
        By::Fused(query, _) => {
            Explanation::Fused(explain_fused(scope, query, ranking, ranked, entry))
        }
        By::Hybrid(query, _) => Explanation::Hybrid {
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

/// The id of an entry; 0 for a message in context.
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

/// Scales the explanation of an entry without neighbours: its terms add up to `share` afterwards.
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
