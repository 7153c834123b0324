//! The indexes of one session in memory. The texts stay in SQLite.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::bm25::{Bm25Params, LexicalIndex, Query, Why};
use crate::id::EntryId;
use crate::index::{DenseIndex, HashedTfIndex};
use crate::memory::cached::Snapshot;
use crate::memory::expiry::Expiry;
use crate::memory::filter::{Filter, Labels};
use crate::memory::graph::Graph;
use crate::memory::reading::Reading;
use crate::memory::required_indexes::RequiredIndexes;
use crate::sqlite::SessionRow;

/// The revision of a scope that is being changed. If the change fails halfway, the scope is built again.
pub(super) const NO_REVISION: i64 = -1;

/// The least number of entries that are worth a cache. Fewer entries are analysed in a few milliseconds.
const FEWEST: usize = 512;
/// A cache is written again when it lacks more than this fraction of its entries: 1/8.
const GROWTH: usize = 8;

/// The sizes of the indexes of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSizes {
    /// Terms of all passages, repetitions included.
    pub words: u64,
    /// Different terms.
    pub terms: usize,
    /// Pairs of a term and a passage that has it.
    pub term_postings: usize,
    /// Pairs of a bucket and an entry with words in it.
    pub bucket_postings: usize,
    /// The number of entries for which the cache file has the postings of terms and of buckets. They need no analysis
    /// when the store is next opened.
    pub cached: usize,
}

/// The indexes of one session at one revision. Only indexes that a search has needed are built.
pub(super) struct Scope {
    pub(super) reading: Reading,
    pub(super) session: i64,
    pub(super) revision: i64,
    /// The session's epoch. In another epoch the session has lost entries.
    pub(super) epoch: i64,
    /// The id and the time of each point, ids ascending.
    pub(super) entries: Vec<(EntryId, i64)>,
    /// The expiry times of entries.
    pub(super) expiry: Expiry,
    /// The ids of damaged rows of the session, ascending. No index has them.
    pub(super) damaged: Vec<EntryId>,
    /// The indexes that were built. Others are empty.
    pub(super) made: RequiredIndexes,
    pub(super) lexical: LexicalIndex,
    pub(super) cosine: HashedTfIndex,
    /// The vectors of an embedder, once a search needed them.
    pub(super) dense: Option<Dense>,
    /// The graph, once a search needed it.
    pub(super) graph: Option<Graph>,
    pub(super) kept: Kept,
    /// The roles, kinds and names of the first entries, once a filter needed them.
    pub(super) labels: Labels,
    /// The time of the last search, on a clock that counts searches.
    used: AtomicU64,
}

/// Counts searches.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// The number of leading entries whose postings of terms and of buckets the cache file has.
#[derive(Debug, Default)]
pub(super) struct Kept {
    terms: AtomicUsize,
    buckets: AtomicUsize,
}

impl Kept {
    /// Records the content of a cache that was read or written.
    pub(super) fn set(&self, snapshot: &Snapshot) {
        let len = |is_there| if is_there { snapshot.entries.len() } else { 0 };
        self.terms.store(len(snapshot.has.terms), Ordering::Relaxed);
        self.buckets
            .store(len(snapshot.has.buckets), Ordering::Relaxed);
    }

    pub(super) fn lens(&self) -> [usize; 2] {
        [&self.terms, &self.buckets].map(|len| len.load(Ordering::Relaxed))
    }
}

/// Whether a cache of `entries` entries is worth writing, where an old one has the first `kept`.
pub(super) fn is_worth(entries: usize, kept: usize) -> bool {
    entries.saturating_sub(kept) >= FEWEST.max(kept / GROWTH)
}

/// The vectors of one embedder for a session's entries, at one revision.
pub(super) struct Dense {
    pub(super) embedder: i64,
    pub(super) revision: i64,
    pub(super) index: Box<dyn DenseIndex>,
}

impl Scope {
    /// A scope without the state of any session.
    pub(super) fn new(reading: Reading) -> Self {
        Self {
            reading,
            session: 0,
            revision: NO_REVISION,
            epoch: 0,
            entries: Vec::new(),
            expiry: Expiry::default(),
            damaged: Vec::new(),
            made: RequiredIndexes::NOTHING,
            lexical: LexicalIndex::new(Bm25Params::default()),
            cosine: HashedTfIndex::default(),
            dense: None,
            graph: None,
            kept: Kept::default(),
            labels: Labels::default(),
            used: AtomicU64::new(0),
        }
    }

    /// Records that it is searched now.
    pub(super) fn touch(&self) {
        let now = CLOCK.fetch_add(1, Ordering::Relaxed);
        self.used.store(now, Ordering::Relaxed);
    }

    /// The time of the last search, on the clock that counts searches.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether enough entries were analysed since the last cache to write a new one.
    pub(super) fn is_worth_keeping(&self) -> bool {
        let [terms, buckets] = self.kept.lens();
        let is_worth = |kept| is_worth(self.entries.len(), kept);
        let is_whole = self.revision != NO_REVISION && self.damaged.is_empty();
        let lacks = self.made.terms && is_worth(terms) || self.made.buckets && is_worth(buckets);
        is_whole && self.graph.is_none() && lacks
    }

    /// The indexes that the cache file has, and the scope lacks.
    pub(super) fn kept_alone(&self) -> RequiredIndexes {
        let [terms, buckets] = self.kept.lens().map(|len| len > 0);
        RequiredIndexes {
            terms,
            buckets,
            ..RequiredIndexes::NOTHING
        }
        .without(self.made)
    }

    /// The content for a cache file.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            reading: self.reading,
            session: self.session,
            epoch: self.epoch,
            revision: self.revision,
            entries: self.entries.clone(),
            expiry: self.expiry.clone(),
            has: self.made,
            lexical: self.made.terms.then(|| self.lexical.clone()),
            cosine: self.made.buckets.then(|| self.cosine.clone()),
        }
    }

    /// Records that a cache file has this snapshot.
    pub(super) fn keeps(&self, snapshot: &Snapshot) {
        if (self.session, self.epoch) == (snapshot.session, snapshot.epoch) {
            self.kept.set(snapshot);
        }
    }

    /// Whether it indexes the state of the session in `row`.
    pub(super) fn is_of(&self, row: &SessionRow) -> bool {
        self.session == row.id && self.revision == row.revision
    }

    /// The indexes that are built.
    pub(super) fn made(&self) -> RequiredIndexes {
        RequiredIndexes {
            graph: self.graph.as_ref().map(Graph::kind),
            labels: self.labels.len() == self.entries.len(),
            ..self.made
        }
    }

    /// Whether all needed indexes are built.
    pub(super) fn has(&self, needs: RequiredIndexes) -> bool {
        needs.without(self.made()).is_nothing()
    }

    /// Whether it has the vectors of that embedder at that revision.
    pub(super) fn has_vectors(&self, embedder: i64, revision: i64) -> bool {
        let known = self.dense.as_ref();
        known.is_some_and(|dense| (dense.embedder, dense.revision) == (embedder, revision))
    }

    /// Whether a point passes the filter and has not expired at `now`.
    pub(super) fn admitted<'a>(
        &'a self,
        filter: &Filter,
        now: i64,
    ) -> impl Fn(u32) -> bool + use<'a> {
        let gone = self.expiry.gone(now);
        let (since, until) = (filter.since, filter.until);
        let is_labelled = filter.is_labelled();
        let wanted = self.labels.wanted(filter);
        move |point| {
            let (_, at) = self.entries[point as usize];
            since.is_none_or(|since| at >= since)
                && until.is_none_or(|until| at < until)
                && (!is_labelled || self.labels.has(point, wanted))
                && (gone.is_empty() || gone.binary_search(&point).is_err())
        }
    }

    /// The number of rows of the session that it has read, damaged rows included.
    pub(super) fn found(&self) -> usize {
        self.entries.len() + self.damaged.len()
    }

    /// The ids of damaged rows, which are in no index.
    pub(super) fn damaged(&self) -> &[EntryId] {
        &self.damaged
    }

    /// The ids of its entries, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = EntryId> {
        self.entries.iter().map(|&(id, _)| id)
    }

    /// The parts of the lexical score of a point.
    pub(super) fn why(&self, query: &Query, point: u32) -> Why {
        self.lexical.why(query, point)
    }

    /// The parts of the lexical score of a point, without its neighbours and its day.
    pub(super) fn why_alone(&self, query: &Query, point: u32) -> Why {
        self.lexical.why_alone(query, point)
    }

    /// The point of an entry; None if the scope lacks it.
    pub(super) fn point(&self, id: EntryId) -> Option<u32> {
        let place = self.entries.binary_search_by_key(&id, |&(id, _)| id);
        place.ok().and_then(|place| u32::try_from(place).ok())
    }

    /// The approximate bytes of its entries and all of its indexes.
    pub(super) fn bytes(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<(EntryId, i64)>()
            + self.damaged.capacity() * size_of::<EntryId>();
        let dense = self.dense.as_ref().map_or(0, |dense| dense.index.bytes());
        let graph = self.graph.as_ref().map_or(0, Graph::bytes);
        let beside = dense + graph + self.labels.bytes() + self.expiry.bytes();
        entries + self.lexical.bytes() + self.cosine.bytes() + beside
    }

    /// The id of a point.
    pub(super) fn id(&self, point: u32) -> EntryId {
        self.entries[point as usize].0
    }

    /// The sizes of its indexes.
    pub(super) fn sizes(&self) -> IndexSizes {
        let passages = self.lexical.passages();
        IndexSizes {
            words: passages.words(),
            terms: passages.terms(),
            term_postings: passages.postings(),
            bucket_postings: self.cosine.postings(),
            cached: self.kept.lens().into_iter().fold(usize::MAX, usize::min),
        }
    }
}
