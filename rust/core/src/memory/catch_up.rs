//! Brings a scope to the state of its session: by the entries of a commit, from a cache, or from rows.

use std::mem;

use rusqlite::Connection;

use crate::analyse::{Fields, Gist, LanguageChoice, Speaker, for_each_passage};
use crate::bm25::Document;
use crate::embed::hashed_tf::counts;
use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryId;
use crate::index::DenseScan;
use crate::memory::cache_files::Snapshot;
use crate::memory::session_index::{
    Dense, Graph, Kept, NO_REVISION, Reading, RequiredIndexes, Scope, is_worth,
};
use crate::sqlite::entry::{self, Listed};
use crate::sqlite::{EmbedderRow, NewEntry, SessionRow, StoredEntry, vectors};
use crate::vector::SparseRow;

impl Scope {
    /// Reads the vectors of that embedder that the scope lacks. The scope itself must have caught up.
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
        // Damaged vectors and vectors of unknown entries are left out: for a search, such an entry has no vector. A
        // check reports them.
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

    /// Adds the entries of a commit that changed the state `before` to `after`.
    ///
    /// A scope of another state stays as it is, and so does a scope that got another index after the entries were
    /// analysed. It catches up at its next search.
    pub(super) fn advance(
        &mut self,
        before: &SessionRow,
        after: &SessionRow,
        added: impl Iterator<Item = (EntryId, Analysed)>,
    ) {
        let added: Vec<(EntryId, Analysed)> = added.collect();
        let needs = self.made();
        if !self.is_of(before) || !added.iter().all(|(_, each)| each.is_enough_for(needs)) {
            return;
        }
        self.revision = NO_REVISION;
        for (id, analysed) in added {
            if self.push(id, analysed).is_err() {
                return; // the scope has no state now: the next search builds it again, and reports the error
            }
        }
        self.revision = after.revision;
    }

    /// Brings the scope to the state of `row`, with the needed indexes. It reads only new rows where possible, and
    /// otherwise begins with the snapshot of `cached`, where that can be used.
    ///
    /// True if so many rows were read that a cache is worth writing.
    pub(super) fn catch_up(
        &mut self,
        connection: &Connection,
        row: &SessionRow,
        needs: RequiredIndexes,
        cached: impl Fn(RequiredIndexes) -> Option<Snapshot>,
    ) -> Result<bool> {
        if let Some(kind) = needs.graph
            && self.made().graph != Some(kind)
        {
            // Caches contain no graph, so its rows must be read from the database.
            *self = Self::new(self.reading);
            self.graph = Some(Graph::new(kind)?);
        }
        let mut first = usize::MAX;
        if self.session == row.id && self.epoch != row.epoch && self.revision != NO_REVISION {
            self.leave(connection, row)?;
            first = 0; // an older cache cannot be used
        }
        let grew = (self.session, self.epoch) == (row.id, row.epoch);
        if grew && self.revision != NO_REVISION {
            if !self.is_of(row) {
                first = first.min(self.load(connection, row, RequiredIndexes::NOTHING)?);
            }
            if self.is_of(row) && !self.has(needs) {
                first = first.min(self.follow(connection, row, needs, &cached)?);
            }
        }
        // Build the scope from the beginning if it is new, half changed, of another session, or wrong. A cache may be
        // wrong as well, so a second attempt does without it.
        for from_cache in [true, false] {
            if self.is_of(row) {
                break;
            }
            self.begin_anew(row)?;
            let cached = |needs| cached(needs).filter(|_| from_cache);
            first = self.follow(connection, row, needs, cached)?;
            if let Some(graph) = &mut self.graph {
                graph.retain(&self.entries)?;
            }
            if self.kept.lens() == [0; 2] {
                break; // everything was read from rows, so a second attempt would give the same
            }
        }
        if self.is_of(row) {
            if needs.labels {
                self.follow_labels(connection)?;
            }
            return Ok(is_worth(self.entries.len(), first) && self.is_worth_keeping());
        }
        let message = format!(
            "session {:?} should have {} entries, and {} were found",
            row.name,
            row.entries,
            self.found()
        );
        Err(Error::new(ErrorKind::StoreCorrupt, message).with("table", "entry"))
    }

    /// Reads the roles, kinds and names that the scope lacks.
    fn follow_labels(&mut self, connection: &Connection) -> Result<()> {
        let known = self.labels.len();
        let after = known
            .checked_sub(1)
            .map_or(EntryId(0), |last| self.entries[last].0);
        let mut lacking = self.entries[known..].iter().map(|&(id, _)| id).peekable();
        let labels = &mut self.labels;
        entry::for_each_label(connection, self.session, after, |id, role, kind, name| {
            if lacking.next_if_eq(&id).is_some() {
                labels.push(role, kind, name);
            }
        })?;
        if lacking.next().is_none() {
            return Ok(());
        }
        let message = "entries that are indexed are not listed";
        Err(Error::new(ErrorKind::StoreCorrupt, message).with("table", "entry"))
    }

    /// Removes deleted entries from all indexes, which then equal indexes that never had them. An entry never changes,
    /// so the postings of the other entries stay right.
    ///
    /// Only the ids of rows are read. Where the list of ids is damaged, the scope has no state afterwards.
    fn leave(&mut self, connection: &Connection, row: &SessionRow) -> Result<()> {
        let before = mem::replace(&mut self.revision, NO_REVISION);
        let left = match entry::ids(connection, row) {
            Err(error) if error.kind() == ErrorKind::StoreCorrupt => return Ok(()),
            left => left?,
        };
        let stays = |id: &EntryId| left.binary_search(id).is_ok();
        self.only(|id| stays(&id));
        self.damaged.retain(|id| stays(id));
        self.kept = Kept::default();
        if let Some(graph) = &mut self.graph {
            graph.retain(&self.entries)?;
            if graph.is_mostly_gone() {
                return Ok(());
            }
        }
        self.epoch = row.epoch;
        self.revision = before;
        Ok(())
    }

    /// Removes entries that do not stay from the indexes, except from a graph. The others are numbered again.
    pub(super) fn only(&mut self, stays: impl Fn(EntryId) -> bool) {
        let numbered = (0..).zip(&self.entries);
        let points: Vec<(u32, i64)> = numbered
            .filter(|(_, (id, _))| stays(*id))
            .map(|(point, &(_, created_at))| (point, created_at))
            .collect();
        if self.made.terms {
            self.lexical = self.lexical.only(points.iter().copied());
        }
        if self.made.buckets {
            self.cosine = self.cosine.only(points.iter().map(|&(point, _)| point));
        }
        self.labels.only(&self.entries, &stays);
        self.expiry.only(&points);
        self.repeats.only(&points);
        self.entries.retain(|(id, _)| stays(*id));
        self.dense = None; // vectors have the old numbers of entries
    }

    /// Adds an entry to the existing indexes.
    pub(super) fn push(&mut self, id: EntryId, analysed: Analysed) -> Result<()> {
        self.expiry.push(self.entries.len(), analysed.expires_at);
        self.repeats.push(analysed.gist);
        self.entries.push((id, analysed.created_at));
        self.add(id, analysed, self.made())
    }

    /// Empties the scope. A graph of the same session stays, and the rows that are read next are looked up in it.
    fn begin_anew(&mut self, row: &SessionRow) -> Result<()> {
        let graph = self.graph.take();
        let is_same = self.session == row.id;
        *self = Self::new(self.reading);
        self.graph = match graph {
            Some(graph) if is_same && !graph.is_mostly_gone() => Some(graph),
            Some(graph) => Some(Graph::new(graph.kind())?),
            None => None,
        };
        self.session = row.id;
        self.epoch = row.epoch;
        Ok(())
    }

    /// Makes the needed indexes that are missing, from `cached` and from rows. Gives the position of the first entry
    /// that was read from rows.
    fn follow(
        &mut self,
        connection: &Connection,
        row: &SessionRow,
        needs: RequiredIndexes,
        cached: impl Fn(RequiredIndexes) -> Option<Snapshot>,
    ) -> Result<usize> {
        let missing = RequiredIndexes {
            graph: None,
            labels: false,
            ..needs.without(self.made())
        };
        let is_new = self.entries.is_empty() && self.graph.is_none();
        if (is_new || !missing.is_nothing())
            && let Some(known) = cached(missing)
        {
            self.restore(known);
        }
        self.load(connection, row, needs)
    }

    /// Adds the rows after the last entry; for an index that lacks earlier entries, it also reads their rows. The scope
    /// gets the revision of `row` if the number of entries is right afterwards. Gives the position of the first entry
    /// that was read.
    fn load(
        &mut self,
        connection: &Connection,
        row: &SessionRow,
        needs: RequiredIndexes,
    ) -> Result<usize> {
        self.revision = NO_REVISION;
        self.made = RequiredIndexes {
            graph: None,
            labels: false,
            ..self.made.and(needs)
        };
        let (terms, buckets) = (self.lexical.len(), self.cosine.len());
        let first = [(self.made.terms, terms), (self.made.buckets, buckets)]
            .iter()
            .filter(|(is_made, _)| *is_made)
            .fold(self.entries.len(), |least, (_, len)| least.min(*len));
        let last = self.entries[..first].last().map(|&(id, _)| id);
        let damaged = self.damaged.last().copied();
        let last = last.max(damaged.filter(|_| first == self.entries.len()));
        let (mut place, mut outcome) = (first, Ok(true));
        entry::for_each_after(
            connection,
            row.id,
            last.unwrap_or(EntryId(0)),
            |found| match found {
                Listed::Whole(stored) => {
                    if matches!(outcome, Ok(true)) {
                        outcome = self.take(place, &stored);
                        place += 1;
                    }
                }
                Listed::Damaged(id) => {
                    if let Err(place) = self.damaged.binary_search(&id) {
                        self.damaged.insert(place, id);
                    }
                }
            },
        )?;
        let is_whole = outcome? && place == self.entries.len();
        if is_whole && i64::try_from(self.found()).is_ok_and(|found| found == row.entries) {
            self.revision = row.revision;
        }
        Ok(first)
    }

    /// Adds a row to the indexes that lack it: the entry at `place`, or a new entry. False if another entry is at
    /// `place`.
    fn take(&mut self, place: usize, stored: &StoredEntry) -> Result<bool> {
        let Some(&(known, _)) = self.entries.get(place) else {
            let analysed = Analysed::of(&stored.entry, self.reading, self.made());
            return self.push(stored.id, analysed).map(|()| true);
        };
        if known == stored.id {
            let needs = RequiredIndexes {
                terms: self.made.terms && self.lexical.len() == place,
                buckets: self.made.buckets && self.cosine.len() == place,
                ..RequiredIndexes::NOTHING
            };
            let analysed = Analysed::of(&stored.entry, self.reading, needs);
            self.add(stored.id, analysed, needs)?;
        }
        Ok(known == stored.id)
    }

    /// Takes the indexes of a cache, if the scope is empty or its entries begin with those of the cache.
    fn restore(&mut self, known: Snapshot) {
        let is_first = self.entries.is_empty() && self.damaged.is_empty() && self.graph.is_none();
        if !is_first && !self.entries.starts_with(&known.entries) {
            return;
        }
        self.kept.set(&known);
        if is_first {
            self.entries = known.entries;
            self.expiry = known.expiry;
            self.repeats = known.repeats;
        }
        if let Some(lexical) = known.lexical {
            self.lexical = lexical;
            self.made.terms = true;
        }
        if let Some(cosine) = known.cosine {
            self.cosine = cosine;
            self.made.buckets = true;
        }
    }

    /// Adds the next entry to the indexes `needs`.
    fn add(&mut self, id: EntryId, analysed: Analysed, needs: RequiredIndexes) -> Result<()> {
        if let Some(row) = &analysed.row {
            if let Some(graph) = self.graph.as_mut().filter(|_| needs.graph.is_some()) {
                graph.add(id, row)?;
            }
            if needs.buckets {
                self.cosine.add(row);
            }
        }
        if let Some(passages) = analysed.passages.filter(|_| needs.terms) {
            let (range, created_at) = (analysed.range, analysed.created_at);
            let speaker = analysed.speaker.as_ref();
            self.lexical.add_said(passages, range, created_at, speaker);
        }
        Ok(())
    }
}

// An entry in the form that the indexes of its session take.

/// An entry after analysis, for the indexes that need it.
pub(super) struct Analysed {
    /// Its passages, for the postings of terms.
    pub(super) passages: Option<Vec<Document>>,
    /// Its bucket counts, for the postings of buckets and for the graph.
    pub(super) row: Option<SparseRow>,
    /// Its speaker, for the postings of terms.
    pub(super) speaker: Option<Speaker>,
    /// The messages it came from.
    pub(super) range: (i64, i64),
    pub(super) created_at: i64,
    pub(super) expires_at: Option<i64>,
    pub(super) gist: Gist,
}

impl Analysed {
    /// Analyses `entry` for the indexes of `needs`.
    pub(super) fn of(entry: &NewEntry, reading: Reading, needs: RequiredIndexes) -> Self {
        let passages = || {
            let mut passages = Vec::with_capacity(1); // nearly all have one
            let name = entry.name.as_deref();
            for_each_passage(
                &entry.text,
                &entry.role,
                name,
                entry.created_at,
                reading.languages,
                |terms, words, language| {
                    passages.push(Document::of_text(terms, words, language));
                },
            );
            passages
        };
        let has_row = needs.buckets || needs.graph.is_some();
        Self {
            passages: needs.terms.then(passages),
            speaker: needs
                .terms
                .then(|| Speaker::of(&entry.role, entry.name.as_deref(), &entry.kind))
                .flatten(),
            row: has_row.then(|| counts(&entry.text, reading.hash_rule)),
            range: (entry.start, entry.end),
            created_at: entry.created_at,
            expires_at: entry.expires_at,
            gist: Gist::of(&entry.text),
        }
    }

    /// Whether the analysis covers these indexes.
    fn is_enough_for(&self, needs: RequiredIndexes) -> bool {
        let has_row = needs.buckets || needs.graph.is_some();
        (!needs.terms || self.passages.is_some()) && (!has_row || self.row.is_some())
    }
}

/// The fields of an entry that the lexical index reads.
pub(super) fn fields(entry: &NewEntry, languages: LanguageChoice) -> Fields {
    let name = entry.name.as_deref();
    Fields::of(&entry.text, &entry.role, name, entry.created_at, languages)
}
