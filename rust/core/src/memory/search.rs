//! A search: rank in memory, fetch from the same state of the database.

use rusqlite::Transaction;

use crate::bm25::{Part, Query};
use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::options::SearchOptions;
use crate::memory::rank::{Analysis, Ranked};
use crate::memory::scope::{Scope, fields};
use crate::memory::store::Store;
use crate::sqlite::{NewEntry, SessionRow, StoredEntry, entry, session};

/// An entry that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The entry.
    pub stored: StoredEntry,
    /// 0..1, higher is better; what it means is the ranker's.
    pub score: f64,
    /// What its age left of the score: 1 for all of it.
    pub decay: f64,
    /// How it came about, where that was asked for.
    pub explanation: Option<Explanation>,
}

/// How a score came about.
#[derive(Clone, Debug, PartialEq)]
pub enum Explanation {
    /// What each term of the query adds, and what stands beside the entry.
    Lexical(LexicalExplanation),
    /// The cosine distance that the score was made of.
    Cosine {
        /// 0 for the same direction, 1 for nothing in common.
        distance: f64,
    },
    /// What either side of the documented hybrid adds.
    Hybrid {
        /// The cosine of the hashed term frequencies; 0 where that side did not find the entry.
        cosine: f64,
        /// The part of the query's best BM25 that the entry has; 0 likewise.
        share: f64,
        /// The terms that this share comes from.
        lexical: LexicalExplanation,
    },
}

/// How a lexical score came about. The scores are shares of the hit's: those of the terms and of the
/// neighbours sum up to it, or to more where it is cut at 1.
#[derive(Clone, Debug, PartialEq)]
pub struct LexicalExplanation {
    /// The terms that the entry's best passage has in common with the query.
    pub terms: Vec<ExplainedTerm>,
    /// The number of that passage, from 0.
    pub passage: u32,
    /// How many passages the entry has.
    pub passages: u32,
    /// What that passage adds.
    pub own: f64,
    /// What stands beside the entry and has a term of the query: those before it first.
    pub neighbors: Vec<ExplainedNeighbor>,
}

/// A term that a passage has in common with the query.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedTerm {
    /// What it adds.
    pub part: Part,
    /// In which fields it stands, and how often.
    pub fields: Vec<(&'static str, u32)>,
}

/// An entry beside one that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExplainedNeighbor {
    /// Its id.
    pub id: EntryId,
    /// Where it stands: -2, -1, 1 or 2.
    pub place: i64,
    /// What it adds.
    pub score: f64,
}

impl Store {
    /// The entries of the session most like `query`: the best first, of equal scores the newer, then by id.
    ///
    /// Entries that have nothing in common with the query are left out.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidEntry`] where the query or an option is out of bounds; otherwise those of a read.
    pub fn search(
        &self,
        session: &SessionId,
        query: &str,
        options: &SearchOptions,
    ) -> Result<Vec<Hit>> {
        let limit = options.check(query)?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let query = Analysis::of(query, options.ranker, self.hash_rule());
        let hits = self.with_scope(
            session,
            |scope| scope.rank(&query, limit, options),
            |transaction, scope, row, ranked| {
                let hit = |ranked: Ranked| {
                    let stored = fetch(transaction, row, ranked.id)?;
                    let explain = || explain(scope, &query, ranked, &stored.entry);
                    Ok(Hit {
                        explanation: options.explain.then(explain),
                        score: ranked.score,
                        decay: ranked.parts.decay,
                        stored,
                    })
                };
                ranked.into_iter().map(hit).collect::<Result<Vec<_>>>()
            },
        )?;
        Ok(hits.unwrap_or_default())
    }

    /// Runs `rank` on the session's indexes, then `fetch` on the state of the database that they are of.
    ///
    /// Ranking holds no lock of the database, so that searches run side by side. Afterwards the session's
    /// revision says whether another writer, in this process or elsewhere, was faster; then the scope
    /// catches up, and the search starts over. None for a session that does not exist.
    ///
    /// A row that was damaged after it was indexed is found out when it is fetched: the scope is then made
    /// anew, without it.
    pub(super) fn with_scope<R, T>(
        &self,
        session: &SessionId,
        rank: impl Fn(&Scope) -> R,
        fetch: impl Fn(&Transaction<'_>, &Scope, &SessionRow, R) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut is_anew = false;
        loop {
            let known = self.scopes.get(session);
            let guard = known.as_ref().map(|scope| scope.read());
            let ranked = guard.as_ref().map(|scope| rank(scope));
            let outcome = self.database.read(|transaction| {
                let Some(row) = session::find(transaction, session)? else {
                    return Ok(Outcome::NoSession);
                };
                match (&guard, ranked) {
                    (Some(scope), Some(ranked)) if scope.is_of(&row) => {
                        fetch(transaction, scope, &row, ranked).map(Outcome::Done)
                    }
                    _ => Ok(Outcome::Stale),
                }
            });
            match outcome {
                Err(error) if error.kind() == ErrorKind::StoreCorrupt && !is_anew => {
                    drop(guard);
                    self.scopes.remove(session);
                    is_anew = true;
                }
                Err(error) => return Err(error),
                Ok(Outcome::Done(value)) => return Ok(Some(value)),
                Ok(Outcome::NoSession) => return Ok(None),
                Ok(Outcome::Stale) => {
                    drop(guard);
                    self.catch_up(session)?;
                }
            }
        }
    }

    fn catch_up(&self, session: &SessionId) -> Result<()> {
        let scope = self.scopes.get_or_create(session);
        let mut scope = scope.write();
        self.database
            .read(|transaction| match session::find(transaction, session)? {
                Some(row) => scope.catch_up(transaction, &row),
                None => Ok(()),
            })
    }
}

enum Outcome<T> {
    Done(T),
    NoSession,
    Stale,
}

fn fetch(transaction: &Transaction<'_>, row: &SessionRow, id: EntryId) -> Result<StoredEntry> {
    match entry::get(transaction, id)? {
        Some(stored) if stored.session == row.id => Ok(stored),
        _ => {
            let message = format!("entry {id} of session {:?} is missing", row.name);
            Err(Error::new(ErrorKind::StoreCorrupt, message)
                .with("table", "entry")
                .with("id", id.0))
        }
    }
}

fn explain(scope: &Scope, query: &Analysis, ranked: Ranked, entry: &NewEntry) -> Explanation {
    match query {
        Analysis::Lexical(query) => {
            Explanation::Lexical(explain_lexical(scope, query, ranked.point, entry))
        }
        Analysis::Cosine(_) => Explanation::Cosine {
            distance: 1.0 - ranked.parts.cosine,
        },
        Analysis::Hybrid(query, _) => Explanation::Hybrid {
            cosine: ranked.parts.cosine,
            share: ranked.parts.share,
            lexical: by_itself(
                explain_lexical(scope, query, ranked.point, entry),
                ranked.parts.share,
            ),
        },
    }
}

/// The explanation of an entry without what stands beside it: its terms add up to `share`.
fn by_itself(mut lexical: LexicalExplanation, share: f64) -> LexicalExplanation {
    let scale = if lexical.own > 0.0 {
        share / lexical.own
    } else {
        0.0
    };
    lexical.neighbors.clear();
    lexical.own = share;
    for term in &mut lexical.terms {
        term.part.score *= scale;
    }
    lexical
}

fn explain_lexical(
    scope: &Scope,
    query: &Query,
    point: u32,
    entry: &NewEntry,
) -> LexicalExplanation {
    let (why, fields) = (scope.why(query, point), fields(entry));
    let passage = fields.passages().nth(why.passage as usize);
    let text = passage.map_or(&[][..], |passage| &fields.text[passage]);
    let places = [
        ("text", text),
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
        neighbors: why
            .neighbors
            .iter()
            .map(|neighbor| ExplainedNeighbor {
                id: scope.id(neighbor.id),
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
