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
#[derive(Clone, Debug, PartialEq)]
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

impl Store {
    /// The entries that fit `query` well, and the entries stored directly beside the best of them.
    ///
    /// # Errors
    ///
    /// The errors of [`find`](Self::find).
    pub fn recall(
        &self,
        session: &SessionId,
        query: &str,
        vector: Option<&QueryVector>,
        options: &RecallOptions,
    ) -> Result<RecallFound> {
        let found = self.look(session, query, vector, &options.search, |looked| {
            let Found {
                hits,
                ranker,
                lacking,
                asked: _,
            } = looked.found;
            let is_any = !hits.is_empty();
            let (details, below) = options.details(looked.transaction, hits, looked.session)?;
            let aside = repair::count_set_aside(looked.transaction, looked.session)?;
            Ok(RecallFound {
                details,
                ranker,
                is_any,
                below,
                lacking,
                damaged: looked.damaged + aside,
            })
        })?;
        Ok(found.unwrap_or_else(|| RecallFound {
            details: Vec::new(),
            ranker: options.search.ranker,
            is_any: false,
            below: 0,
            lacking: 0,
            damaged: 0,
        }))
    }

    /// Recalls from all sessions of the namespace of `session`, or from `session` alone if it has no namespace. The
    /// entries beside the best hit are of the session of that hit.
    ///
    /// # Errors
    ///
    /// The errors of [`find_across`](Self::find_across).
    pub fn recall_across(
        &self,
        session: &SessionId,
        query: &str,
        vector: Option<&QueryVector>,
        options: &RecallOptions,
    ) -> Result<RecallAcross> {
        let Some((own, name)) = self.namespace_of(session)? else {
            let found = self.recall(session, query, vector, options)?;
            return Ok(RecallAcross::Found(found));
        };
        let Found {
            hits,
            ranker,
            lacking,
            asked: _,
        } = match self.find_across(session, query, vector, &options.search)? {
            Across::Found(found) => found,
            Across::Unread(unread) => return Ok(RecallAcross::Unread(unread)),
        };
        let is_any = !hits.is_empty();
        let met = self.scopes.namespace(&name);
        let met = met.map_or(0, |namespace| namespace.read().damaged(own));
        self.database.read(|transaction| {
            let aside = repair::count_set_aside(transaction, own)?;
            let (details, below) = options.details(transaction, hits.clone(), own)?;
            Ok(RecallAcross::Found(RecallFound {
                details,
                ranker,
                is_any,
                below,
                lacking,
                damaged: met + aside,
            }))
        })
    }
}

impl RecallOptions {
    /// Whether an entry is in the context of the asking session `own`.
    fn shows(&self, stored: &StoredEntry, own: i64) -> bool {
        stored.session == own && self.context.shows(stored.entry.start, stored.entry.end)
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
