//! A search of a namespace: one of its sessions asks, and all of them are searched.

use std::sync::Arc;

use rusqlite::Connection;

use crate::analyse::Asked;
use crate::cache::give_back_freed;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::explain::explain;
use crate::memory::index_map::Leaving;
use crate::memory::namespace::Namespace;
use crate::memory::options::{QueryVector, SearchIndex, SearchOptions};
use crate::memory::rank::{Analysis, Ranking};
use crate::memory::search::{Found, Hit, asked_embedder, fetch};
use crate::memory::session_index::RequiredIndexes;
use crate::memory::store::Store;
use crate::sqlite::session::{self, Standing};
use crate::sqlite::{Message, NewEntry, SessionRow, StoredEntry, compactions, entry, log};

/// The share of the namespace index's bytes that the indexes of its single sessions may take.
const SHARE_OF_SESSIONS: f64 = 0.3;

/// The result of a search of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum Across {
    /// The hits.
    Found(Found),
    /// Messages whose texts are missing. The caller reads them, passes them to [`Store::take_said`], and searches
    /// again.
    Unread(Vec<Unread>),
}

impl Store {
    /// The entries and the messages in context, of all sessions in the namespace of `session`, that are most similar to
    /// `query`, in the order of [`find`](Self::find). Messages in the context of `session` itself are left out. A
    /// session without a namespace searches its own entries only.
    ///
    /// Weights of terms are computed over the whole namespace, including messages that are left out. The search
    /// uses the exact index, never a graph.
    ///
    /// # Errors
    ///
    /// The errors of [`find`](Self::find).
    pub fn find_across(
        &self,
        session: &SessionId,
        query: &str,
        vector: Option<&QueryVector>,
        options: &SearchOptions,
    ) -> Result<Across> {
        let Some((key, name)) = self.namespace_of(session)? else {
            let found = self.find(session, query, vector, options)?;
            return Ok(Across::Found(found));
        };
        let options = &SearchOptions {
            index: SearchIndex::Exact,
            ..options.clone()
        };
        let limit = options.check(query)?;
        if limit == 0 {
            return Ok(Across::Found(Found {
                hits: Vec::new(),
                ranker: options.ranker,
                lacking: 0,
                asked: Asked::of(query),
            }));
        }
        let vector = match vector {
            Some(vector) if options.ranker.is_dense() => self.comparable(vector)?,
            _ => None,
        };
        let analysis = Analysis::of(query, vector, options.ranker, self.hash_rule());
        let rank = |namespace: &Namespace| {
            let is_there = namespace.has(key);
            let passes = namespace.scope.admitted(&options.filter, options.now);
            let admits = |point| is_there && passes(point) && namespace.admits(point, key);
            namespace.scope.rank(&analysis, limit, options, &admits)
        };
        self.with_namespace(&name, (query, &analysis), options, rank)
    }

    /// Takes the texts of messages that a search of the namespace lacked: for each message an entry, or None for no
    /// text, in order.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn take_said(
        &self,
        session: &SessionId,
        said: Vec<(Unread, Vec<Option<NewEntry>>)>,
    ) -> Result<()> {
        if let Some((_, name)) = self.namespace_of(session)? {
            let namespace = self.scopes.namespace_or_new(&name);
            let mut namespace = namespace.write();
            for (unread, entries) in said {
                namespace.take(&unread, entries);
            }
        }
        Ok(())
    }

    /// The key of the session and the name of its namespace; None for an unknown session, and for a session without a
    /// namespace. Neither ever changes in a file, so the answer is remembered.
    pub(super) fn namespace_of(&self, session: &SessionId) -> Result<Option<(i64, Arc<str>)>> {
        if let Some(known) = self.scopes.namespace_of(session) {
            return Ok(Some(known));
        }
        let row = self
            .database
            .read(|transaction| session::find(transaction, session))?;
        let Some(row) = row.filter(|row| !row.namespace.is_empty()) else {
            return Ok(None);
        };
        let found = (row.id, Arc::from(row.namespace));
        self.scopes.remember_namespace(session, &found);
        Ok(Some(found))
    }

    /// Runs `rank` on the index of the namespace, and reads the hits from the same state of the database. If a writer
    /// has changed the namespace in the meantime, the index catches up and the search starts again, as in
    /// [`with_scope`](Self::with_scope).
    fn with_namespace(
        &self,
        name: &str,
        (query, analysis): (&str, &Analysis),
        options: &SearchOptions,
        rank: impl Fn(&Namespace) -> Ranking,
    ) -> Result<Across> {
        let (embedder, needs) = (analysis.embedder(), options.required_indexes());
        let (mut is_anew, mut grew) = (false, false);
        loop {
            let known = self.scopes.namespace(name);
            let locked = known.as_ref().map(|namespace| namespace.read());
            let able = locked.as_ref().filter(|known| known.scope.has(needs));
            let ranked = able.map(|namespace| rank(namespace));
            let outcome = self.database.read(|transaction| {
                let (Some(namespace), Some(ranking)) = (&locked, ranked) else {
                    return Ok(None);
                };
                let has_vectors = || match embedder {
                    Some(embedder) => namespace.has_vectors(transaction, name, embedder),
                    None => Ok(true),
                };
                if !namespace.is_current(transaction, name)? || !has_vectors()? {
                    return Ok(None);
                }
                namespace.scope.touch();
                let mut entries = entry::Reader::of(transaction)?;
                let hits = ranking.best.iter().map(|ranked| {
                    let stored = read(namespace, &mut entries, ranked.point, ranked.id)?;
                    let explain =
                        || explain(&namespace.scope, analysis, &ranking, ranked, &stored.entry);
                    Ok(Hit {
                        explanation: options.explain.then(explain),
                        score: ranked.score,
                        repeated: ranked.repeated,
                        session: Some(namespace.name(stored.session).to_owned()),
                        stored,
                    })
                });
                Ok(Some(Found {
                    hits: hits.collect::<Result<_>>()?,
                    ranker: ranking.ranker,
                    lacking: lacking(namespace, &ranking),
                    asked: analysis.asked(query, namespace.scope.reading.languages),
                }))
            });
            drop(locked);
            match outcome {
                Ok(Some(found)) => {
                    if let Some(namespace) = known.filter(|_| grew) {
                        let bytes = namespace.read().bytes();
                        namespace.measure(bytes);
                        drop(namespace);
                        self.make_room(name);
                    }
                    return Ok(Across::Found(found));
                }
                Ok(None) => {
                    let unread = self.catch_up_namespace(name, embedder, needs)?;
                    if !unread.is_empty() {
                        return Ok(Across::Unread(unread));
                    }
                    grew = true;
                }
                Err(error) if error.kind() == ErrorKind::StoreCorrupt && !is_anew => {
                    self.scopes.remove_namespace(name);
                    is_anew = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Brings the index of the namespace to the state of the database. Returns the messages whose texts are missing for
    /// that.
    fn catch_up_namespace(
        &self,
        name: &str,
        embedder: Option<i64>,
        needs: RequiredIndexes,
    ) -> Result<Vec<Unread>> {
        let namespace = self.scopes.namespace_or_new(name);
        let mut namespace = namespace.write();
        self.database.read(|transaction| {
            let standings = session::standings(transaction, name)?;
            let unread = namespace.catch_up(transaction, &standings, needs)?;
            let Some(asked) = embedder.filter(|_| unread.is_empty()) else {
                return Ok(unread);
            };
            namespace.catch_up_vectors(transaction, &asked_embedder(transaction, asked)?)?;
            Ok(unread)
        })
    }

    /// Drops indexes if all together take too many bytes, the least recently searched first. A later search builds
    /// them again from a cache or from rows.
    pub(super) fn make_room(&self, namespace: &str) {
        self.make_room_in(namespace);
        let leaving = self.scopes.leaving();
        let are_some = !leaving.is_empty();
        for each in leaving {
            match each {
                Leaving::Session(session) => {
                    self.write_cache(&session);
                    self.scopes.remove(&session);
                }
                Leaving::Namespace(name) => self.scopes.remove_namespace(&name),
            }
        }
        if are_some {
            give_back_freed();
        }
    }

    /// Drops indexes of single sessions of the namespace, the least recently searched first, until they take at most
    /// [`SHARE_OF_SESSIONS`] of the namespace's bytes.
    fn make_room_in(&self, name: &str) {
        let Some(namespace) = self.scopes.namespace(name).filter(|_| !name.is_empty()) else {
            return;
        };
        let mut held = Vec::new();
        let all = {
            let namespace = namespace.read();
            for name in namespace.names() {
                if let Ok(session) = SessionId::new(name)
                    && let Some(scope) = self.scopes.get(&session)
                {
                    let scope = scope.read();
                    held.push((scope.used(), scope.bytes(), session));
                }
            }
            namespace.scope.bytes()
        };
        let most = share(all);
        let mut size: usize = held.iter().map(|&(_, size, _)| size).sum();
        held.sort_unstable();
        for (_, len, session) in held {
            if size <= most {
                break;
            }
            self.write_cache(&session);
            self.scopes.remove(&session);
            size -= len;
        }
    }
}

/// The entry or the message of a point.
fn read(
    namespace: &Namespace,
    entries: &mut entry::Reader<'_>,
    point: u32,
    id: EntryId,
) -> Result<StoredEntry> {
    if let Some((session, entry)) = namespace.message(point) {
        return Ok(StoredEntry {
            id: EntryId(0),
            session,
            compaction: None,
            entry: entry.clone(),
        });
    }
    let session = namespace.session(point);
    fetch(entries, (session, namespace.name(session)), id)
}

/// The number of entries without a vector, if the ranker uses vectors. Messages never get vectors, and are not counted.
fn lacking(namespace: &Namespace, ranking: &Ranking) -> usize {
    match ranking.lacking {
        0 => 0,
        lacking => lacking.saturating_sub(namespace.messages()),
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share need not be exact"
)]
fn share(size: usize) -> usize {
    (size as f64 * SHARE_OF_SESSIONS) as usize
}

// The messages in context that a search of a namespace finds: their sources, ids and texts.

/// Messages of a session whose texts the namespace's index needs, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The session.
    pub session: String,
    /// Its key.
    pub(super) key: i64,
    /// The session's number of redactions when the messages were read.
    pub(super) redactions: i64,
    /// The messages.
    pub messages: Vec<Message>,
}

/// The text of a message in context.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) redactions: i64,
    /// None for a message without text.
    pub(super) entry: Option<NewEntry>,
}

/// The source of a point. Points with equal sources have the same terms, neighbours, day and expiry time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source {
    pub(super) range: (i64, i64),
    fingerprint: i64,
    created_at: i64,
    expires_at: Option<i64>,
}

impl Source {
    pub(super) fn of(entry: &NewEntry) -> Self {
        Self {
            range: (entry.start, entry.end),
            fingerprint: entry::fingerprint(entry),
            created_at: entry.created_at,
            expires_at: entry.expires_at,
        }
    }

    /// The same source without an expiry time.
    pub(super) fn lasting(self) -> Self {
        Self {
            expires_at: None,
            ..self
        }
    }
}

/// The id of a message in an index: a negative number, so that it differs from all ids of entries.
pub(super) fn label(session: i64, seq: i64) -> i64 {
    -(session << 32 | seq)
}

/// The session's key and the sequence number of a [`label`]; None for the id of an entry.
pub(super) fn message_of(id: EntryId) -> Option<(i64, i64)> {
    let key = id.0.checked_neg().filter(|&key| key > 0)?;
    Some((key >> 32, key & ((1 << 32) - 1)))
}

/// The messages `range` of a session as places of one chain for all sessions. Places of different sessions are far
/// apart. A range beyond the longest possible log gets no place.
pub(super) fn place((start, end): (i64, i64), session: i64) -> (i64, i64) {
    const LAST: i64 = (1 << 32) - 8;
    if end > LAST {
        return (0, 0);
    }
    ((session << 32) + start, (session << 32) + end)
}

/// The whole row of a listed session. It is an error if the row differs from the list.
pub(super) fn whole_row(connection: &Connection, standing: &Standing) -> Result<SessionRow> {
    match session::by_key(connection, standing.id)? {
        Some(row) if row.standing() == *standing => Ok(row),
        _ => {
            let message = format!("session {} is not as it is listed", standing.id);
            Err(Error::new(ErrorKind::StoreCorrupt, message)
                .with("table", "session")
                .with("id", standing.id))
        }
    }
}

/// The sequence numbers of the messages in a session's context, ascending.
pub(super) fn context(connection: &Connection, row: &SessionRow) -> Result<Vec<i64>> {
    let mut context = Vec::new();
    let mut next = 0;
    if let Some(head) = row.head {
        let body = compactions::of(connection, row, head)?.body;
        for (start, end) in compactions::messages_of(&body)? {
            context.extend(start.max(0)..end.min(row.next_seq));
        }
        next = body.next_seq.max(0);
    }
    context.extend(next..row.next_seq);
    context.sort_unstable();
    context.dedup();
    Ok(context)
}

/// The messages `seqs`, which ascend.
pub(super) fn messages(
    connection: &Connection,
    row: &SessionRow,
    seqs: &[i64],
) -> Result<Vec<Message>> {
    let mut messages = Vec::with_capacity(seqs.len());
    for run in seqs.chunk_by(|one, next| one + 1 == *next) {
        if let (Some(&first), Some(&last)) = (run.first(), run.last()) {
            messages.extend(log::read(connection, row, first, last + 1)?);
        }
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::handle::Handle;

    fn entry(number: i64) -> NewEntry {
        let stones = "stone ".repeat(20);
        NewEntry::said(number, format!("silt and river {number} {stones}"))
    }

    #[test]
    fn sessions_that_are_searched_both_ways_take_little_beside_their_namespace() {
        let directory = tempfile::tempdir().unwrap();
        let handle = Handle::open(directory.path(), false, None, None).unwrap();
        let store = handle.store().unwrap();
        let ids: Vec<SessionId> = (0..40)
            .map(|number| SessionId::new(&format!("s{number}")).unwrap())
            .collect();
        for id in &ids {
            store.open_session(id, Some("acme")).unwrap();
            let entries: Vec<NewEntry> = (0..30).map(entry).collect();
            store.insert(id, &entries).unwrap();
        }
        let options = SearchOptions::default();
        for round in 0..3 {
            for id in &ids {
                let own = store.find(id, "river 7", None, &options).unwrap();
                assert_eq!(own.hits.len(), 5, "{round}");
                let Across::Found(found) =
                    store.find_across(id, "river 7", None, &options).unwrap()
                else {
                    panic!("nothing was unread");
                };
                assert_eq!(found.hits.len(), 5);
            }
        }
        let held = ids.iter().filter_map(|id| store.scopes.get(id));
        let held: usize = held.map(|scope| scope.read().bytes()).sum();
        let all = store.scopes.namespace("acme").unwrap().read().scope.bytes();
        assert!(held * 10 <= all * 3, "{held} of {all}");
        assert!(held > 0);
    }

    #[test]
    fn a_message_that_was_forgotten_while_it_was_read_is_read_again() {
        let handle = Handle::open_memory(None).unwrap();
        let store = handle.store().unwrap();
        let [said, asks] = ["said", "asks"].map(|name| SessionId::new(name).unwrap());
        for id in [&said, &asks] {
            store.open_session(id, Some("acme")).unwrap();
        }
        let message = |raw: &str| crate::sqlite::NewMessage {
            raw: raw.to_owned(),
            role: "user".to_owned(),
            dialect: "any".to_owned(),
            provenance: "original".to_owned(),
            tokens: 1,
            created_at: 0,
        };
        let state = store.log_state(&said).unwrap();
        let write = crate::memory::Write {
            expected: state.version(),
            id: 1,
        };
        let append = crate::memory::Append {
            messages: &[message("a kettle"), message("silt")],
            ..crate::memory::Append::default()
        };
        store.append(&said, write, append).unwrap();
        let options = SearchOptions::default();
        let find = || store.find_across(&asks, "kettle", None, &options).unwrap();
        let Across::Unread(unread) = find() else {
            panic!("it was not read yet");
        };
        let target = crate::memory::Target {
            messages: vec![(0, "[forgotten]".to_owned())],
            ..crate::memory::Target::of(said.clone())
        };
        store.forget(&[target], "").unwrap();
        let texts = |unread: Vec<Unread>| {
            let of = |each: Unread| {
                let said = each.messages.iter().map(|message| {
                    let text = message.message.raw.clone();
                    Some(NewEntry { text, ..entry(0) })
                });
                let said = said.collect();
                (each, said)
            };
            unread.into_iter().map(of).collect::<Vec<_>>()
        };
        store.take_said(&asks, texts(unread)).unwrap();
        let Across::Unread(again) = find() else {
            panic!("the rows were read before");
        };
        assert_eq!(again[0].messages[0].message.raw, "[forgotten]");
        store.take_said(&asks, texts(again)).unwrap();
        let Across::Found(found) = find() else {
            panic!("all was read");
        };
        assert_eq!(found.hits, []);
    }
}
