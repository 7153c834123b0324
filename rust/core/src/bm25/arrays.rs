//! Indexes of passages and of entries as arrays of a file. The file is a cache of a store, or an index that a user
//! saves. Arrays that can be computed from other arrays are not written; they are computed when the file is read.

use std::io::{self, Write};
use std::sync::OnceLock;

use crate::bm25::chain::Chain;
use crate::bm25::days::Days;
use crate::bm25::index::Bm25Index;
use crate::bm25::languages::OfEntries;
use crate::bm25::lexical::LexicalIndex;
use crate::bm25::lists::FREQUENT;
use crate::bm25::norms::short;
use crate::bm25::params::Bm25Params;
use crate::bm25::speakers::Speakers;
use crate::cache::{Reader, Writer};
use crate::error::Result;
use crate::index_file;
use crate::postings::Postings;

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
