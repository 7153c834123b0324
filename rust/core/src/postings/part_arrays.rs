//! Postings in a file. The file has the arrays of each part exactly as they lie in memory, so they can be used in
//! place.
//!
//! A cache of a store and an index that a user saves have the same arrays. The checksums of the file show that the
//! arrays are as they were written. Every number that is used as an index into another array is checked besides.

use std::io::{self, Write};

use crate::cache::{Reader, Writer, are_bounds};
use crate::postings::block::Removed;
use crate::postings::dictionary::Dictionary;
use crate::postings::newest::Growing;
use crate::postings::part::{Dense, MAX_CODE, Overflow, Part, entry};
use crate::postings::store::Postings;
use crate::simd::columns::{BLOCK, Column};

/// 16-bit words in a column.
const WORDS: usize = BLOCK / 4;

impl<D: Growing> Postings<D> {
    /// Writes all postings, and the numbers of removed entries.
    ///
    /// # Errors
    ///
    /// The errors of writing the file.
    pub fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        let mut settled = self.clone(); // parts are shared
        settled.settle();
        to.put(&[settled.len() as u64])?;
        for (number, block) in settled.blocks().iter().enumerate() {
            let is_fresh = settled
                .fresh(number)
                .is_some_and(|fresh| fresh.postings() > 0);
            let removed = block.removed();
            let is_whole = !is_fresh && !removed.is_some_and(Removed::has_postings);
            let removed: Vec<u16> = removed
                .iter()
                .flat_map(|removed| removed.entries())
                .collect();
            to.put(&removed)?;
            match block.parts() {
                [part] if is_whole => part.write(to)?,
                _ => settled.whole(number).write(to)?,
            }
        }
        Ok(())
    }

    /// Reads the postings back; None where the data is damaged. Keys of at least `frequent` entries get a column
    /// when a block becomes whole.
    #[must_use]
    pub fn read(from: &mut Reader, frequent: usize) -> Option<Self> {
        let [len] = from.array::<u64>()?[..] else {
            return None;
        };
        let mut remaining = usize::try_from(len)
            .ok()
            .filter(|&len| u32::try_from(len).is_ok())?;
        let mut postings = Self::new(frequent);
        while remaining > 0 {
            let len = remaining.min(BLOCK);
            let removed = read_removed(from, len)?;
            let part = Part::read(from, len)?;
            postings.push_block(len, part, (removed.count() > 0).then_some(removed));
            remaining -= len;
        }
        Some(postings)
    }
}

/// The removed entries of a block of `len` entries.
fn read_removed(from: &mut Reader, len: usize) -> Option<Removed> {
    let entries = from.array::<u16>()?;
    let ascends = entries.is_sorted_by(|one, next| one < next);
    let is_inside = entries.last().is_none_or(|&last| usize::from(last) < len);
    (ascends && is_inside).then(|| Removed::purged(entries.iter().copied()))
}

impl<D: Dictionary> Part<D> {
    fn write<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        let above = |part: fn(&Overflow) -> u32| self.overflow.iter().map(part).collect::<Vec<_>>();
        let dense = |part: fn(&Dense) -> u32| self.dense.iter().map(part).collect::<Vec<_>>();
        let columns = self.dense.iter().flat_map(|dense| dense.column.words());
        self.dictionary.write(to)?;
        to.put(&self.starts)?;
        to.put(&self.codes)?;
        to.put(&above(|above| above.place))?;
        to.put(&above(|above| u32::from(above.entry)))?;
        to.put(&above(|above| above.more))?;
        to.put(&dense(|dense| dense.place))?;
        to.put(&dense(|dense| dense.len))?;
        to.put(&columns.copied().collect::<Vec<_>>())
    }

    /// A part of the first `len` entries of a block.
    fn read(from: &mut Reader, len: usize) -> Option<Self> {
        let is_inside = |entry: u16| usize::from(entry) < len;
        let dictionary = D::read(from)?;
        let keys = dictionary.keys().len();
        let (starts, codes) = (from.array::<u32>()?, from.array::<u16>()?);
        let fits = starts.len() == keys + 1 && are_bounds(&starts, codes.len());
        if !fits || (len < BLOCK && !codes.iter().all(|&code| is_inside(entry(code)))) {
            return None;
        }
        let is_place = |&place: &u32| (place as usize) < keys;

        let places = from.array::<u32>()?;
        let (entries, more) = (from.array::<u32>()?, from.array::<u32>()?);
        if places.len() != entries.len()
            || places.len() != more.len()
            || !places.is_sorted()
            || !places.iter().all(is_place)
        {
            return None;
        }
        let mut overflow = Vec::with_capacity(places.len());
        for ((&place, &entry), &more) in places.iter().zip(&entries[..]).zip(&more[..]) {
            let entry = u16::try_from(entry)
                .ok()
                .filter(|&entry| is_inside(entry) && more <= u32::MAX - MAX_CODE)?;
            overflow.push(Overflow { place, entry, more });
        }

        let (places, lens, words) = (
            from.array::<u32>()?,
            from.array::<u32>()?,
            from.array::<u16>()?,
        );
        let columns = words.chunks(WORDS);
        if places.len() != lens.len()
            || places.len() != columns.len()
            || !places.is_sorted_by(|one, next| one < next)
            || !places.iter().all(is_place)
        {
            return None;
        }
        let mut dense = Vec::with_capacity(places.len());
        for ((&place, &count), words) in places.iter().zip(&lens[..]).zip(columns) {
            let column = Column::of_words(words)?;
            let is_whole = len == BLOCK;
            if count as usize > len || !(is_whole || column.iter().all(|(each, _)| is_inside(each)))
            {
                return None;
            }
            dense.push(Dense {
                place,
                len: count,
                column,
            });
        }
        Some(Self::new(dictionary, starts, codes, overflow, dense))
    }
}
