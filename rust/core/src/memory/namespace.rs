//! The index of a namespace: the messages of its sessions, in their contexts or discarded.
//!
//! It holds the entries of every session of the namespace, and the messages in the context of each session, which are
//! not entries yet. Neighbours are entries of one session; days and weights of terms are computed over all sessions.
//! When a message leaves the context and becomes an entry, its point gets the id of the entry and keeps its terms.
//!
//! Two indexes of the same state give the same results, in whatever order their points were added.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use rusqlite::Connection;

use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::index::DenseScan;
use crate::memory::catch_up::Analysed;
use crate::memory::namespace_search::{
    Said, Source, Unread, context, label, message_of, messages, place, whole_row,
};
use crate::memory::session_index::{Dense, NO_REVISION, Reading, RequiredIndexes, Scope};
use crate::sqlite::entry::{self, Listed};
use crate::sqlite::session::{self, Standing};
use crate::sqlite::{EmbedderRow, NewEntry, SessionRow, Transaction, vectors};

/// The number of messages whose texts are requested at once.
const STRETCH: usize = 4_096;

/// A session of the namespace in the state that the index has.
#[derive(Debug)]
struct Known {
    name: String,
    standing: Standing,
    /// Its points, ascending.
    points: Vec<u32>,
    /// The last entry that was read.
    last: EntryId,
    /// The number of damaged entries.
    damaged: usize,
    /// The revision of the vectors that were read; 0 for none.
    vectors: i64,
}

/// All sessions of a namespace in one index.
///
/// A point of its scope has the id of an entry, or the [`label`] of a message, which is negative.
pub(super) struct Namespace {
    pub(super) scope: Scope,
    /// The key of the session and the source of each point.
    sources: Vec<(i64, Source)>,
    sessions: HashMap<i64, Known>,
    /// The texts of the messages in context, by session and sequence number.
    said: HashMap<i64, HashMap<i64, Said>>,
    /// The standings for which the index was last found to be current.
    current: Mutex<Option<Arc<[Standing]>>>,
}

impl Namespace {
    pub(super) fn new(reading: Reading) -> Self {
        Self {
            scope: Scope::new(reading),
            sources: Vec::new(),
            sessions: HashMap::new(),
            said: HashMap::new(),
            current: Mutex::default(),
        }
    }

    /// Whether the index has the current state of the namespace `name`.
    pub(super) fn is_current(&self, transaction: &Transaction<'_>, name: &str) -> Result<bool> {
        if self.scope.revision == NO_REVISION {
            return Ok(false);
        }
        let standings = session::standings(transaction, name)?;
        let mut current = self.current.lock();
        if current
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &standings))
        {
            return Ok(true);
        }
        let knows = |standing: &Standing| {
            let known = self.sessions.get(&standing.id);
            known.is_some_and(|known| known.standing == *standing)
        };
        let is_current = self.sessions.len() == standings.len() && standings.iter().all(knows);
        if is_current {
            *current = Some(standings);
        }
        Ok(is_current)
    }

    /// Whether it has that session.
    pub(super) fn has(&self, session: i64) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Whether its vectors are the current ones of that embedder. The index must have the state of the namespace
    /// `name`.
    pub(super) fn has_vectors(
        &self,
        connection: &Connection,
        name: &str,
        embedder: i64,
    ) -> Result<bool> {
        if self.scope.dense.as_ref().map(|dense| dense.embedder) != Some(embedder) {
            return Ok(false);
        }
        let revisions = vectors::revisions(connection, name)?;
        let is_known = |(session, revision): &(i64, i64)| {
            let known = self.sessions.get(session);
            known.is_some_and(|known| known.vectors == *revision)
        };
        Ok(revisions.iter().all(is_known))
    }

    /// Whether a search of `session` may return a point. Messages in the context of `session` itself are left out.
    pub(super) fn admits(&self, point: u32, session: i64) -> bool {
        self.sources[point as usize].0 != session || self.scope.id(point).0 >= 0
    }

    /// The key of the session and the text of a message's point; None for the point of an entry.
    pub(super) fn message(&self, point: u32) -> Option<(i64, &NewEntry)> {
        let (session, seq) = message_of(self.scope.id(point))?;
        let said = self.said.get(&session)?.get(&seq)?;
        Some((session, said.entry.as_ref()?))
    }

    /// The name of a session.
    pub(super) fn name(&self, session: i64) -> &str {
        self.sessions
            .get(&session)
            .map_or("", |known| known.name.as_str())
    }

    /// The number of damaged entries of a session.
    pub(super) fn damaged(&self, session: i64) -> usize {
        self.sessions.get(&session).map_or(0, |known| known.damaged)
    }

    /// The session of a point.
    pub(super) fn session(&self, point: u32) -> i64 {
        self.sources[point as usize].0
    }

    /// The names of its sessions.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.sessions.values().map(|known| known.name.as_str())
    }

    /// The number of points that stand for messages.
    pub(super) fn messages(&self) -> usize {
        self.scope.ids().filter(|id| id.0 < 0).count()
    }

    /// The ids of a session's entries, ascending; None if the index has no state or another state of the session.
    pub(super) fn ids(&self, row: &SessionRow) -> Option<Vec<EntryId>> {
        let known = self.sessions.get(&row.id)?;
        if known.standing != row.standing() {
            return None;
        }
        let ids = known.points.iter().map(|&point| self.scope.id(point));
        let mut ids: Vec<EntryId> = ids.filter(|id| id.0 >= 0).collect();
        ids.sort_unstable();
        Some(ids)
    }

    /// The approximate bytes of the index and of the messages in it.
    pub(super) fn bytes(&self) -> usize {
        let said = self.said.values().flat_map(HashMap::values);
        let texts = said.filter_map(|said| said.entry.as_ref());
        let texts: usize = texts.map(|entry| entry.text.capacity()).sum();
        let messages: usize = self.said.values().map(HashMap::len).sum();
        self.scope.bytes()
            + texts
            + messages * size_of::<(i64, Said)>()
            + size_of_val(&self.sources[..]) * 2 // once in `sources`, and once in the session
    }

    /// Takes the texts of messages of `unread`, one for each message, in their order.
    pub(super) fn take(&mut self, unread: &Unread, said: Vec<Option<NewEntry>>) {
        let known = self.said.entry(unread.key).or_default();
        for (message, entry) in unread.messages.iter().zip(said) {
            let seq = message.seq;
            // The entry gets the range of its message, whatever range the caller gave it.
            let entry = entry.map(|entry| NewEntry {
                start: seq,
                end: seq + 1,
                ..entry
            });
            let said = Said {
                redactions: unread.redactions,
                entry: entry.filter(|entry| !entry.text.trim().is_empty()),
            };
            known.insert(seq, said);
        }
    }

    /// Brings the index to the state `standings`. Where texts of messages are missing, it returns these messages and
    /// stays behind.
    pub(super) fn catch_up(
        &mut self,
        connection: &Connection,
        standings: &[Standing],
        needs: RequiredIndexes,
    ) -> Result<Vec<Unread>> {
        let needs = RequiredIndexes {
            labels: false, // the index always has them
            ..needs.and(self.scope.made)
        };
        if self.scope.revision == NO_REVISION && !self.sources.is_empty()
            || !needs.without(self.scope.made).is_nothing()
        {
            self.begin_anew();
        }
        self.scope.made = needs;
        self.scope.revision = NO_REVISION;
        *self.current.get_mut() = None;
        self.leave(standings);
        let mut unread: Vec<Unread> = Vec::new();
        for standing in standings {
            let known = self.sessions.get(&standing.id);
            if known.is_some_and(|known| known.standing == *standing) {
                continue;
            }
            let row = whole_row(connection, standing)?;
            let context = context(connection, &row)?;
            let lacking = self.lacking(&row, &context);
            let asked: usize = unread.iter().map(|each| each.messages.len()).sum();
            if lacking.is_empty() {
                self.follow(connection, &row, &context)?;
            } else if asked < STRETCH {
                let lacking = &lacking[..lacking.len().min(STRETCH)];
                unread.push(Unread {
                    session: row.name.clone(),
                    key: row.id,
                    redactions: row.redactions,
                    messages: messages(connection, &row, lacking)?,
                });
            }
        }
        self.scope.revision = 0;
        Ok(unread)
    }

    /// Reads the vectors of that embedder that the index lacks.
    pub(super) fn catch_up_vectors(
        &mut self,
        connection: &Connection,
        embedder: &EmbedderRow,
    ) -> Result<()> {
        let known = self.scope.dense.take();
        let known = known.filter(|dense| dense.embedder == embedder.id);
        let mut dense = known.unwrap_or_else(|| {
            self.sessions
                .values_mut()
                .for_each(|known| known.vectors = 0);
            Dense {
                embedder: embedder.id,
                revision: 0,
                index: Box::new(DenseScan::new(embedder.dimension)),
            }
        });
        let mut keys: Vec<i64> = self.sessions.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let revision = vectors::revision(connection, key)?;
            let Some(known) = self.sessions.get_mut(&key) else {
                continue;
            };
            if known.vectors == revision {
                continue;
            }
            let points: HashMap<EntryId, u32> = known
                .points
                .iter()
                .map(|&point| (self.scope.id(point), point))
                .collect();
            vectors::for_each_after(connection, key, known.vectors, |row| {
                let is_whole = row.embedder == embedder.id
                    && vectors::is_whole(&row.numbers, embedder.dimension);
                if let Some(&point) = points.get(&row.entry).filter(|_| is_whole) {
                    dense.index.add(point, &row.numbers);
                }
            })?;
            known.vectors = revision;
        }
        self.scope.dense = Some(dense);
        Ok(())
    }

    /// Removes a session and the texts of its messages from memory.
    pub(super) fn forget(&mut self, session: i64) {
        *self.current.get_mut() = None;
        self.said.remove(&session);
        if let Some(known) = self.sessions.remove(&session) {
            self.remove(&known.points);
        }
    }

    /// Drops everything except the texts of messages.
    fn begin_anew(&mut self) {
        let made = self.scope.made;
        self.scope = Scope::new(self.scope.reading);
        self.scope.made = made;
        self.sources.clear();
        self.sessions.clear();
    }

    /// Removes the sessions that are not in `standings`.
    fn leave(&mut self, standings: &[Standing]) {
        let stays = |id: &i64| standings.binary_search_by_key(id, |each| each.id).is_ok();
        let gone: Vec<i64> = self
            .sessions
            .keys()
            .copied()
            .filter(|id| !stays(id))
            .collect();
        for session in gone {
            self.forget(session);
        }
    }

    /// The messages of the context whose texts were not read since the last redaction.
    fn lacking(&self, row: &SessionRow, context: &[i64]) -> Vec<i64> {
        let known = self.said.get(&row.id);
        let is_read = |seq: i64| {
            let said = known.and_then(|known| known.get(&seq));
            said.is_some_and(|said| said.redactions == row.redactions)
        };
        context
            .iter()
            .copied()
            .filter(|&seq| !is_read(seq))
            .collect()
    }

    /// Brings a session to the state of `row`. The texts of its context must have been read.
    fn follow(&mut self, connection: &Connection, row: &SessionRow, context: &[i64]) -> Result<()> {
        if !self.take_in(connection, row, context)? {
            // The order of points breaks ties between hits. So the session is added again, in the standard order.
            if let Some(known) = self.sessions.remove(&row.id) {
                self.remove(&known.points);
            }
            self.take_in(connection, row, context)?;
        }
        // The text of a message that left the context is dropped. Its entry may still be found.
        if let Some(said) = self.said.get_mut(&row.id) {
            said.retain(|seq, _| context.binary_search(seq).is_ok());
        }
        Ok(())
    }

    /// Adds the entries and messages that the index lacks, and removes those that the session lost. False if points of
    /// the same messages are in another order than after adding all of them at once.
    fn take_in(
        &mut self,
        connection: &Connection,
        row: &SessionRow,
        context: &[i64],
    ) -> Result<bool> {
        let known = self.sessions.remove(&row.id);
        let standing = row.standing();
        let grew = known
            .as_ref()
            .filter(|known| known.standing.epoch == row.epoch);
        let (after, mut damaged) =
            grew.map_or((EntryId(0), 0), |known| (known.last, known.damaged));
        let (mut points, vectors) = known.as_ref().map_or_else(Default::default, |known| {
            (known.points.clone(), known.vectors)
        });
        let is_grown = grew.is_some();

        // Free points: an entry or a message of the same source takes one below. The others are removed.
        let mut free: HashMap<Source, Vec<u32>> = HashMap::new();
        let mut is_entry: HashSet<Source> = HashSet::new();
        for &point in &points {
            let source = self.sources[point as usize].1;
            if is_grown && self.scope.id(point).0 >= 0 {
                is_entry.insert(source.lasting());
            } else {
                free.entry(source).or_default().push(point);
            }
        }
        let mut new: Vec<(i64, NewEntry)> = Vec::new();
        let mut last = after;
        entry::for_each_after(connection, row.id, after, |found| match found {
            Listed::Whole(stored) => {
                last = stored.id;
                let source = Source::of(&stored.entry);
                is_entry.insert(source.lasting());
                let id = stored.id.0;
                match claim(&mut free, source, |point| self.scope.id(point).0 == id) {
                    Some(point) => self.scope.entries[point as usize].0 = stored.id,
                    None => new.push((id, stored.entry)),
                }
            }
            Listed::Damaged(id) => {
                last = id;
                damaged += 1;
            }
        })?;
        let entries = new.len();
        for &seq in context {
            let label = label(row.id, seq);
            let said = self.said.get(&row.id).and_then(|known| known.get(&seq));
            let Some(entry) = said.and_then(|said| said.entry.as_ref()) else {
                continue;
            };
            let source = Source::of(entry);
            if is_entry.contains(&source) {
                continue; // searches find its entry instead
            }
            match claim(&mut free, source, |point| self.scope.id(point).0 == label) {
                Some(point) => self.scope.entries[point as usize].0 = EntryId(label),
                None => new.push((label, entry.clone())),
            }
        }
        new.rotate_left(entries); // messages first
        let gone: Vec<u32> = free.into_values().flatten().collect();
        if !gone.is_empty() {
            // The removal renumbers the remaining points.
            let removed: HashSet<u32> = gone.iter().copied().collect();
            points.retain(|point| !removed.contains(point));
            self.remember(row, standing, points, last, damaged, vectors);
            self.remove(&gone);
            points = self
                .sessions
                .remove(&row.id)
                .map_or_else(Vec::new, |known| known.points);
        }
        for (label, entry) in new {
            points.push(self.add(row.id, label, &entry)?);
        }
        let found = points.iter().filter(|&&point| self.scope.id(point).0 >= 0);
        let found = found.count() + damaged;
        if i64::try_from(found).ok() != Some(row.entries) {
            let message = format!(
                "session {:?} should have {} entries, and {found} were found",
                row.name, row.entries
            );
            return Err(Error::new(ErrorKind::StoreCorrupt, message).with("table", "entry"));
        }
        let vectors = if self.scope.dense.is_some() {
            vectors
        } else {
            0
        };
        let is_ordered = self.is_ordered(&points);
        self.remember(row, standing, points, last, damaged, vectors);
        Ok(is_ordered)
    }

    fn remember(
        &mut self,
        row: &SessionRow,
        standing: Standing,
        points: Vec<u32>,
        last: EntryId,
        damaged: usize,
        vectors: i64,
    ) {
        let known = Known {
            name: row.name.clone(),
            standing,
            points,
            last,
            damaged,
            vectors,
        };
        self.sessions.insert(row.id, known);
    }

    /// Whether points that begin at the same message are in the order of their ids, as after adding all at once.
    fn is_ordered(&self, points: &[u32]) -> bool {
        let placed = points.iter().map(|&point| {
            let range = self.sources[point as usize].1.range;
            (range.0, point, self.scope.id(point), range.0 < range.1)
        });
        let mut placed: Vec<_> = placed.filter(|each| each.3).collect();
        placed.sort_unstable();
        placed.is_sorted_by(|one, next| one.0 < next.0 || one.2 < next.2)
    }

    /// Adds a point.
    fn add(&mut self, session: i64, label: i64, entry: &NewEntry) -> Result<u32> {
        let point = self.sources.len();
        let point = u32::try_from(point).map_err(|_| {
            let message = "a namespace can have 2^32 entries in memory";
            Error::new(ErrorKind::InvalidEntry, message)
        })?;
        let needs = self.scope.made;
        let mut analysed = Analysed::of(entry, self.scope.reading, needs);
        analysed.range = place(analysed.range, session);
        self.scope.push(EntryId(label), analysed)?;
        let name = entry.name.as_deref();
        self.scope.labels.push(&entry.role, &entry.kind, name);
        self.sources.push((session, Source::of(entry)));
        Ok(point)
    }

    /// Removes points from the indexes, which then equal indexes that never had these points.
    fn remove(&mut self, gone: &[u32]) {
        if gone.is_empty() {
            return;
        }
        let mut is_gone = vec![false; self.sources.len()];
        for &point in gone {
            is_gone[point as usize] = true;
        }
        let mut numbers = Vec::with_capacity(self.sources.len());
        let mut left = 0;
        for &is_gone in &is_gone {
            numbers.push(left);
            left += u32::from(!is_gone);
        }
        let ids = gone.iter().map(|&point| self.scope.id(point));
        let ids: HashSet<EntryId> = ids.collect();
        self.scope.only(|id| !ids.contains(&id));
        let mut at = 0;
        self.sources.retain(|_| {
            at += 1;
            !is_gone[at - 1]
        });
        for known in self.sessions.values_mut() {
            known.points.retain(|&point| !is_gone[point as usize]);
            for point in &mut known.points {
                *point = numbers[*point as usize];
            }
            known.vectors = 0; // vectors have the old numbers of points, and are read again
        }
    }
}

/// Takes a free point of `source`, if there is one; preferably one for which `is_own` is true.
fn claim(
    free: &mut HashMap<Source, Vec<u32>>,
    source: Source,
    is_own: impl Fn(u32) -> bool,
) -> Option<u32> {
    let points = free.get_mut(&source)?;
    let place = points.iter().position(|&point| is_own(point)).unwrap_or(0);
    let point = points.remove(place);
    if points.is_empty() {
        free.remove(&source);
    }
    Some(point)
}

#[cfg(test)]
impl Namespace {
    /// Loses a point of the session, as a fault of the index would.
    pub(super) fn lose(&mut self, session: i64) {
        let known = self.sessions.get_mut(&session);
        known.and_then(|known| known.points.pop());
    }
}
