//! The languages of entries: a query is read in each of them.
//!
//! Nearly all entries of most stores are English, so only the entries of other languages are stored.

use std::io::{self, Write};

use crate::analyse::{LANGUAGES, Language, Languages};
use crate::cache::{Reader, Writer};

/// The entries that are of another language than English.
#[derive(Clone, Debug, Default)]
pub(super) struct OfEntries {
    /// Ascending by number.
    others: Vec<(u32, Language)>,
    present: Languages,
}

impl OfEntries {
    /// Adds an entry, whose number is above those of all others.
    pub(super) fn add(&mut self, entry: u32, language: Language) {
        if language != Language::English {
            self.others.push((entry, language));
            self.present.add(language);
        }
    }

    /// The language of an entry.
    pub(super) fn get(&self, entry: u32) -> Language {
        let place = self
            .others
            .binary_search_by_key(&entry, |&(entry, _)| entry);
        place.map_or(Language::English, |place| self.others[place].1)
    }

    /// The languages of entries, except English.
    pub(super) fn present(&self) -> Languages {
        self.present
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
