//! The content of a cache file: the indexes of a scope, and the state of the session that they have.

use std::io::{self, Write};

use crate::analyse;
use crate::bm25::{Bm25Params, LexicalIndex};
use crate::cache::{Reader, Writer};
use crate::id::EntryId;
use crate::index::HashedTfIndex;
use crate::memory::expiry::Expiry;
use crate::memory::reading::Reading;
use crate::memory::required_indexes::RequiredIndexes;
use crate::sqlite::SessionRow;
use crate::tokenize::words;

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
        let fits = ids.is_sorted_by(|one, next| one < next)
            && ids.len() == times.len()
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
    use std::fs;

    use super::*;
    use crate::analyse::Speaker;
    use crate::bm25::{Document, Query};
    use crate::cache::renew;
    use crate::embed::hash::HashRule;
    use crate::embed::hashed_tf::counts;
    use proptest::prelude::*;

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
