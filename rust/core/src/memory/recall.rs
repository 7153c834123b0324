//! Recall: the entries of a session that fit a query well and are not in its context.

use crate::error::{ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::namespace_search::{Across, Unread};
use crate::memory::options::{QueryVector, Ranker, SearchOptions};
use crate::memory::search::{Found, Hit};
use crate::memory::store::Store;
use crate::recall_block::Detail;
use crate::sqlite::{StoredEntry, Transaction, entry, repair};

/// The conditions of a recall.
#[derive(Clone, Debug, Default)]
pub struct RecallOptions {
    /// The options of the search.
    pub search: SearchOptions,
    /// The least score of the best hit. If no hit reaches it, nothing is recalled.
    pub least: f64,
    /// The share of `least` that every other hit must reach.
    pub share: f64,
    /// The number of neighbours on either side of the best hit that are recalled with it.
    pub distance: i64,
    /// The share of the best hit's score that each step away from it costs.
    pub step: f64,
    /// The messages that are in context, which are not recalled.
    pub context: InContext,
    /// Whether the namespace of the session is searched. Otherwise it is the session alone.
    pub is_across: bool,
}

/// Tells which messages of the asking session are in its context: all of its log, but for what is named here.
#[derive(Clone, Debug, Default)]
pub struct InContext {
    /// The end of its log.
    pub end: i64,
    /// The messages that have left the context: disjoint, ascending ranges.
    pub left: Vec<(i64, i64)>,
    /// Messages of which only a part is in context, ascending.
    pub cut: Vec<i64>,
}

impl InContext {
    /// Whether one of the messages `start..end` is in context in full.
    fn shows(&self, start: i64, end: i64) -> bool {
        if end - start == 1 && self.cut.binary_search(&start).is_ok() {
            return false;
        }
        let (mut at, end) = (start, end.min(self.end));
        let first = self.left.partition_point(|&(_, end)| end <= start);
        for &(from, to) in &self.left[first..] {
            if from > at {
                break;
            }
            at = to;
        }
        at < end
    }
}

/// The result of a recall.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecallFound {
    /// The entries, each once.
    pub details: Vec<Detail>,
    /// The ranker that scored them; see [`Found`](super::Found).
    pub ranker: Ranker,
    /// Whether the search had any hit.
    pub is_any: bool,
    /// The number of hits that are not in context, and whose score is too low.
    pub below: usize,
    /// The number of entries without a vector, if the ranker uses vectors.
    pub lacking: usize,
    /// The number of entries with wrong checksums, which are not found: those that this search met, and those that a
    /// repair set aside before.
    pub damaged: usize,
}

/// The result of a recall in a namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum RecallAcross {
    /// The entries.
    Found(RecallFound),
    /// Messages whose texts the caller must read first; see [`Across::Unread`].
    Unread(Vec<Unread>),
}

impl RecallFound {
    /// Adds what another query found. An entry keeps its best score, and is of the shorter query that found it.
    fn add(&mut self, other: Self, size: impl Fn(usize) -> usize) {
        for each in other.details {
            let is_same = |known: &&mut Detail| known.id == each.id && known.id.0 != 0;
            let Some(known) = self.details.iter_mut().find(is_same) else {
                self.details.push(each);
                continue;
            };
            let asked = [each.asked, known.asked].into_iter();
            let asked = asked.min_by_key(|&place| size(place));
            if known.score < each.score {
                *known = each;
            }
            known.asked = asked.unwrap_or(0);
        }
        self.is_any |= other.is_any;
        self.below += other.below;
        (self.ranker, self.lacking, self.damaged) = (other.ranker, other.lacking, other.damaged);
    }
}

impl Store {
    /// The entries that fit one of `queries` well, each once, and the entries stored directly beside the best of each
    /// query: of `session` alone, or of its namespace. Each query comes with its vector, if it has one.
    ///
    /// # Errors
    ///
    /// The errors of [`find_across`](Self::find_across).
    pub fn recall(
        &self,
        session: &SessionId,
        queries: &[(&str, Option<QueryVector>)],
        options: &RecallOptions,
    ) -> Result<RecallAcross> {
        let mut all = RecallFound::default();
        for (place, (query, vector)) in queries.iter().enumerate() {
            let recalled = self.recall_one(session, query, vector.as_ref(), options)?;
            let mut found = match recalled {
                RecallAcross::Found(found) => found,
                unread @ RecallAcross::Unread(_) => return Ok(unread),
            };
            for detail in &mut found.details {
                detail.asked = place;
            }
            all.add(found, |place| queries[place].0.chars().count());
        }
        Ok(RecallAcross::Found(all))
    }

    fn recall_one(
        &self,
        session: &SessionId,
        query: &str,
        vector: Option<&QueryVector>,
        options: &RecallOptions,
    ) -> Result<RecallAcross> {
        let namespace = if options.is_across {
            self.namespace_of(session)?
        } else {
            None
        };
        let Some((own, name)) = namespace else {
            let found = self.look(session, query, vector, &options.search, |looked| {
                options.found(
                    looked.transaction,
                    looked.session,
                    looked.found,
                    looked.damaged,
                )
            })?;
            return Ok(RecallAcross::Found(found.unwrap_or_default()));
        };
        let found = match self.find_across(session, query, vector, &options.search)? {
            Across::Found(found) => found,
            Across::Unread(unread) => return Ok(RecallAcross::Unread(unread)),
        };
        let met = self.scopes.namespace(&name);
        let met = met.map_or(0, |namespace| namespace.read().damaged(own));
        self.database.read(|transaction| {
            let found = options.found(transaction, own, found.clone(), met)?;
            Ok(RecallAcross::Found(found))
        })
    }
}

impl RecallOptions {
    /// Whether an entry is in the context of the asking session `own`.
    fn shows(&self, stored: &StoredEntry, own: i64) -> bool {
        stored.session == own && self.context.shows(stored.entry.start, stored.entry.end)
    }

    /// The relevant ones of the hits of session `own`, which has met so many damaged entries.
    fn found(
        &self,
        transaction: &Transaction<'_>,
        own: i64,
        found: Found,
        damaged: usize,
    ) -> Result<RecallFound> {
        let is_any = !found.hits.is_empty();
        let (details, below) = self.details(transaction, found.hits, own)?;
        Ok(RecallFound {
            details,
            ranker: found.ranker,
            is_any,
            below,
            lacking: found.lacking,
            damaged: damaged + repair::count_set_aside(transaction, own)?,
        })
    }

    /// The relevant hits with the entries beside the best of them, and the number of hits that score too little.
    fn details(
        &self,
        transaction: &Transaction<'_>,
        hits: Vec<Hit>,
        own: i64,
    ) -> Result<(Vec<Detail>, usize)> {
        let (hits, below) = self.relevant(hits, own);
        let best = hits.first().map(|hit| (hit.stored.id, hit.score));
        let home = hits.first().map(|hit| hit.stored.session);
        let details = hits.into_iter().map(|hit| detail(hit.stored, hit.score));
        let mut details: Vec<Detail> = details.collect();
        // A message in context has no entry, so there are no entries beside it.
        if let Some((best, home)) = best.zip(home).filter(|((id, _), _)| id.0 > 0) {
            let near = beside(transaction, home, best.0, self)?;
            self.add(&mut details, best, near, own);
        }
        Ok((details, below))
    }

    /// The hits that are not in context and score high enough, and the number of hits that score too little. If the
    /// best hit scores too low, there are none.
    fn relevant(&self, mut hits: Vec<Hit>, own: i64) -> (Vec<Hit>, usize) {
        hits.retain(|hit| !self.shows(&hit.stored, own));
        let all = hits.len();
        let mut least = self.least;
        if hits.iter().any(|hit| hit.score >= least) {
            least *= self.share;
        }
        hits.retain(|hit| hit.score >= least);
        let below = all - hits.len();
        (hits, below)
    }

    /// Adds the entries beside the best hit. On either side, an entry in context ends the row.
    fn add(
        &self,
        details: &mut Vec<Detail>,
        best: (EntryId, f64),
        near: Vec<(i64, StoredEntry)>,
        own: i64,
    ) {
        let (id, score) = best;
        let mut ended = [false; 2];
        for (away, stored) in near {
            let side = usize::from(stored.id > id);
            ended[side] |= self.shows(&stored, own);
            if ended[side] {
                continue;
            }
            #[expect(clippy::cast_precision_loss, reason = "a handful of steps")]
            let score = score * (1.0 - self.step * away as f64).max(0.0);
            match details.iter_mut().find(|known| known.id == stored.id) {
                Some(known) => known.score = known.score.max(score),
                None => details.push(detail(stored, score)),
            }
        }
    }
}

/// The entries of the session with the ids directly before and after `id`, each with its distance: first the
/// entries before it, then those after it, each side nearest first. A missing, damaged or expired entry ends its side.
fn beside(
    transaction: &Transaction<'_>,
    session: i64,
    id: EntryId,
    options: &RecallOptions,
) -> Result<Vec<(i64, StoredEntry)>> {
    let mut found = Vec::new();
    let mut entries = entry::Reader::of(transaction)?;
    for side in [-1, 1] {
        for away in 1..=options.distance {
            let near = id.0.checked_add(side * away).map(EntryId);
            let stored = match near.map_or(Ok(None), |near| entries.get(near)) {
                Err(error) if error.kind() == ErrorKind::StoreCorrupt => None,
                stored => stored?,
            };
            let now = options.search.now;
            let is_there =
                |stored: &StoredEntry| stored.session == session && !stored.entry.is_expired(now);
            let Some(stored) = stored.filter(is_there) else {
                break;
            };
            found.push((away, stored));
        }
    }
    Ok(found)
}

fn detail(stored: StoredEntry, score: f64) -> Detail {
    let StoredEntry {
        id: EntryId(id),
        entry,
        ..
    } = stored;
    Detail {
        id: EntryId(id),
        text: entry.text,
        role: entry.role,
        created_at: entry.created_at,
        score,
        asked: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_left_is_not_shown() {
        let context = InContext {
            end: 20,
            left: vec![(0, 4), (4, 6), (8, 10)],
            cut: vec![12],
        };
        let shown = [(6, 7), (5, 7), (3, 9), (10, 11), (12, 14), (19, 25), (0, 7)];
        let gone = [(0, 6), (2, 5), (8, 10), (12, 13), (20, 30), (5, 5), (3, 6)];
        for (start, end) in shown {
            assert!(context.shows(start, end), "{start}..{end}");
        }
        for (start, end) in gone {
            assert!(!context.shows(start, end), "{start}..{end}");
        }
    }
}
