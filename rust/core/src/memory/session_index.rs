//! The indexes of one session in memory: exact, by terms, by vectors and as a graph. The texts stay in SQLite.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashMap;

use crate::analyse::{Gist, LanguageChoice};
use crate::bm25::{Bm25Params, LexicalIndex, Query, Why};
use crate::embed::hash::HashRule;
use crate::error::Result;
use crate::id::EntryId;
use crate::index::{DenseIndex, GraphIndex, HashedTfIndex, NewGraph};
use crate::memory::cache_files::Snapshot;
use crate::memory::options::{Filter, Labels};
use crate::sqlite::SessionRow;
use crate::vector::SparseRow;

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
    /// The points with equal and nearly equal texts.
    pub(super) repeats: Repeats,
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
            repeats: Repeats::default(),
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
            repeats: self.repeats.clone(),
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

    /// How often the text of a hit was said, and when: of the points that pass, those that are one hit with it. None
    /// where it was said once.
    pub(super) fn repeated(
        &self,
        point: u32,
        key: u64,
        admits: &dyn Fn(u32) -> bool,
    ) -> Option<Repeated> {
        let mut found: Option<Repeated> = None;
        for each in self.repeats.alike(point, key).filter(|&each| admits(each)) {
            let (_, at) = self.entries[each as usize];
            let known = found.get_or_insert(Repeated {
                times: 0,
                first: at,
                last: at,
            });
            known.times += 1;
            known.first = known.first.min(at);
            known.last = known.last.max(at);
        }
        found.filter(|found| found.times > 1)
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
        let beside = beside + self.repeats.bytes();
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

// The graph over the rows of one session, for searches that ask for a graph.
//
// The first such search builds it from the rows of the database. Later writes are added to it. When entries are
// deleted, their rows are removed from it.

/// The approximate bytes of a row: some 50 counts, and its links.
const ROW_BYTES: usize = 640;

/// The rows of bucket counts, one for each entry, and the graph over them.
pub(super) struct Graph {
    kind: NewGraph,
    index: Box<dyn GraphIndex>,
    /// The entry of each row that was added.
    entries: Vec<EntryId>,
    /// The row of each entry that was not removed.
    rows: HashMap<EntryId, u32>,
}

impl Graph {
    /// An empty graph.
    pub(super) fn new(kind: NewGraph) -> Result<Self> {
        Ok(Self {
            kind,
            index: kind.make()?,
            entries: Vec::new(),
            rows: HashMap::new(),
        })
    }

    /// Its approximate bytes.
    pub(super) fn bytes(&self) -> usize {
        self.entries.len() * ROW_BYTES
    }

    /// The kind of the graph.
    pub(super) fn kind(&self) -> NewGraph {
        self.kind
    }

    /// Adds the row of an entry. An entry that the graph has already is skipped, because its text never changes.
    pub(super) fn add(&mut self, id: EntryId, row: &SparseRow) -> Result<()> {
        if !self.rows.contains_key(&id) {
            let added = self.index.add(row)?;
            self.entries.push(id);
            self.rows.insert(id, added);
        }
        Ok(())
    }

    /// Removes the rows of entries that are not in `left`, which ascends.
    pub(super) fn retain(&mut self, left: &[(EntryId, i64)]) -> Result<()> {
        let is_left = |id: EntryId| left.binary_search_by_key(&id, |&(id, _)| id).is_ok();
        let gone = self.rows.extract_if(|&id, _| !is_left(id));
        let gone: Vec<u32> = gone.map(|(_, row)| row).collect();
        self.index.remove(&gone)
    }

    /// Whether most of its rows were removed. A new graph takes less memory then.
    pub(super) fn is_mostly_gone(&self) -> bool {
        self.rows.len() < self.entries.len() / 2
    }

    /// The nearest entries that share a bucket with `row`, with their distances. It gives `limit` of them and some
    /// more, so that the caller can settle ties and the effect of age.
    pub(super) fn nearest(
        &self,
        row: &SparseRow,
        limit: usize,
    ) -> impl Iterator<Item = (EntryId, f64)> {
        let found = self.index.nearest(row, limit);
        found
            .into_iter()
            .filter(|neighbor| neighbor.distance < 1.0)
            .map(|neighbor| (self.entries[neighbor.id as usize], neighbor.distance))
    }
}

// The expiry times of entries.

/// The points of a scope that expire, ascending, each with its time in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Expiry {
    points: Vec<(u32, i64)>,
    soonest: Option<i64>,
}

impl Expiry {
    /// The same from a list of points and times. None if the points do not ascend.
    pub(super) fn of(points: Vec<(u32, i64)>) -> Option<Self> {
        let ascends = points.is_sorted_by(|one, next| one.0 < next.0);
        let soonest = points.iter().map(|&(_, at)| at).min();
        ascends.then_some(Self { points, soonest })
    }

    /// Adds the next point; a point without a time never expires.
    pub(super) fn push(&mut self, point: usize, at: Option<i64>) {
        if let (Some(at), Ok(point)) = (at, u32::try_from(point)) {
            self.points.push((point, at));
            self.soonest = Some(self.soonest.map_or(at, |soonest| soonest.min(at)));
        }
    }

    /// The points that expire, each with its time.
    pub(super) fn points(&self) -> &[(u32, i64)] {
        &self.points
    }

    /// Its approximate bytes.
    pub(super) fn bytes(&self) -> usize {
        self.points.capacity() * size_of::<(u32, i64)>()
    }

    /// The points that have expired at `now`, ascending.
    pub(super) fn gone(&self, now: i64) -> Vec<u32> {
        match self.soonest {
            Some(soonest) if soonest <= now => {
                let gone = self.points.iter().filter(|&&(_, at)| at <= now);
                gone.map(|&(point, _)| point).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Keeps only points that are in `left`, which ascends. A point's new number is its position in `left`.
    pub(super) fn only(&mut self, left: &[(u32, i64)]) {
        let place = |point: u32| {
            let place = left.binary_search_by_key(&point, |&(point, _)| point);
            place.ok().and_then(|place| u32::try_from(place).ok())
        };
        let points = self.points.iter();
        let points = points.filter_map(|&(point, at)| Some((place(point)?, at)));
        self.points = points.collect();
        self.soonest = self.points.iter().map(|&(_, at)| at).min();
    }
}

// Texts that were said more than once.

/// So many nearly equal texts are lines of a log, and are one hit: fewer may each state something.
const LINES: u32 = 20;

/// How often the text of a hit was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// 2 or more.
    pub times: u32,
    /// The first time, in milliseconds since 1970.
    pub first: i64,
    /// The last time.
    pub last: i64,
}

/// The gists of the points of a scope, and which of them are alike.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats {
    gists: Vec<Gist>,
    /// The point of the same shape before each point; itself for the first.
    before: Vec<u32>,
    /// The last point of each shape, and how many there are.
    last: HashMap<u64, (u32, u32)>,
}

impl Repeats {
    /// The gists of the points.
    pub(super) fn gists(&self) -> &[Gist] {
        &self.gists
    }

    /// Adds the next point.
    pub(super) fn push(&mut self, gist: Gist) {
        let point = u32::try_from(self.gists.len()).unwrap_or(u32::MAX);
        let (last, count) = self.last.entry(gist.shape).or_insert((point, 0));
        self.before.push(*last);
        (*last, *count) = (point, *count + 1);
        self.gists.push(gist);
    }

    /// Its approximate bytes.
    fn bytes(&self) -> usize {
        self.gists.capacity() * (size_of::<Gist>() + size_of::<u32>())
            + self.last.capacity() * size_of::<(u64, (u32, u32))>()
    }

    /// Keeps only these points, which get new numbers.
    pub(super) fn only(&mut self, left: &[(u32, i64)]) {
        let left = left.iter().map(|&(point, _)| self.gists[point as usize]);
        *self = left.collect();
    }

    /// Whether a point is a line of a log: many texts are nearly equal to it.
    pub(super) fn is_line(&self, point: u32) -> bool {
        self.last[&self.gists[point as usize].shape].1 >= LINES
    }

    /// The key of a point: points with the same key are one hit. If it `joins` lines of a log, theirs is their shape.
    pub(super) fn key(&self, point: u32, joins: bool) -> u64 {
        let gist = self.gists[point as usize];
        if joins && self.is_line(point) {
            gist.shape
        } else {
            gist.whole
        }
    }

    /// The points that are one hit with a point of that key, the newest first.
    fn alike(&self, point: u32, key: u64) -> impl Iterator<Item = u32> {
        let shape = self.gists[point as usize].shape;
        let (last, _) = self.last[&shape];
        let before =
            |&point: &u32| Some(self.before[point as usize]).filter(|&other| other != point);
        let all = std::iter::successors(Some(last), before);
        all.filter(move |&each| key == shape || self.gists[each as usize].whole == key)
    }
}

impl FromIterator<Gist> for Repeats {
    fn from_iter<T: IntoIterator<Item = Gist>>(gists: T) -> Self {
        let mut made = Self::default();
        gists.into_iter().for_each(|gist| made.push(gist));
        made
    }
}

// A set of the indexes of one session: the indexes that a search needs, or those in memory.

/// Some of the indexes of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequiredIndexes {
    /// The postings of terms, with the neighbours and the days of entries.
    pub(super) terms: bool,
    /// The postings of buckets, for the hashed embedding.
    pub(super) buckets: bool,
    /// A graph of that kind over the rows of buckets.
    pub(super) graph: Option<NewGraph>,
    /// The role, kind and name of each entry, for filters. Cache files do not contain them.
    pub(super) labels: bool,
}

impl RequiredIndexes {
    /// No index: only the list of entries.
    pub(super) const NOTHING: Self = Self {
        terms: false,
        buckets: false,
        graph: None,
        labels: false,
    };
    pub(super) const TERMS: Self = Self {
        terms: true,
        ..Self::NOTHING
    };
    pub(super) const BUCKETS: Self = Self {
        buckets: true,
        ..Self::NOTHING
    };
    /// The indexes that an exact search may need.
    pub(super) const BOTH: Self = Self {
        terms: true,
        buckets: true,
        ..Self::NOTHING
    };

    /// A graph of that kind.
    pub(super) fn graph(kind: NewGraph) -> Self {
        Self {
            graph: Some(kind),
            ..Self::NOTHING
        }
    }

    /// The union with `other`. Of two graphs, this one's stays.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            terms: self.terms || other.terms,
            buckets: self.buckets || other.buckets,
            graph: self.graph.or(other.graph),
            labels: self.labels || other.labels,
        }
    }

    /// These without those of `other`.
    pub(super) fn without(self, other: Self) -> Self {
        Self {
            terms: self.terms && !other.terms,
            buckets: self.buckets && !other.buckets,
            graph: self.graph.filter(|&kind| other.graph != Some(kind)),
            labels: self.labels && !other.labels,
        }
    }

    /// Whether the set is empty.
    pub(super) fn is_nothing(self) -> bool {
        self == Self::NOTHING
    }
}

// The rules by which a store reads texts. They are chosen when the store is made, or later.

/// The rules by which texts become rows of the indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// The rule of the hashed embedding.
    pub(super) hash_rule: HashRule,
    /// The languages in which terms are read.
    pub(super) languages: LanguageChoice,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_gone_from_that_moment_on() {
        let mut expiry = Expiry::default();
        for (point, at) in [
            (0, None),
            (1, Some(20)),
            (2, Some(10)),
            (3, None),
            (4, Some(20)),
        ] {
            expiry.push(point, at);
        }
        assert_eq!(expiry.gone(9), []);
        assert_eq!(expiry.gone(10), [2]);
        assert_eq!(expiry.gone(20), [1, 2, 4]);
        expiry.only(&[(0, 7), (2, 7), (4, 7)]);
        assert_eq!(expiry.points(), [(1, 10), (2, 20)]);
        expiry.only(&[(2, 7)]);
        assert_eq!((expiry.gone(19), expiry.gone(20)), (vec![], vec![0]));
        assert_eq!(Expiry::of(vec![(0, 20)]), Some(expiry));
        assert_eq!(Expiry::of(vec![(1, 5), (1, 6)]), None);
    }
}
