//! The index over passages, and that over entries, in a cache. What follows from the rest is made of it.

use std::io::{self, Write};
use std::sync::OnceLock;

use crate::bm25::chain::Chain;
use crate::bm25::days::Days;
use crate::bm25::index::{Bm25Index, FREQUENT};
use crate::bm25::lexical::LexicalIndex;
use crate::bm25::norms::short;
use crate::bm25::params::Bm25Params;
use crate::cache::{Reader, Writer};
use crate::postings::Postings;

impl Bm25Index {
    fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        self.postings.write(to)?;
        to.put(&self.lengths)
    }

    fn read(from: &mut Reader, params: Bm25Params) -> Option<Self> {
        let postings = Postings::read(from, FREQUENT)?;
        let lengths = from.numbers::<u32>()?;
        (lengths.len() == postings.len()).then(|| Self {
            params,
            postings,
            words: lengths.iter().copied().map(u64::from).sum(),
            shorts: lengths.iter().copied().map(short).collect(),
            norms: OnceLock::new(),
            lengths,
        })
    }
}

impl LexicalIndex {
    /// Writes all entries to a cache, but not the parameters.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        self.passages.write(to)?;
        to.put(&self.firsts)?;
        self.chain.write(to)?;
        self.days.write(to)
    }

    /// The entries that were written; None for what never was.
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
        let nexts = firsts.iter().skip(1).chain([&len]);
        let uneven = (0..).zip(firsts.iter().zip(nexts));
        let uneven = uneven.filter(|(_, (first, next))| *next - *first != 1);
        Some(Self {
            uneven: uneven.map(|(id, _)| id).collect(),
            chain,
            passages,
            firsts,
            days,
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
