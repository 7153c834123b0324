//! The `lexical` ranker: it scores entries by their best passage, raised by their neighbours in the conversation
//! and by their day.
//!
//! ```text
//! own(e)   = the largest S(p) over the passages p of the entry
//! near(e)  = own(e) with the shares of its neighbours (`neighbours.rs`)
//! day(e)   = min(1, 25 / mean length)^2 * the sum of BM25 of the day of the entry, among all days (`days.rs`)
//! score(e) = min(1, (near(e) * speaker(e) + day(e)) / ceiling), where near(e) is above 0
//! ```
//!
//! `speaker(e)` is 1.5 if the query names exactly one speaker and the entry is of that speaker, and 1 otherwise. If
//! the query names its asker, it is 1 for the asker's entries and 1 / 1.5 for all others (`speakers.rs`). `day(e)` is
//! smaller if entries are long on average. `S` and `ceiling` are those of BM25 over passages, with the query weighed as
//! `score.rs` says. So the question before an answer finds the answer, even if it has no term of the query. Sums are
//! taken in one order, so every way to compute a score gives the same bits.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::OnceLock;

use crate::analyse::{LANGUAGES, Language, Languages, Speaker};
use crate::bm25::buffers;
use crate::bm25::correction::corrected;
use crate::bm25::days::Days;
use crate::bm25::index::Bm25Index;
use crate::bm25::lists::FREQUENT;
use crate::bm25::neighbour_links::{Chain, REACH};
use crate::bm25::neighbours::{Why, shares};
use crate::bm25::score::{Bm25Params, Weighing, short};
use crate::bm25::scorer::{Scorer, number};
use crate::bm25::speakers::Speakers;
use crate::bm25::terms::{Document, Query};
use crate::cache::{Reader, Writer};
use crate::error::Result;
use crate::index_file;
use crate::postings::{BLOCK, Postings, Rows};

/// Entries, numbered from 0 in the order they were added.
///
/// ```
/// use siltstone_core::bm25::{Bm25Params, Document, LexicalIndex, Query};
///
/// let mut index = LexicalIndex::new(Bm25Params::default());
/// index.add([Document::of("Where does the silt settle?")], (0, 1), 0);
/// index.add([Document::of("In the delta.")], (1, 2), 0);
/// index.add([Document::of("The kettle is on.")], (9, 10), 0);
/// let mut found = Vec::new();
/// index.for_each_match(&Query::of("silt"), |hit| found.push(hit.id));
/// assert_eq!(found, [0, 1]); // the answer stands beside the question
/// ```
#[derive(Clone, Debug)]
pub struct LexicalIndex {
    pub(super) passages: Bm25Index,
    /// The first passage of each entry.
    pub(super) firsts: Vec<u32>,
    /// The entries that do not have exactly one passage.
    pub(super) uneven: Vec<u32>,
    pub(super) chain: Chain,
    pub(super) days: Days,
    pub(super) speakers: Speakers,
    pub(super) languages: OfEntries,
}

impl LexicalIndex {
    /// An index without entries.
    #[must_use]
    pub fn new(params: Bm25Params) -> Self {
        Self {
            passages: Bm25Index::new(params),
            firsts: Vec::new(),
            uneven: Vec::new(),
            chain: Chain::default(),
            days: Days::default(),
            speakers: Speakers::default(),
            languages: OfEntries::default(),
        }
    }

    /// Adds an entry with these passages, which came from the messages `range` at a moment in milliseconds since
    /// 1970, and returns its number.
    ///
    /// An empty range means that the entry came from no message: it then has no neighbours and no day.
    pub fn add(
        &mut self,
        passages: impl IntoIterator<Item = Document>,
        range: (i64, i64),
        created_at: i64,
    ) -> u32 {
        self.add_said(passages, range, created_at, None)
    }

    /// Adds an entry as [`add`](Self::add) does, with its speaker.
    pub fn add_said(
        &mut self,
        passages: impl IntoIterator<Item = Document>,
        range: (i64, i64),
        created_at: i64,
        speaker: Option<&Speaker>,
    ) -> u32 {
        let id = number(self.firsts.len());
        let first = number(self.passages.len());
        self.firsts.push(first);
        let (mut length, mut language) = (0, Language::English);
        for passage in passages {
            language = passage.language;
            self.passages.add(&passage);
            length += passage.length;
        }
        let said_at = (range.0 < range.1).then_some(created_at);
        self.days.add(said_at, first, length);
        if self.range(id).len() != 1 {
            self.uneven.push(id);
        }
        self.chain.add(range);
        self.speakers.add(speaker);
        self.languages.add(id, language);
        id
    }

    /// The passages of all entries.
    #[must_use]
    pub fn passages(&self) -> &Bm25Index {
        &self.passages
    }

    /// Its approximate bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let places = (self.firsts.capacity() + self.uneven.capacity()) * size_of::<u32>();
        let order = self.chain.bytes() + self.days.bytes();
        let of_entries = self.speakers.bytes() + self.languages.bytes();
        self.passages.bytes() + places + order + of_entries
    }

    /// The plain BM25 sum of each entry by itself, without neighbours, day and speaker: the largest sum of its
    /// passages, in order of number.
    #[must_use]
    pub fn own(&self, query: &Query) -> Vec<f64> {
        let asked = self.in_languages(query);
        query.note(&asked);
        let sums = self.passages.sums(&asked);
        if self.uneven.is_empty() {
            sums
        } else {
            self.largest(&sums)
        }
    }

    /// The language of entry `id`.
    #[must_use]
    pub fn language(&self, id: u32) -> Language {
        self.languages.get(id)
    }

    /// The neighbours of entry `id` in the conversation: those before it and those after it, each side with the
    /// nearest first.
    #[must_use]
    pub fn neighbors(&self, id: u32) -> [[Option<u32>; REACH]; 2] {
        self.chain.neighbors(id)
    }

    /// The largest passage sum of each entry, given the sums of all passages.
    pub(super) fn largest(&self, sums: &[f64]) -> Vec<f64> {
        let mut own = buffers::list();
        own.reserve(self.firsts.len());
        let mut read = 0;
        for &id in &self.uneven {
            // The entries before it have one passage each.
            let (even, range) = (id as usize - own.len(), self.range(id));
            own.extend_from_slice(&sums[read..read + even]);
            let passages = &sums[range.start as usize..range.end as usize];
            own.push(passages.iter().copied().fold(0.0, f64::max));
            read = range.end as usize;
        }
        own.extend_from_slice(&sums[read..]);
        own
    }

    /// Explains the score of entry `id`.
    #[must_use]
    pub fn why(&self, query: &Query, id: u32) -> Why {
        self.with_scorer(query, |query, scorer| self.explained(query, scorer, id))
    }

    fn explained(&self, query: &Query, scorer: &Scorer<'_>, id: u32) -> Why {
        let factor = self.speakers.named(query).factor(id);
        let ceiling = scorer.ceiling() / factor;
        let best = |entry| self.best(entry, |passage| scorer.sum(passage));
        let (own, neighbors) = shares(scorer, &self.chain, id, best);
        let mut own = own.into_iter().filter(|&share| share > 0.0);
        let mut why = self.alone(scorer, id);
        why.speaker = factor;
        for part in &mut why.parts {
            part.score = own.next().unwrap_or(0.0) / ceiling;
        }
        // `sum` of no floats is -0.0.
        why.own = why.parts.iter().fold(0.0, |sum, part| sum + part.score);
        why.neighbors = neighbors;
        for neighbor in &mut why.neighbors {
            neighbor.score /= ceiling;
        }
        let days = self.days.sums(query, scorer);
        why.day = self.days.share(&days, id) / scorer.ceiling();
        why
    }

    /// Explains the plain BM25 score of the entry: without neighbours and without its day.
    #[must_use]
    pub(crate) fn why_alone(&self, query: &Query, id: u32) -> Why {
        self.alone(&self.passages.scorer(&self.in_languages(query)), id)
    }

    /// Calls `work` with the query, its unknown words corrected, and with its scorer in this index.
    pub(super) fn with_scorer<T>(
        &self,
        query: &Query,
        work: impl FnOnce(&Query, &Scorer<'_>) -> T,
    ) -> T {
        let asked = query;
        let query = &*self.in_languages(query);
        let scorer = Scorer::new(&self.passages, query, Weighing::Lexical);
        let Some(query) = corrected(&self.passages, query, &scorer) else {
            asked.note(query);
            return work(query, &scorer);
        };
        asked.note(&query);
        drop(scorer);
        work(
            &query,
            &Scorer::new(&self.passages, &query, Weighing::Lexical),
        )
    }

    /// The query read in all languages of the entries.
    fn in_languages<'a>(&self, query: &'a Query) -> Cow<'a, Query> {
        let languages = self.languages.present(self.firsts.len());
        if languages.is_empty() {
            return Cow::Borrowed(query);
        }
        let df = |terms: &Query| self.passages.scorer(terms).frequencies();
        Cow::Owned(query.in_languages(languages, df))
    }

    fn alone(&self, scorer: &Scorer<'_>, id: u32) -> Why {
        let range = self.range(id);
        let best = self.best(id, |passage| scorer.sum(passage));
        Why {
            parts: best.map_or_else(Vec::new, |passage| scorer.parts(passage)),
            passage: best.map_or(0, |passage| passage - range.start),
            passages: range.end - range.start,
            own: best.map_or(0.0, |passage| scorer.sum(passage)) / scorer.ceiling(),
            neighbors: Vec::new(),
            day: 0.0,
            speaker: 1.0,
        }
    }

    /// The best passage of an entry, the first of equal ones; None where it has no passage.
    pub(super) fn best(&self, id: u32, sum: impl Fn(u32) -> f64) -> Option<u32> {
        let range = self.range(id);
        if range.len() < 2 {
            return range.clone().next();
        }
        let mut best = (range.start, 0.0);
        for passage in range {
            let sum = sum(passage);
            if sum > best.1 {
                best = (passage, sum);
            }
        }
        Some(best.0)
    }

    pub(super) fn range(&self, id: u32) -> Range<u32> {
        let end = self.firsts.get(id as usize + 1).copied();
        self.firsts[id as usize]..end.unwrap_or_else(|| number(self.passages.len()))
    }
}

// The languages of entries: a query is read in each of them.
//
// Nearly all entries of most stores are English, so only the entries of other languages are stored.

/// The least numbers of entries that settle that a language is used: in all, and one in so many.
const ENOUGH: usize = 16;
const FEW: usize = 50;

/// The entries that are of another language than English.
#[derive(Clone, Debug, Default)]
pub(super) struct OfEntries {
    /// Ascending by number.
    others: Vec<(u32, Language)>,
    /// How many entries each language has, by its number.
    counts: [usize; LANGUAGES.len() + 1],
}

impl OfEntries {
    /// Adds an entry, whose number is above those of all others.
    pub(super) fn add(&mut self, entry: u32, language: Language) {
        if language != Language::English {
            self.others.push((entry, language));
            self.counts[usize::from(language.number())] += 1;
        }
    }

    /// The language of an entry.
    pub(super) fn get(&self, entry: u32) -> Language {
        let place = self
            .others
            .binary_search_by_key(&entry, |&(entry, _)| entry);
        place.map_or(Language::English, |place| self.others[place].1)
    }

    /// The languages that a query of `entries` entries is read in, except English: one entry in [`FEW`], or [`ENOUGH`]
    /// of them, are of each. A few lines that look like another language do not make English stop words rare words.
    pub(super) fn present(&self, entries: usize) -> Languages {
        let mut present = Languages::default();
        for language in LANGUAGES {
            let count = self.counts[usize::from(language.number())];
            if count >= ENOUGH || count * FEW > entries {
                present.add(language);
            }
        }
        present
    }

    /// Its size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.others[..])
    }

    /// Writes them to a cache.
    pub(super) fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        let entries: Vec<u32> = self.others.iter().map(|&(entry, _)| entry).collect();
        let languages: Vec<u8> = self.others.iter().map(|(_, each)| each.number()).collect();
        to.put(&entries)?;
        to.put(&languages)
    }

    /// Reads back the languages of `len` entries; None where the data is damaged.
    pub(super) fn read(from: &mut Reader, len: usize) -> Option<Self> {
        let (entries, languages) = (from.array::<u32>()?, from.array::<u8>()?);
        let fits = entries.len() == languages.len()
            && entries.is_sorted_by(|one, next| one < next)
            && entries.last().is_none_or(|&last| (last as usize) < len);
        let mut read = Self::default();
        for (&entry, &number) in entries.iter().zip(&languages[..]) {
            let language = LANGUAGES.into_iter().find(|each| each.number() == number)?;
            read.add(entry, language);
        }
        fits.then_some(read)
    }
}

// Removes entries from an index, as if they had never been added.
//
// An index over entries stores neighbours and sums of days, and nothing of a removed entry may stay in them. So
// the index is built again from the passages in its posting lists; the texts are not needed.

/// The passages of an index, in ascending order of number.
struct Passages<'a> {
    index: &'a Bm25Index,
    /// The block whose postings were last turned into rows.
    block: Option<(usize, Rows<u64>)>,
}

impl Passages<'_> {
    fn get(&mut self, id: u32) -> Document {
        let (number, place) = (id as usize / BLOCK, id as usize % BLOCK);
        let rows = || (number, self.index.postings.rows(number));
        let known = self.block.take().filter(|(block, _)| *block == number);
        let (_, rows) = self.block.insert(known.unwrap_or_else(rows));
        Document {
            terms: rows.row(place).to_vec(),
            length: self.index.lengths[id as usize].into(),
            ..Document::default()
        }
    }
}

impl LexicalIndex {
    /// A new index of only some of the entries, as if the others had never been added. `left` has their numbers,
    /// ascending, and the moments that they were added with. The entries get new numbers.
    #[must_use]
    pub fn only(&self, left: impl IntoIterator<Item = (u32, i64)>) -> Self {
        let mut index = Self::new(self.passages.params());
        let mut passages = Passages {
            index: &self.passages,
            block: None,
        };
        for (id, created_at) in left {
            let language = self.languages.get(id);
            let documents = self.range(id).map(|passage| Document {
                language,
                ..passages.get(passage)
            });
            let speaker = self.speakers.get(id);
            index.add_said(
                documents,
                self.chain.range(id),
                created_at,
                speaker.as_ref(),
            );
        }
        index
    }
}

// Indexes of passages and of entries as arrays of a file. The file is a cache of a store, or an index that a user
// saves. Arrays that can be computed from other arrays are not written; they are computed when the file is read.

impl Bm25Index {
    /// The index as the bytes of a file. `label` says how the texts were turned into terms.
    ///
    /// # Errors
    ///
    /// The errors of [`index_file::to_bytes`].
    pub fn to_bytes(&self, label: &str) -> Result<Vec<u8>> {
        let (k1, b) = (self.params.k1(), self.params.b());
        index_file::to_bytes(&format!("bm25 {k1:?} {b:?} {label}"), |to| self.write(to))
    }

    /// The index in a file that was saved with the same `label`, with its own parameters.
    ///
    /// # Errors
    ///
    /// The errors of [`index_file::from_bytes`].
    pub fn from_bytes(file: &[u8], label: &str) -> Result<Self> {
        let accept = |found: &str| {
            let mut words = found.strip_prefix("bm25 ")?.splitn(3, ' ');
            let mut number = || words.next()?.parse().ok();
            let params = Bm25Params::new(number()?, number()?).ok()?;
            (words.next()? == label).then_some(params)
        };
        // The parameters stand in the label of the file, not in its arrays.
        let read = |from: &mut Reader| Self::read(from, Bm25Params::default());
        let (index, params) = index_file::from_bytes(file, accept, read)?;
        Ok(Self { params, ..index })
    }

    fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        self.postings.write(to)?;
        to.put(&self.lengths)
    }

    fn read(from: &mut Reader, params: Bm25Params) -> Option<Self> {
        let postings = Postings::read(from, FREQUENT)?;
        let lengths = from.numbers::<u32>()?;
        let words = (0..).zip(&lengths).filter(|&(id, _)| postings.has(id));
        let words = words.map(|(_, &length)| u64::from(length)).sum();
        (lengths.len() == postings.len()).then(|| Self {
            params,
            words,
            postings,
            shorts: lengths.iter().copied().map(short).collect(),
            norms: OnceLock::new(),
            lengths,
        })
    }
}

impl LexicalIndex {
    /// Writes all entries, but not the parameters.
    ///
    /// # Errors
    ///
    /// The errors of writing the file.
    pub fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        self.passages.write(to)?;
        to.put(&self.firsts)?;
        self.chain.write(to)?;
        self.days.write(to)?;
        self.speakers.write(to)?;
        self.languages.write(to)
    }

    /// Reads the entries back; None where the data is damaged.
    #[must_use]
    pub fn read(from: &mut Reader, params: Bm25Params) -> Option<Self> {
        let passages = Bm25Index::read(from, params)?;
        let firsts = from.numbers::<u32>()?;
        let len = u32::try_from(passages.len()).ok()?;
        let follows = firsts.is_sorted()
            && firsts.first().is_none_or(|&first| first == 0)
            && firsts.last().is_none_or(|&last| last <= len)
            && (len == 0 || !firsts.is_empty());
        if !follows {
            return None;
        }
        let chain = Chain::read(from, firsts.len())?;
        let days = Days::read(from, &firsts)?;
        let speakers = Speakers::read(from, firsts.len())?;
        let languages = OfEntries::read(from, firsts.len())?;
        let nexts = firsts.iter().skip(1).chain([&len]);
        let uneven = (0..).zip(firsts.iter().zip(nexts));
        let uneven = uneven.filter(|(_, (first, next))| *next - *first != 1);
        Some(Self {
            uneven: uneven.map(|(id, _)| id).collect(),
            chain,
            passages,
            firsts,
            days,
            speakers,
            languages,
        })
    }

    /// How many entries were added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.firsts.len()
    }

    /// Whether no entry was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::Speaker;
    use crate::bm25::{Bm25Params, Query};
    use crate::cache::Writer;
    use proptest::prelude::*;

    type Entry = (Vec<Document>, (i64, i64), i64, Option<Speaker>);

    fn index(entries: impl Iterator<Item = Entry>) -> LexicalIndex {
        let mut index = LexicalIndex::new(Bm25Params::default());
        for (passages, range, at, speaker) in entries {
            index.add_said(passages, range, at, speaker.as_ref());
        }
        index
    }

    /// The whole contents of an index, as written to its cache.
    fn bytes(index: &LexicalIndex) -> Vec<u8> {
        let mut to = Writer::new(Vec::new()).unwrap();
        index.write(&mut to).unwrap();
        to.finish().unwrap().0
    }

    fn scores(index: &LexicalIndex) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        for named in ["", "Ann", "Bash"] {
            let query = Query::of(&format!(
                "a river of silt, stones, sand and kettles {named}"
            ));
            index.for_each_match(&query, |hit| found.push((hit.id, hit.score.to_bits())));
        }
        found
    }

    /// Entries of few words, some of several passages or none, some often said; runs of them are alike.
    fn entries() -> impl Strategy<Value = Vec<(Entry, bool)>> {
        const WORDS: [&str; 6] = ["silt", "river", "delta", "kettle", "stone", "sand"];
        let words = proptest::collection::vec((0..WORDS.len(), 1_usize..20), 0..4);
        let passage = words.prop_map(|words| {
            let said = words
                .into_iter()
                .map(|(word, often)| format!("{} ", WORDS[word]).repeat(often));
            Document::of(&said.collect::<String>())
        });
        let passages = proptest::collection::vec(passage, 0..3);
        let run = (
            passages,
            0_i64..300,
            0_i64..3,
            0_i64..5,
            any::<bool>(),
            1_usize..12,
            0_usize..4,
        );
        proptest::collection::vec(run, 1..30).prop_map(|runs| {
            let mut entries = Vec::new();
            for (passages, start, len, day, stays, often, who) in runs {
                let (role, name) = [
                    ("user", None),
                    ("user", Some("Ann Lee")),
                    ("user", Some("Bash")),
                    ("tool", Some("Bash")),
                ][who];
                let speaker = Speaker::of(role, name, "message");
                for number in (0..).take(often) {
                    let range = (start + number * len, start + (number + 1) * len);
                    let at = day * 86_400_000 + number;
                    // All entries of some runs stay, and every third of the others.
                    let entry = (passages.clone(), range, at, speaker.clone());
                    entries.push((entry, stays || number % 3 == 0));
                }
            }
            entries
        })
    }

    proptest! {
        #[test]
        fn what_is_left_is_an_index_that_never_had_the_others(
            entries in entries(),
            more in entries(),
        ) {
            let whole = index(entries.iter().map(|(entry, _)| entry.clone()));
            let numbered = (0..).zip(&entries).filter(|(_, (_, stays))| *stays);
            let left = numbered.map(|(id, ((_, _, at, _), _))| (id, *at));
            let mut left = whole.only(left);
            let stays = entries.iter().filter(|(_, stays)| *stays);
            let mut fresh = index(stays.map(|(entry, _)| entry.clone()));
            for ((passages, range, at, speaker), _) in more {
                left.add_said(passages.clone(), range, at, speaker.as_ref());
                fresh.add_said(passages, range, at, speaker.as_ref());
            }
            prop_assert_eq!(scores(&left), scores(&fresh));
            prop_assert_eq!(left.passages().words(), fresh.passages().words());
            prop_assert_eq!(bytes(&left), bytes(&fresh));
        }
    }

    #[test]
    fn what_is_left_of_several_blocks_is_an_index_that_never_had_the_others() {
        const WORDS: [&str; 4] = ["silt", "river", "delta", "kettle"];
        let entry = |number: i64| {
            let word = |place: i64| WORDS[usize::try_from((number + place) % 4).unwrap()];
            let text = format!("{} {} stone {}", word(number / 7), word(0), number % 50);
            let at = number / 300 * 86_400_000;
            let speaker = Speaker::of("user", Some(word(1)), "message");
            (vec![Document::of(&text)], (number, number + 1), at, speaker)
        };
        let whole = index((0..9_000).map(entry));
        // Few entries of the first block stay, none of some hundred, and most of the rest.
        let stays = |number: &i64| match number {
            0..4_000 => number % 9 == 0,
            4_000..4_700 => false,
            _ => number % 5 > 0,
        };
        let numbers = (0..9_000).filter(stays);
        let left =
            whole.only(numbers.map(|number| (u32::try_from(number).unwrap(), entry(number).2)));
        let fresh = index((0..9_000).filter(stays).map(entry));
        assert_eq!(scores(&left), scores(&fresh));
        assert!(bytes(&left) == bytes(&fresh));
    }
}
