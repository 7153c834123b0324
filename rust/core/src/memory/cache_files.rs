//! The caches of a store: one file for each session, in a directory beside the database, with the indexes of
//! the session.
//!
//! Caches are disposable. Failures here are not reported: a search then reads the rows instead.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use hashbrown::HashMap;
use parking_lot::Mutex;
use rusqlite::Connection;

use crate::analyse::{self, Gist};
use crate::bm25::{Bm25Params, LexicalIndex};
use crate::cache::{Reader, Writer};
use crate::error::Result;
use crate::id::{EntryId, SessionId};
use crate::index::HashedTfIndex;
use crate::memory::session_index::{Expiry, Reading, Repeats, RequiredIndexes};
use crate::memory::store::Store;
use crate::sqlite::{Finding, SessionRow, files, meta, session};
use crate::tokenize::words;
use crate::whole_file::{self, UNFINISHED};

/// The suffix of a cache's name, and of a file that is being written.
const ENDS: [&str; 2] = [".postings", UNFINISHED];

/// Bytes of one write. The system keeps data that is written in large pieces in large pages, which are fast to map.
const BUFFER: usize = 4 << 20;

/// Bytes that are synced at once, which takes some milliseconds.
const PIECE: usize = 1 << 20;

/// The directory of the caches of a store.
pub(super) struct Caches {
    /// None for a store in memory, which has no caches.
    directory: Option<PathBuf>,
    /// The permissions of the files, which are those of the database.
    mode: Option<u32>,
    /// Held while a cache is written. One at a time, because commits of the store wait for the same disk.
    turn: Mutex<()>,
}

/// A file that is synced piece by piece while it is written. A commit in between waits for one piece. Without this,
/// the system could write the whole file to the disk before the commit.
struct Paced(File);

impl Write for Paced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(&bytes[..bytes.len().min(PIECE)])?;
        self.0.sync_data()?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Caches {
    /// The caches beside the database `file`. The directory is made with the first cache.
    pub(super) fn beside(file: &Path) -> Self {
        Self {
            directory: Some(file.with_file_name("cache")),
            mode: files::mode_of(file),
            turn: Mutex::new(()),
        }
    }

    /// No caches, for a store in memory.
    pub(super) fn none() -> Self {
        Self {
            directory: None,
            mode: None,
            turn: Mutex::new(()),
        }
    }

    /// Reads the needed indexes from the session's file of that checksum. None if the file cannot be used.
    pub(super) fn read(
        &self,
        row: &SessionRow,
        checksum: u64,
        reading: Reading,
        needs: RequiredIndexes,
    ) -> Option<Snapshot> {
        let reader = Reader::open(&self.path(row.id, checksum)?, checksum)?;
        Snapshot::read(&reader, row, reading, needs)
    }

    /// Writes a cache file, which gets its name when it is complete. Gives its checksum.
    pub(super) fn write(&self, snapshot: &Snapshot) -> io::Result<u64> {
        let Some(directory) = &self.directory else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        match files::make_directory(directory, self.mode) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let _turn = self.turn.lock();
        let prefix = format!("{}-", snapshot.session);
        let (file, unfinished) = whole_file::begin(directory, &prefix, None)?.into_parts();
        if let Some(mode) = self.mode {
            files::set_mode(&file, mode)?;
        }
        let (to, checksum) = snapshot.write(BufWriter::with_capacity(BUFFER, Paced(file)))?;
        let path = directory.join(name(snapshot.session, checksum));
        whole_file::name(&to.into_inner()?.0, unfinished, &path)?;
        Ok(checksum)
    }

    /// Whether there is a file of that session and checksum, by its name.
    pub(super) fn has(&self, session: i64, checksum: u64) -> bool {
        self.path(session, checksum)
            .is_some_and(|path| path.exists())
    }

    /// Whether the content of the file matches its checksum.
    pub(super) fn is_whole(&self, session: i64, checksum: u64) -> bool {
        self.path(session, checksum)
            .and_then(|path| Reader::open(&path, checksum))
            .is_some_and(|reader| reader.is_whole())
    }

    /// Deletes a file.
    fn discard(&self, session: i64, checksum: u64) {
        if let Some(path) = self.path(session, checksum) {
            let _ = fs::remove_file(path); // a file that cannot be deleted does no harm
        }
    }

    /// Whether the directory of the caches does not exist.
    fn are_none(&self) -> bool {
        !self
            .directory
            .as_ref()
            .is_some_and(|directory| directory.exists())
    }

    /// Deletes the files of a session, except the one with checksum `kept`. True if all of them are gone.
    pub(super) fn remove(&self, session: i64, kept: Option<u64>) -> bool {
        let prefix = format!("{session}-");
        let kept = kept.map(|checksum| name(session, checksum));
        self.remove_if(|name| name.starts_with(&prefix) && Some(name) != kept.as_deref())
    }

    /// Deletes every file that is not in `believed`, such as files of killed writers. True if all of them are gone.
    pub(super) fn sweep(&self, believed: &HashMap<i64, u64>) -> bool {
        let kept: Vec<String> = believed
            .iter()
            .map(|(&session, &checksum)| name(session, checksum))
            .collect();
        self.remove_if(|name| !kept.iter().any(|kept| kept == name))
    }

    /// Bytes of the files on the disk.
    pub(super) fn bytes(&self) -> u64 {
        let sizes = self.files().into_iter().map(|(_, path)| path.metadata());
        sizes
            .map(|metadata| metadata.map_or(0, |metadata| metadata.len()))
            .sum()
    }

    fn remove_if(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        let files = self.files().into_iter();
        let meant = files.filter(|(name, _)| is_meant(name));
        // Each file is tried, even after a failure.
        meant.fold(true, |all, (_, path)| {
            let gone = match fs::remove_file(path) {
                Err(error) => error.kind() == io::ErrorKind::NotFound,
                Ok(()) => true,
            };
            gone && all
        })
    }

    /// The cache files in the directory, with their names.
    fn files(&self) -> Vec<(String, PathBuf)> {
        let Some(Ok(entries)) = self.directory.as_ref().map(fs::read_dir) else {
            return Vec::new();
        };
        let named = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_ours = ENDS.iter().any(|end| name.ends_with(end));
            is_ours.then(|| (name, entry.path()))
        });
        named.collect()
    }

    fn path(&self, session: i64, checksum: u64) -> Option<PathBuf> {
        let directory = self.directory.as_ref()?;
        Some(directory.join(name(session, checksum)))
    }
}

fn name(session: i64, checksum: u64) -> String {
    format!("{session}-{checksum:016x}{}", ENDS[0])
}

// Writes the indexes of a session into a cache file, so that they can be read instead of built the next time.
//
// The file is written without a lock. Then a transaction stores its checksum in the database, if no entry has left the
// session in the meantime. Nothing depends on a cache, so a failure here changes nothing.

impl Store {
    /// Writes a cache of the session, if enough entries were analysed since the last one.
    pub(super) fn write_cache(&self, session: &SessionId) {
        // A failure is harmless: a search that reads the rows gives the same answers.
        let _ = self.try_to_write(session);
    }

    fn try_to_write(&self, session: &SessionId) -> Result<()> {
        let Some(scope) = self.scopes.get(session).filter(|_| !self.is_read_only()) else {
            return Ok(());
        };
        if !scope.read().is_worth_keeping() {
            return Ok(());
        }
        // Indexes that only the old file has are read first, so that the new file has them too.
        let kept_alone = scope.read().kept_alone();
        if !kept_alone.is_nothing() {
            self.catch_up(session, None, kept_alone, true)?;
        }
        let snapshot = {
            let scope = scope.read();
            if !scope.is_worth_keeping() {
                return Ok(());
            }
            scope.snapshot()
        };
        if !self
            .database
            .read(|transaction| is_current(transaction, &snapshot))?
        {
            return Ok(());
        }
        let Ok(checksum) = self.caches.write(&snapshot) else {
            return Ok(());
        };
        let is_believed = self.database.writer().and_then(|mut writer| {
            writer.transaction(|transaction| {
                // If something was forgotten in the meantime, the file is already deleted, or its epoch is old.
                let is_of_use = is_current(transaction, &snapshot)?
                    && self.caches.has(snapshot.session, checksum);
                if is_of_use {
                    meta::put_cache(transaction, snapshot.session, checksum)?;
                }
                Ok(is_of_use)
            })
        });
        match is_believed {
            Ok(true) => {
                self.caches.remove(snapshot.session, Some(checksum));
                scope.read().keeps(&snapshot);
                Ok(())
            }
            outcome => {
                self.caches.discard(snapshot.session, checksum);
                outcome.map(|_| ())
            }
        }
    }

    /// Reads the needed indexes from the session's cache, if it fits the session's row. Without `is_wanted`, the
    /// cache is dropped, because it led to a damaged row.
    pub(super) fn kept(
        &self,
        connection: &Connection,
        row: &SessionRow,
        needs: RequiredIndexes,
        is_wanted: bool,
    ) -> Option<Snapshot> {
        let checksum = meta::cache_of(connection, row.id)?;
        let known = is_wanted
            .then(|| self.caches.read(row, checksum, self.reading(), needs))
            .flatten();
        if known.is_none() && !self.is_read_only() {
            self.caches.discard(row.id, checksum);
        }
        known
    }

    /// Deletes every cache that the database does not name.
    pub(super) fn sweep(&self) {
        if !self.caches.are_none() {
            self.caches.sweep(&self.believed());
        }
    }

    /// The checksums of valid caches, by session; none if the database cannot be read, which another call will report.
    fn believed(&self) -> HashMap<i64, u64> {
        let believed = self.database.read(|transaction| meta::caches(transaction));
        believed.unwrap_or_default()
    }

    /// A finding for each damaged cache.
    pub(super) fn damaged_caches(&self) -> Vec<Finding> {
        let damaged = self.believed().into_iter().filter(|&(session, checksum)| {
            self.caches.has(session, checksum) && !self.caches.is_whole(session, checksum)
        });
        let mut damaged: Vec<i64> = damaged.map(|(session, _)| session).collect();
        damaged.sort_unstable();
        let finding = |session| Finding {
            code: "cache",
            table: "",
            id: Some(session),
            message: format!(
                "the cache of session {session} does not match its checksum, and is of no use"
            ),
        };
        damaged.into_iter().map(finding).collect()
    }
}

impl Drop for Store {
    /// Writes caches of the indexes, for the next process that opens the file.
    fn drop(&mut self) {
        for session in self.scopes.sessions() {
            self.write_cache(&session);
        }
    }
}

/// Whether the session still has all entries of the snapshot.
fn is_current(connection: &Connection, snapshot: &Snapshot) -> Result<bool> {
    let row = session::by_key(connection, snapshot.session)?;
    Ok(row.is_some_and(|row| {
        !row.dropped && row.epoch == snapshot.epoch && row.revision >= snapshot.revision
    }))
}

// The content of a cache file: the indexes of a scope, and the state of the session that they have.

/// The groups of sections in the file: the entries, and each index.
const ENTRIES: u64 = 0;
const TERMS: u64 = 1;
const BUCKETS: u64 = 2;

/// The indexes of a scope at one moment. It can be written while the scope is searched, and shares the scope's
/// postings.
pub(super) struct Snapshot {
    pub(super) reading: Reading,
    pub(super) session: i64,
    pub(super) epoch: i64,
    pub(super) revision: i64,
    pub(super) entries: Vec<(EntryId, i64)>,
    pub(super) expiry: Expiry,
    pub(super) repeats: Repeats,
    /// The indexes that exist, here or in the file from which this was read.
    pub(super) has: RequiredIndexes,
    pub(super) lexical: Option<LexicalIndex>,
    pub(super) cosine: Option<HashedTfIndex>,
}

impl Snapshot {
    /// Writes all of it, and gives the checksum of the file.
    pub(super) fn write<W: Write>(&self, to: W) -> io::Result<(W, u64)> {
        let mut to = Writer::new(to)?;
        to.begin(ENTRIES);
        to.put(rules(self.reading).as_bytes())?;
        to.put(&[self.session, self.epoch, self.revision])?;
        let entries = self.entries.iter();
        to.put(&entries.clone().map(|&(id, _)| id.0).collect::<Vec<i64>>())?;
        to.put(&entries.map(|&(_, at)| at).collect::<Vec<i64>>())?;
        let expiring = self.expiry.points().iter();
        let points = expiring.clone().map(|&(point, _)| point);
        to.put(&points.collect::<Vec<u32>>())?;
        to.put(&expiring.map(|&(_, at)| at).collect::<Vec<i64>>())?;
        let gists = self.repeats.gists().iter();
        to.put(
            &gists
                .flat_map(|gist| [gist.whole, gist.shape, gist.asks])
                .collect::<Vec<u64>>(),
        )?;
        if let Some(lexical) = &self.lexical {
            to.begin(TERMS);
            lexical.write(&mut to)?;
        }
        if let Some(cosine) = &self.cosine {
            to.begin(BUCKETS);
            cosine.write(&mut to)?;
        }
        to.finish()
    }

    /// Reads the entries and the needed indexes from a file. None if the file is damaged, was made by other rules, or
    /// if entries have left the session since. Other indexes of the file are not read.
    pub(super) fn read(
        file: &Reader,
        row: &SessionRow,
        reading: Reading,
        needs: RequiredIndexes,
    ) -> Option<Self> {
        let mut from = file.group(ENTRIES)?;
        if from.array::<u8>()?[..] != *rules(reading).as_bytes() {
            return None;
        }
        let [session, epoch, revision] = from.array::<i64>()?[..] else {
            return None;
        };
        if (session, epoch) != (row.id, row.epoch) || revision > row.revision {
            return None;
        }
        let (ids, times) = (from.array::<i64>()?, from.array::<i64>()?);
        let (points, ends) = (from.array::<u32>()?, from.array::<i64>()?);
        let gists = from.array::<u64>()?;
        let fits = ids.is_sorted_by(|one, next| one < next)
            && ids.len() == times.len()
            && ids.len() * 3 == gists.len()
            && points.len() == ends.len()
            && points.iter().all(|&point| (point as usize) < ids.len());
        if !fits || !from.is_done() {
            return None;
        }
        let expiring = points.iter().copied().zip(ends.iter().copied());
        let expiry = Expiry::of(expiring.collect())?;
        let (terms, buckets) = (file.group(TERMS), file.group(BUCKETS));
        let has = RequiredIndexes {
            terms: terms.is_some(),
            buckets: buckets.is_some(),
            ..RequiredIndexes::NOTHING
        };
        let (mut lexical, mut cosine) = (None, None);
        if let Some(mut from) = terms.filter(|_| needs.terms) {
            let read = LexicalIndex::read(&mut from, Bm25Params::default())?;
            lexical = Some(read).filter(|read| from.is_done() && read.len() == ids.len());
            lexical.as_ref()?;
        }
        if let Some(mut from) = buckets.filter(|_| needs.buckets) {
            let read = HashedTfIndex::read(&mut from)?;
            cosine = Some(read).filter(|read| from.is_done() && read.len() == ids.len());
            cosine.as_ref()?;
        }
        let ids = ids.iter().map(|&id| EntryId(id));
        Some(Self {
            reading,
            session,
            epoch,
            revision,
            entries: ids.zip(times.iter().copied()).collect(),
            expiry,
            repeats: gists
                .chunks_exact(3)
                .map(|gist| Gist {
                    whole: gist[0],
                    shape: gist[1],
                    asks: gist[2],
                })
                .collect(),
            has,
            lexical,
            cosine,
        })
    }
}

/// The rules by which texts were read for the file.
fn rules(reading: Reading) -> String {
    let Reading {
        hash_rule,
        languages,
    } = reading;
    format!("{} {} {hash_rule} {languages}", analyse::ID, words::ID)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::Speaker;
    use crate::bm25::{Document, Query};
    use crate::cache::renew;
    use crate::embed::hash::HashRule;
    use crate::embed::hashed_tf::counts;
    use proptest::prelude::*;
    use std::fs;

    /// 40 entries, a few of two passages, on several days.
    fn snapshot() -> Snapshot {
        let mut lexical = LexicalIndex::new(Bm25Params::default());
        let mut cosine = HashedTfIndex::default();
        let mut entries = Vec::new();
        for number in 0..40_i64 {
            let text = format!("silt and river {} {number}", "stone ".repeat(20));
            let passages = std::iter::repeat_n(&text, if number % 9 == 0 { 2 } else { 1 });
            let at = number * 20_000_000;
            let name = ["Ann", "Bob", ""][usize::try_from(number % 3).unwrap()];
            let speaker = Speaker::of("user", Some(name), "message");
            lexical.add_said(
                passages.map(|text| Document::of(text)),
                (number, number + 1),
                at,
                speaker.as_ref(),
            );
            cosine.add(&counts(&text, HashRule::Xxh3));
            entries.push((EntryId(number * 2 + 1), at));
        }
        Snapshot {
            reading: Reading::default(),
            session: 7,
            epoch: 2,
            revision: 5,
            entries,
            expiry: Expiry::of(vec![(3, 900), (39, 100)]).unwrap(),
            repeats: (0..40)
                .map(|number| Gist::of(&number.to_string()))
                .collect(),
            has: RequiredIndexes::BOTH,
            lexical: Some(lexical),
            cosine: Some(cosine),
        }
    }

    fn row() -> SessionRow {
        SessionRow {
            id: 7,
            name: "a".to_owned(),
            entries: 40,
            revision: 6,
            epoch: 2,
            ..SessionRow::default()
        }
    }

    fn read(bytes: &[u8], row: &SessionRow, reading: Reading) -> Option<Snapshot> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, bytes).unwrap();
        let checksum = u64::from_ne_bytes(*bytes.last_chunk().unwrap());
        Snapshot::read(
            &Reader::open(&path, checksum)?,
            row,
            reading,
            RequiredIndexes::BOTH,
        )
    }

    /// The points and scores that both indexes find.
    fn found(known: &Snapshot) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        let query = Query::of("river 17 stones of Ann");
        let (lexical, cosine) = (known.lexical.as_ref(), known.cosine.as_ref());
        lexical
            .unwrap()
            .for_each_match(&query, |hit| found.push((hit.id, hit.score.to_bits())));
        let row = counts("river 17", HashRule::Xxh3);
        let near = cosine.unwrap().search(&row, 100);
        found.extend(near.iter().map(|each| (each.id, each.distance.to_bits())));
        found
    }

    #[test]
    fn what_is_read_finds_what_was_written_and_grows_alike() {
        let mut known = snapshot();
        let (bytes, _) = known.write(Vec::new()).unwrap();
        let mut again = read(&bytes, &row(), Reading::default()).unwrap();
        assert_eq!(again.entries, known.entries);
        assert_eq!(again.expiry, known.expiry);
        assert_eq!(again.repeats.gists(), known.repeats.gists());
        for number in 40..200_i64 {
            assert_eq!(found(&again), found(&known), "{number} entries");
            for one in [&mut known, &mut again] {
                let text = format!("river {} kettle", number % 20);
                let passages = [Document::of(&text)];
                let (lexical, cosine) = (one.lexical.as_mut(), one.cosine.as_mut());
                let range = (number, number + 1);
                lexical.unwrap().add(passages, range, number * 20_000_000);
                cosine.unwrap().add(&counts(&text, HashRule::Xxh3));
            }
        }
        let (grown, _) = known.write(Vec::new()).unwrap();
        assert_eq!(again.write(Vec::new()).unwrap().0, grown);
    }

    #[test]
    fn another_state_and_another_rule_are_none() {
        let (bytes, _) = snapshot().write(Vec::new()).unwrap();
        let is_read = |row: SessionRow| read(&bytes, &row, Reading::default()).is_some();
        assert!(is_read(row()));
        assert!(!is_read(SessionRow { id: 8, ..row() }));
        assert!(!is_read(SessionRow { epoch: 3, ..row() }));
        let earlier = SessionRow {
            revision: 4,
            ..row()
        };
        assert!(!is_read(earlier));
        let other = Reading {
            hash_rule: HashRule::Poly31,
            ..Reading::default()
        };
        assert!(read(&bytes, &row(), other).is_none());
        let other = Reading {
            languages: "de".parse().unwrap(),
            ..Reading::default()
        };
        assert!(read(&bytes, &row(), other).is_none());
    }

    /// Changes single bytes of the file: a change in a needed index is noticed, a change elsewhere is not.
    #[test]
    fn only_what_is_needed_is_looked_at_and_all_of_that_is() {
        let (bytes, checksum) = snapshot().write(Vec::new()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let read = |bytes: &[u8], needs: RequiredIndexes| {
            fs::write(&path, bytes).unwrap();
            let known = Snapshot::read(
                &Reader::open(&path, checksum)?,
                &row(),
                Reading::default(),
                needs,
            )?;
            assert_eq!(known.has, RequiredIndexes::BOTH);
            let there = [known.lexical.is_some(), known.cosine.is_some()];
            assert_eq!(there, [needs.terms, needs.buckets]);
            Some(())
        };
        let all = [
            RequiredIndexes::NOTHING,
            RequiredIndexes::TERMS,
            RequiredIndexes::BUCKETS,
            RequiredIndexes::BOTH,
        ];
        assert_eq!(all.map(|needs| read(&bytes, needs)), [Some(()); 4]);
        let mut seen = [0; 3];
        for at in (0..bytes.len()).step_by(97) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let found = all.map(|needs| read(&flipped, needs).is_some());
            let place = match found {
                [false, false, false, false] => 0,
                [true, true, false, false] => 1,
                [true, false, true, false] => 2,
                _ => panic!("byte {at}: {found:?}"),
            };
            seen[place] += 1;
        }
        assert!(seen.iter().all(|&count| count > 9), "{seen:?}");
    }

    #[test]
    fn a_file_may_have_one_index_alone() {
        let mut known = snapshot();
        known.has.terms = false;
        known.lexical = None;
        let (bytes, _) = known.write(Vec::new()).unwrap();
        let again = read(&bytes, &row(), Reading::default()).unwrap();
        assert_eq!(again.has, RequiredIndexes::BUCKETS);
        assert!(again.lexical.is_none() && again.cosine.is_some());
    }

    proptest! {
        /// A checksum does not protect against a file with forged content and a matching checksum.
        #[test]
        fn a_forged_file_is_none_or_an_index_that_answers_something(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let (mut bytes, _) = snapshot().write(Vec::new()).unwrap();
            let body = bytes.len() - size_of::<u64>();
            for (at, value) in changes {
                let at = at.index(body);
                bytes[at] = value;
            }
            renew(&mut bytes);
            if let Some(known) = read(&bytes, &row(), Reading::default()) {
                found(&known);
            }
        }
    }
}
