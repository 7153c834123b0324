//! The indexes of one session, in memory; the texts stay in SQLite.

use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::Connection;

use crate::analyse::{Fields, for_each_passage};
use crate::bm25::{Bm25Params, Document, LexicalIndex, Query, Why};
use crate::embed::hash::HashRule;
use crate::embed::hashed_tf::counts;
use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::index::{DenseIndex, DenseScan, ExactIndex, VectorIndex};
use crate::memory::cached::Snapshot;
use crate::memory::graph::Graph;
use crate::memory::options::SearchIndex;
use crate::sqlite::entry::{self, Listed};
use crate::sqlite::{EmbedderRow, NewEntry, SessionRow, vectors};
use crate::vector::SparseRow;

/// A scope that is being changed is of no state: if the change fails halfway, it is built anew.
const NO_REVISION: i64 = -1;

/// Entries that are worth a cache: fewer are analysed in a few milliseconds.
const FEWEST: usize = 512;
/// A cache is written anew when it lacks one of so many entries.
const GROWTH: usize = 8;

/// An entry as both indexes take it.
pub(super) struct Analysed {
    passages: Vec<Document>,
    row: SparseRow,
    /// The messages it came from.
    range: (i64, i64),
    created_at: i64,
}

impl Analysed {
    pub(super) fn of(entry: &NewEntry, hash_rule: HashRule) -> Self {
        let mut passages = Vec::with_capacity(1); // nearly all have one
        let name = entry.name.as_deref();
        for_each_passage(&entry.text, &entry.role, name, entry.created_at, |terms| {
            passages.push(Document::of_sorted(terms));
        });
        Self {
            passages,
            row: counts(&entry.text, hash_rule),
            range: (entry.start, entry.end),
            created_at: entry.created_at,
        }
    }
}

/// What of an entry the lexical index looks at.
pub(super) fn fields(entry: &NewEntry) -> Fields {
    let name = entry.name.as_deref();
    Fields::of(&entry.text, &entry.role, name, entry.created_at)
}

/// What the indexes of one session hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSizes {
    /// Terms of all passages, repetitions included.
    pub words: u64,
    /// Different ones.
    pub terms: usize,
    /// Pairs of a term and a passage that has it.
    pub term_postings: usize,
    /// Pairs of a bucket and an entry that hits it.
    pub bucket_postings: usize,
    /// Entries that a cache has, so that they need not be analysed when the store is next opened.
    pub cached: usize,
}

/// One session, indexed as it was at one revision.
pub(super) struct Scope {
    hash_rule: HashRule,
    session: i64,
    revision: i64,
    /// Entries that left are noticed by this: their places are not known.
    epoch: i64,
    /// Id and time of each point, ids ascending.
    pub(super) entries: Vec<(EntryId, i64)>,
    /// Rows of the session that cannot be believed, and are in no index; ids ascending.
    damaged: Vec<EntryId>,
    pub(super) lexical: LexicalIndex,
    pub(super) cosine: ExactIndex,
    /// Vectors of an embedder, once a search wanted them.
    pub(super) dense: Option<Dense>,
    /// Where a search asked for one.
    pub(super) graph: Option<Graph>,
    /// How many of the entries a cache has: the first ones.
    kept: AtomicUsize,
}

/// Whether so many entries are worth a cache where `kept` of them are in one.
fn is_worth(entries: usize, kept: usize) -> bool {
    entries.saturating_sub(kept) >= FEWEST.max(kept / GROWTH)
}

/// The vectors that one embedder made of a session's entries, as they were at one revision.
pub(super) struct Dense {
    embedder: i64,
    revision: i64,
    pub(super) index: Box<dyn DenseIndex>,
}

impl Scope {
    /// A scope that indexes no state of any session yet.
    pub(super) fn new(hash_rule: HashRule) -> Self {
        Self {
            hash_rule,
            session: 0,
            revision: NO_REVISION,
            epoch: 0,
            entries: Vec::new(),
            damaged: Vec::new(),
            lexical: LexicalIndex::new(Bm25Params::default()),
            cosine: ExactIndex::default(),
            dense: None,
            graph: None,
            kept: AtomicUsize::new(0),
        }
    }

    /// Whether so much was analysed that is in no cache that one is worth writing.
    pub(super) fn is_worth_keeping(&self) -> bool {
        let kept = self.kept.load(Ordering::Relaxed);
        let is_whole = self.revision != NO_REVISION && self.damaged.is_empty();
        is_whole && self.graph.is_none() && is_worth(self.entries.len(), kept)
    }

    /// What a cache of it has.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            hash_rule: self.hash_rule,
            session: self.session,
            epoch: self.epoch,
            revision: self.revision,
            entries: self.entries.clone(),
            lexical: self.lexical.clone(),
            cosine: self.cosine.clone(),
        }
    }

    /// Remembers that a cache has it as it was then.
    pub(super) fn keeps(&self, snapshot: &Snapshot) {
        if (self.session, self.epoch) == (snapshot.session, snapshot.epoch) {
            self.kept.store(snapshot.entries.len(), Ordering::Relaxed);
        }
    }

    /// Begins with what a cache has of the session, instead of with nothing.
    fn restore(&mut self, known: Snapshot) {
        self.kept = AtomicUsize::new(known.entries.len());
        self.entries = known.entries;
        self.lexical = known.lexical;
        self.cosine = known.cosine;
    }

    /// Whether it indexes the session as `row` describes it.
    pub(super) fn is_of(&self, row: &SessionRow) -> bool {
        self.session == row.id && self.revision == row.revision
    }

    /// Whether a search finds the index that it needs.
    pub(super) fn has(&self, index: SearchIndex) -> bool {
        match index {
            SearchIndex::Exact => true,
            SearchIndex::Hnsw => self.graph.is_some(),
        }
    }

    /// Whether its vectors are those of that embedder, as they are at that revision.
    pub(super) fn has_vectors(&self, embedder: i64, revision: i64) -> bool {
        let known = self.dense.as_ref();
        known.is_some_and(|dense| (dense.embedder, dense.revision) == (embedder, revision))
    }

    /// Reads the vectors of that embedder that it lacks. The scope itself must have caught up.
    pub(super) fn catch_up_vectors(
        &mut self,
        connection: &Connection,
        embedder: &EmbedderRow,
    ) -> Result<()> {
        let new = || Dense {
            embedder: embedder.id,
            revision: 0,
            index: Box::new(DenseScan::new(embedder.dimension)),
        };
        let known = self.dense.take();
        let known = known.filter(|dense| dense.embedder == embedder.id);
        let mut dense = known.unwrap_or_else(new);
        // What cannot be believed, and what is not of an entry here, is left out: to a search that entry has
        // no vector, and a check finds it.
        vectors::for_each_after(connection, self.session, dense.revision, |row| {
            let point = self.entries.binary_search_by_key(&row.entry, |&(id, _)| id);
            let fits =
                row.embedder == embedder.id && vectors::is_whole(&row.numbers, embedder.dimension);
            if let Ok(Ok(point)) = point.map(u32::try_from)
                && fits
            {
                dense.index.add(point, &row.numbers);
            }
        })?;
        dense.revision = vectors::revision(connection, self.session)?;
        self.dense = Some(dense);
        Ok(())
    }

    /// Takes in what a commit added to the state `before`, and left as `after`.
    ///
    /// A scope of another state is left alone: it catches up when it is needed.
    pub(super) fn advance(
        &mut self,
        before: &SessionRow,
        after: &SessionRow,
        added: impl Iterator<Item = (EntryId, Analysed)>,
    ) {
        if !self.is_of(before) {
            return;
        }
        self.revision = NO_REVISION;
        for (id, analysed) in added {
            if self.add(id, analysed).is_err() {
                return; // of no state: the next search builds it anew, and says what is wrong
            }
        }
        self.revision = after.revision;
    }

    /// Brings it to the state that `row` describes, with the `index` that is needed: reads what is new, or
    /// everything. What would be everything begins with what `cached` gives, where that is of use.
    ///
    /// Whether so many rows were read that a cache of them is worth writing.
    pub(super) fn catch_up(
        &mut self,
        connection: &Connection,
        row: &SessionRow,
        index: SearchIndex,
        cached: impl FnOnce() -> Option<Snapshot>,
    ) -> Result<bool> {
        if !self.has(index) {
            // The rows for a graph are in the database alone.
            *self = Self::new(self.hash_rule);
            self.graph = Some(Graph::new()?);
        }
        if self.is_of(row) {
            return Ok(false);
        }
        let mut before = self.entries.len();
        let grew = self.session == row.id && self.epoch == row.epoch;
        if grew && self.revision != NO_REVISION {
            self.load(connection, row)?;
        }
        // New, half changed, of a session that was dropped since, or of one that lost entries.
        if !self.is_of(row) {
            let graph = self.graph.take();
            let is_same = self.session == row.id;
            *self = Self::new(self.hash_rule);
            self.graph = match graph {
                Some(graph) if is_same && !graph.is_mostly_gone() => Some(graph),
                Some(_) => Some(Graph::new()?),
                None => None,
            };
            self.session = row.id;
            self.epoch = row.epoch;
            before = 0;
            // A graph needs the rows.
            if self.graph.is_none()
                && let Some(known) = cached()
            {
                before = known.entries.len();
                self.restore(known);
            }
            self.load(connection, row)?;
            if let Some(graph) = &mut self.graph {
                graph.keep(&self.entries)?;
            }
        }
        if self.is_of(row) {
            return Ok(is_worth(self.entries.len(), before) && self.is_worth_keeping());
        }
        let message = format!(
            "session {:?} should have {} entries, and {} were found",
            row.name,
            row.entries,
            self.found()
        );
        Err(Error::new(ErrorKind::StoreCorrupt, message).with("table", "entry"))
    }

    /// Adds the rows after its last; it is of that state if they are then as many as they should be.
    fn load(&mut self, connection: &Connection, row: &SessionRow) -> Result<()> {
        self.revision = NO_REVISION;
        let last = self.entries.last().map(|&(id, _)| id);
        let last = last.max(self.damaged.last().copied());
        let mut outcome = Ok(());
        entry::for_each_after(
            connection,
            row.id,
            last.unwrap_or(EntryId(0)),
            |found| match found {
                Listed::Whole(stored) => {
                    let analysed = Analysed::of(&stored.entry, self.hash_rule);
                    if outcome.is_ok() {
                        outcome = self.add(stored.id, analysed);
                    }
                }
                Listed::Damaged(id) => self.damaged.push(id),
            },
        )?;
        outcome?;
        if i64::try_from(self.found()).is_ok_and(|found| found == row.entries) {
            self.revision = row.revision;
        }
        Ok(())
    }

    /// How many rows of the session it has seen.
    fn found(&self) -> usize {
        self.entries.len() + self.damaged.len()
    }

    fn add(&mut self, id: EntryId, analysed: Analysed) -> Result<()> {
        if let Some(graph) = &mut self.graph {
            graph.add(id, &analysed.row)?;
        }
        self.cosine.add(&analysed.row);
        let Analysed {
            passages,
            range,
            created_at,
            ..
        } = analysed;
        self.lexical.add(passages, range, created_at);
        self.entries.push((id, created_at));
        Ok(())
    }

    /// The rows that it leaves out because they cannot be believed.
    pub(super) fn damaged(&self) -> &[EntryId] {
        &self.damaged
    }

    /// The entries it indexes, in ascending order.
    pub(super) fn ids(&self) -> impl Iterator<Item = EntryId> {
        self.entries.iter().map(|&(id, _)| id)
    }

    /// How the lexical score of a point came about.
    pub(super) fn why(&self, query: &Query, point: u32) -> Why {
        self.lexical.why(query, point)
    }

    /// The point of an entry that it indexes.
    pub(super) fn point(&self, id: EntryId) -> Option<u32> {
        let place = self.entries.binary_search_by_key(&id, |&(id, _)| id);
        place.ok().and_then(|place| u32::try_from(place).ok())
    }

    /// How it would, without those that stand beside it and without its day.
    pub(super) fn why_alone(&self, query: &Query, point: u32) -> Why {
        self.lexical.why_alone(query, point)
    }

    /// The id of a point.
    pub(super) fn id(&self, point: u32) -> EntryId {
        self.entries[point as usize].0
    }

    /// What its indexes hold.
    pub(super) fn sizes(&self) -> IndexSizes {
        let passages = self.lexical.passages();
        IndexSizes {
            words: passages.words(),
            terms: passages.terms(),
            term_postings: passages.postings(),
            bucket_postings: self.cosine.postings(),
            cached: self.kept.load(Ordering::Relaxed),
        }
    }
}
