//! A search: ranks in memory, and then reads the hits from the same state of the database.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::analyse::Asked;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::json::{write_float, write_string};
use crate::memory::explain::{Explanation, explain};
use crate::memory::index_map::HeldScope;
use crate::memory::options::{QueryVector, Ranker, SearchOptions};
use crate::memory::rank::Analysis;
use crate::memory::session_index::{Repeated, RequiredIndexes, Scope};
use crate::memory::store::Store;
use crate::sqlite::{
    EmbedderRow, SessionRow, StoredEntry, Transaction, entry, fact, repair, session, vectors,
};

/// A hit of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The entry. A message in the context of its session has no entry: its id is 0 then.
    pub stored: StoredEntry,
    /// The name of the hit's session, where several sessions were searched.
    pub session: Option<String>,
    /// The score, 0 to 1. Higher is better. Each ranker has its own scale.
    pub score: f64,
    /// How often and when the text was said, if it was said more than once.
    pub repeated: Option<Repeated>,
    /// The parts of the score, if the search asked for them.
    pub explanation: Option<Explanation>,
}

impl Hit {
    /// The times that an answer shows, in milliseconds since 1970: when it was said; if it was said more than once,
    /// the first and the last time too.
    pub fn times(&self) -> impl Iterator<Item = i64> + use<> {
        let ends = self.repeated.map(|said| [said.first, said.last]);
        std::iter::once(self.stored.entry.created_at).chain(ends.into_iter().flatten())
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best first.
    pub hits: Vec<Hit>,
    /// The ranker that scored the hits: `Lexical` if the search asked for `Dense` or `Fused`, and there are no vectors
    /// to compare with.
    pub ranker: Ranker,
    /// The number of entries of the session without a vector, if the ranker uses vectors.
    pub lacking: usize,
    /// The terms of the query, so that they can be shown in the hits.
    pub asked: Asked,
}

/// The result of a search, with the transaction that it read.
pub(super) struct Looked<'a, 'b> {
    pub(super) transaction: &'a Transaction<'b>,
    /// The key of the session.
    pub(super) session: i64,
    /// The number of the session's entries with wrong checksums.
    pub(super) damaged: usize,
    pub(super) found: Found,
}

impl Store {
    /// The entries of the session that are most similar to `query`, best first. Ties go to the newer entry, then to the
    /// lower id.
    ///
    /// Entries with nothing in common with the query are left out.
    ///
    /// `vector` is that of the query by the store's embedder, for `Dense` and `Fused`. Without a vector, or with a vector
    /// of another embedder, the score is by terms.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidEntry`] where the query or an option is out of bounds, or the length of the vector differs from
    /// the store's vectors; otherwise the errors of a read.
    pub fn find(
        &self,
        session: &SessionId,
        query: &str,
        vector: Option<&QueryVector>,
        options: &SearchOptions,
    ) -> Result<Found> {
        let found = self.look(session, query, vector, options, |looked| Ok(looked.found))?;
        Ok(found.unwrap_or_else(|| Found {
            hits: Vec::new(),
            ranker: options.ranker,
            lacking: 0,
            asked: Asked::of(query),
        }))
    }

    /// Searches, and then calls `then` with the result. None for an unknown session, and for a limit of 0.
    pub(super) fn look<T>(
        &self,
        session: &SessionId,
        query: &str,
        vector: Option<&QueryVector>,
        options: &SearchOptions,
        then: impl Fn(Looked<'_, '_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let options = &options.of_filter();
        let limit = options.check(query)?;
        if limit == 0 {
            return Ok(None);
        }
        let vector = match vector {
            Some(vector) if options.ranker.is_dense() => self.comparable(vector)?,
            _ => None,
        };
        let analysis = Analysis::of(query, vector, options.ranker, self.hash_rule());
        self.with_scope(
            session,
            analysis.embedder(),
            options.required_indexes(),
            |scope| {
                let admits = scope.admitted(&options.filter, options.now);
                scope.rank(&analysis, limit, options, &admits)
            },
            |transaction, scope, row, ranking| {
                let mut hits = Vec::with_capacity(ranking.best.len());
                let mut entries = entry::Reader::of(transaction)?;
                for ranked in &ranking.best {
                    let stored = fetch(&mut entries, (row.id, &row.name), ranked.id)?;
                    let explain = || explain(scope, &analysis, &ranking, ranked, &stored.entry);
                    hits.push(Hit {
                        explanation: options.explain.then(explain),
                        score: ranked.score,
                        repeated: ranked.repeated,
                        stored,
                        session: None,
                    });
                }
                drop(entries);
                then(Looked {
                    transaction,
                    session: row.id,
                    damaged: scope.damaged().len(),
                    found: Found {
                        hits,
                        ranker: ranking.ranker,
                        lacking: ranking.lacking,
                        asked: analysis.asked(query, scope.reading.languages),
                    },
                })
            },
        )
    }

    /// The vector, if the store's vectors are of the same embedder.
    pub(super) fn comparable<'a>(
        &self,
        vector: &'a QueryVector,
    ) -> Result<Option<&'a QueryVector>> {
        let embedder = self.embedder()?.filter(|row| row.id == vector.embedder);
        match embedder {
            Some(row) if row.dimension != vector.numbers.len() => {
                let message = format!(
                    "a query's vector must have {} numbers, as those of embedder {:?}, got {}",
                    row.dimension,
                    row.name,
                    vector.numbers.len()
                );
                Err(Error::new(ErrorKind::InvalidEntry, message))
            }
            Some(_) => Ok(Some(vector)),
            None => Ok(None),
        }
    }

    /// Runs `rank` on the session's indexes, and then `fetch` on the same state of the database.
    ///
    /// Ranking holds no lock of the database, so searches run side by side. After it, the session's
    /// revision shows whether a writer has changed the session in the meantime. Then the scope
    /// catches up, and the search starts again. The same happens where the scope lacks a needed index. With an
    /// `embedder`, its vectors must be of the same state too. None for a session that does not exist.
    ///
    /// A row that was damaged after it was indexed is noticed when it is fetched. Then the scope is built
    /// again without it.
    pub(super) fn with_scope<R, T>(
        &self,
        session: &SessionId,
        embedder: Option<i64>,
        needs: RequiredIndexes,
        rank: impl Fn(&Scope) -> R,
        fetch: impl Fn(&Transaction<'_>, &Scope, &SessionRow, R) -> Result<T>,
    ) -> Result<Option<T>> {
        let (mut is_anew, mut is_worth_keeping, mut grew) = (false, false, false);
        let mut known = self.scopes.get(session);
        loop {
            let locked = known.as_ref().map(|scope| scope.read());
            let able = locked.as_ref().filter(|scope| scope.has(needs));
            let ranked = able.map(|scope| rank(scope));
            let outcome = self.database.read(|transaction| {
                let Some(row) = session::seen(transaction, session)? else {
                    return Ok(Outcome::NoSession);
                };
                let revision = || vectors::revision(transaction, row.id);
                let revision = embedder.map(|_| revision()).transpose()?;
                let has_vectors = |scope: &Scope| {
                    let both = embedder.zip(revision);
                    both.is_none_or(|(embedder, revision)| scope.has_vectors(embedder, revision))
                };
                match (&locked, ranked) {
                    (Some(scope), Some(ranked)) if scope.is_of(&row) && has_vectors(scope) => {
                        scope.touch();
                        let found = fetch(transaction, scope, &row, ranked)?;
                        Ok(Outcome::Done(found, row))
                    }
                    _ => Ok(Outcome::Stale),
                }
            });
            match outcome {
                Err(error) if error.kind() == ErrorKind::StoreCorrupt && !is_anew => {
                    drop(locked);
                    self.scopes.remove(session);
                    (known, is_anew) = (None, true);
                }
                Err(error) => return Err(error),
                Ok(Outcome::Done(value, row)) => {
                    drop(locked);
                    if is_worth_keeping {
                        self.write_cache(session);
                    }
                    if let Some(scope) = known.filter(|_| grew) {
                        let bytes = scope.read().bytes();
                        scope.measure(bytes);
                        drop(scope);
                        self.make_room(&row.namespace);
                    }
                    return Ok(Some(value));
                }
                Ok(Outcome::NoSession) => return Ok(None),
                Ok(Outcome::Stale) => {
                    drop(locked);
                    // Other threads may remove the scope from the map. This search keeps it until it is done.
                    let scope = self.scopes.get_or_create(session);
                    is_worth_keeping |=
                        self.bring_up(&scope, session, embedder, needs, !is_anew)?;
                    (known, grew) = (Some(scope), true);
                }
            }
        }
    }

    /// Brings the session's scope to the state of the database. True if a cache of it is worth writing.
    pub(super) fn catch_up(
        &self,
        session: &SessionId,
        embedder: Option<i64>,
        needs: RequiredIndexes,
        from_cache: bool,
    ) -> Result<bool> {
        let scope = self.scopes.get_or_create(session);
        self.bring_up(&scope, session, embedder, needs, from_cache)
    }

    fn bring_up(
        &self,
        scope: &HeldScope,
        session: &SessionId,
        embedder: Option<i64>,
        needs: RequiredIndexes,
        from_cache: bool,
    ) -> Result<bool> {
        let mut scope = scope.write();
        self.database.read(|transaction| {
            let Some(row) = session::find(transaction, session)? else {
                return Ok(false);
            };
            let cached = |needs| self.kept(transaction, &row, needs, from_cache);
            let is_worth_keeping = scope.catch_up(transaction, &row, needs, cached)?;
            let Some(asked) = embedder else {
                return Ok(is_worth_keeping);
            };
            scope.catch_up_vectors(transaction, &asked_embedder(transaction, asked)?)?;
            Ok(is_worth_keeping)
        })
    }
}

enum Outcome<T> {
    /// The result, and the row of the session.
    Done(T, Arc<SessionRow>),
    NoSession,
    Stale,
}

/// The entry `id` of the session with that key and name.
pub(super) fn fetch(
    entries: &mut entry::Reader<'_>,
    (key, name): (i64, &str),
    id: EntryId,
) -> Result<StoredEntry> {
    match entries.get(id)? {
        Some(stored) if stored.session == key => Ok(stored),
        _ => {
            let message = format!("entry {id} of session {name:?} is missing");
            Err(Error::new(ErrorKind::StoreCorrupt, message)
                .with("table", "entry")
                .with("id", id.0))
        }
    }
}

/// The store's embedder, which must still be the one that the search began with.
pub(super) fn asked_embedder(transaction: &Transaction<'_>, asked: i64) -> Result<EmbedderRow> {
    let current = vectors::embedder(transaction)?;
    current.filter(|row| row.id == asked).ok_or_else(|| {
        let message =
            "another embedder took the place of this one meanwhile: open the store with it";
        Error::new(ErrorKind::StoreConflict, message)
    })
}

// The answer of the tool `memory_search`: the best entries of a session as JSON, in one step with all that a session
// compares before it gives the answer to a model.

/// What a search found, and the state of the store at that moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The hits.
    pub found: Found,
    /// The number of entries with wrong checksums, which are not found: those that this search met, and those that a
    /// repair set aside before.
    pub damaged: usize,
    /// The revision of the store's facts; see [`Store::facts_revision`].
    pub facts: Option<String>,
}

impl Store {
    /// As [`find`](Self::find), with the state of the store that the hits are of.
    ///
    /// # Errors
    ///
    /// The errors of [`find`](Self::find).
    pub fn answer(
        &self,
        session: &SessionId,
        query: &str,
        options: &SearchOptions,
    ) -> Result<Answer> {
        let found = self.look(session, query, None, options, |looked| {
            let aside = repair::count_set_aside(looked.transaction, looked.session)?;
            Ok(Answer {
                damaged: looked.damaged + aside,
                facts: fact::seen_revision(looked.transaction)?,
                found: looked.found,
            })
        })?;
        match found {
            Some(found) => Ok(found),
            None => Ok(Answer {
                found: Found {
                    hits: Vec::new(),
                    ranker: options.ranker,
                    lacking: 0,
                    asked: Asked::of(query),
                },
                damaged: 0,
                facts: self.facts_revision()?,
            }),
        }
    }
}

/// The hits as a JSON array in one line, as `siltstone.tools.memory` writes them. `times` has the [`Hit::times`] of all
/// hits as text.
#[must_use]
pub fn as_json(hits: &[Hit], times: Vec<String>) -> String {
    const AROUND: usize = 160; // bytes beside the text, about
    let mut times = times.into_iter();
    let room = hits.iter().map(|hit| hit.stored.entry.text.len() + AROUND);
    let mut text = String::with_capacity(room.sum::<usize>() + 2);
    text.push('[');
    for hit in hits {
        if text.len() > 1 {
            text.push_str(", ");
        }
        let entry = &hit.stored.entry;
        text.push_str("{\"content\": ");
        write_string(&entry.text, &mut text);
        text.push_str(", \"score\": ");
        write_float(hit.score, &mut text);
        let (start, end) = (entry.start, entry.end);
        // Writing into a string does not fail.
        let _ = write!(
            text,
            ", \"source_range\": {{\"start\": {start}, \"end\": {end}}}"
        );
        let mut put = |name: &str| {
            let _ = write!(text, ", \"{name}\": ");
            write_string(&times.next().unwrap_or_default(), &mut text);
        };
        put("said");
        if let Some(repeated) = hit.repeated {
            put("first");
            put("last");
            let _ = write!(text, ", \"times\": {}", repeated.times);
        }
        text.push('}');
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::handle::Handle;
    use crate::sqlite::{NewEntry, NewFact};

    fn entry(number: i64) -> NewEntry {
        NewEntry::said(number, format!("silt \"{number}\"\n"))
    }

    #[test]
    fn an_answer_is_a_search_with_the_facts_of_its_state() {
        let directory = tempfile::tempdir().unwrap();
        let handle = Handle::open(directory.path(), false, None, None).unwrap();
        let store = handle.store().unwrap();
        let [one, other] = ["one", "other"].map(|name| SessionId::new(name).unwrap());
        let options = SearchOptions::default();
        let answer = |id: &SessionId| store.answer(id, "silt", &options).unwrap();
        assert_eq!(as_json(&answer(&one).found.hits, Vec::new()), "[]");
        store.insert(&one, &[entry(7), entry(8)]).unwrap();
        let before = answer(&one);
        let hits = store.find(&one, "silt", None, &options).unwrap().hits;
        assert_eq!(before.found.hits, hits);
        assert_eq!((before.damaged, before.facts.as_deref()), (0, Some("")));
        let fact = NewFact {
            id: None,
            key: "key".to_owned(),
            state: "active".to_owned(),
            body: "{}".to_owned(),
            was: None,
        };
        store.put_facts(&other, &[fact], 0).unwrap();
        let after = answer(&one);
        assert_eq!(after.facts, store.facts_revision().unwrap());
        assert_ne!(after.facts, before.facts);
        assert_eq!(answer(&SessionId::new("none").unwrap()).facts, after.facts);
    }

    #[test]
    fn entries_that_are_damaged_are_counted_before_a_repair_and_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let id = SessionId::new("one").unwrap();
        let count = |edit: bool| {
            let handle = Handle::open(directory.path(), false, None, None).unwrap();
            let store = handle.store().unwrap();
            if edit {
                store.insert(&id, &[entry(7), entry(8)]).unwrap();
                let text = "UPDATE entry SET text = 'silt' WHERE id = (SELECT MAX(id) FROM entry)";
                let edited = store
                    .database
                    .writer()
                    .unwrap()
                    .transaction(|transaction| Ok(transaction.execute(text, [])?));
                assert_eq!(edited.unwrap(), 1);
            } else {
                store.repair(0).unwrap();
            }
            let found = store
                .answer(&id, "silt", &SearchOptions::default())
                .unwrap();
            assert_eq!(found.found.hits.len(), 1);
            found.damaged
        };
        assert_eq!((count(true), count(false)), (1, 1));
    }

    #[test]
    fn hits_are_written_as_python_writes_them() {
        let handle = Handle::open_memory(None).unwrap();
        let store = handle.store().unwrap();
        let id = SessionId::new("one").unwrap();
        store.insert(&id, &[entry(7), entry(8)]).unwrap();
        let found = store.answer(&id, "silt", &SearchOptions::default());
        let mut hits = found.unwrap().found.hits;
        for (hit, score) in hits.iter_mut().zip([0.25, 1e-5]) {
            hit.score = score;
        }
        hits.sort_by_key(|hit| hit.stored.entry.start);
        let scores: Vec<&str> = hits
            .iter()
            .map(|hit| if hit.score > 0.1 { "0.25" } else { "1e-05" })
            .collect();
        let one = |number: i64, score: &str| {
            let end = number + 1;
            format!(
                "{{\"content\": \"silt \\\"{number}\\\"\\n\", \"score\": {score}, \
                 \"source_range\": {{\"start\": {number}, \"end\": {end}}}, \"said\": \"{number}h\"}}"
            )
        };
        let expected = format!("[{}, {}]", one(7, scores[0]), one(8, scores[1]));
        let times = || vec!["7h".to_owned(), "8h".to_owned()];
        assert_eq!(as_json(&hits, times()), expected);
        hits[0].repeated = Some(Repeated {
            times: 3,
            first: 1,
            last: 2,
        });
        let json = as_json(&hits[..1], times());
        let ends = ", \"said\": \"7h\", \"first\": \"8h\", \"last\": \"\", \"times\": 3}]";
        assert!(json.ends_with(ends), "{json}");
    }
}
