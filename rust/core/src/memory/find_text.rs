//! Finds the rows of a session that may hold a text, so that a caller looks closely at few.

use std::cmp::Reverse;

use regex::Regex;

use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::entries::Page;
use crate::memory::store::Store;
use crate::sqlite::{deletion, entry, log, session};

/// Rows of the log that are held at once.
const STRETCH: i64 = 1_000;

/// The most bytes of a run that are looked for.
const LONGEST: usize = 64;

/// The most runs that are looked for.
const RUNS: usize = 4;

/// Tells what may hold a text, directly or by escapes of JSON at any depth.
///
/// No escape but `\u` stands for a letter or a digit, so whatever holds the text has all its runs of these, or a `\u`.
struct Needle {
    /// The longest runs, the longest first.
    runs: Vec<Regex>,
    escape: Regex,
}

impl Needle {
    fn of(text: &str) -> Result<Self> {
        let runs = text.split(|point: char| !point.is_alphanumeric());
        let mut runs: Vec<&str> = runs.filter(|run| !run.is_empty()).collect();
        runs.sort_by_key(|run| Reverse(run.len()));
        runs.truncate(RUNS);
        let runs = runs.into_iter().map(|run| literal(start_of(run)));
        Ok(Self {
            runs: runs.collect::<Result<_>>()?,
            escape: literal(r"\u")?,
        })
    }

    fn may_be_in(&self, text: &str) -> bool {
        self.runs.iter().all(|run| run.is_match(text)) || self.escape.is_match(text)
    }
}

/// The first bytes of a run, at most [`LONGEST`].
fn start_of(run: &str) -> &str {
    let ends = run.char_indices().map(|(at, point)| at + point.len_utf8());
    let end = ends.take_while(|&end| end <= LONGEST).last();
    &run[..end.unwrap_or_default()]
}

/// An expression that finds `text` as it is, faster than `str::contains`.
fn literal(text: &str) -> Result<Regex> {
    Regex::new(&regex::escape(text)).map_err(|error| {
        Error::new(ErrorKind::Internal, "a text is no expression").caused_by(error)
    })
}

impl Store {
    /// The entries of the session that may hold `text`, in order of id, and the ids of damaged ones.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn entries_holding(&self, session: &SessionId, text: &str) -> Result<Page> {
        let needle = Needle::of(text)?;
        let (entries, damaged) = self.database.read(|transaction| {
            let Some(row) = session::find(transaction, session)? else {
                return Ok((Vec::new(), Vec::new()));
            };
            entry::chosen(transaction, &row, |entry| {
                needle.may_be_in(&entry.text)
                    || entry
                        .name
                        .as_ref()
                        .is_some_and(|name| needle.may_be_in(name))
            })
        })?;
        Ok(Page {
            entries,
            damaged,
            next_offset: None,
        })
    }

    /// The numbers of the session's messages whose JSON may hold `text`, ascending.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn messages_holding(&self, session: &SessionId, text: &str) -> Result<Vec<i64>> {
        let needle = Needle::of(text)?;
        self.database.read(|transaction| {
            let mut found = Vec::new();
            let Some(row) = session::find(transaction, session)? else {
                return Ok(found);
            };
            let mut start = 0;
            while start < row.next_seq {
                let messages = log::read(transaction, &row, start, start + STRETCH)?;
                let messages = messages.iter();
                let held = messages.filter(|row| needle.may_be_in(&row.message.raw));
                found.extend(held.map(|row| row.seq));
                start += STRETCH;
            }
            Ok(found)
        })
    }

    /// The ids of the session's entries that came from one of the messages `seqs`, ascending.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn entries_from(&self, session: &SessionId, mut seqs: Vec<i64>) -> Result<Vec<EntryId>> {
        seqs.sort_unstable();
        self.database.read(|transaction| {
            let Some(row) = session::find(transaction, session)? else {
                return Ok(Vec::new());
            };
            let (found, _) = deletion::that_came_from(transaction, row.id, &seqs, EntryId(0))?;
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_a_run_of_the_text_does_not_hold_it() {
        let needle = Needle::of("a b, \"silt.stone\n").unwrap();
        for text in [
            "a b silt stone",
            "{\"ba\":\"silt.stone\"}",
            r"\u0073",
            r"\\u",
        ] {
            assert!(needle.may_be_in(text), "{text}");
        }
        for text in [
            "",
            "a b silt.ston",
            "a silt.stone",
            r"\n\\",
            "A B SILT STONE",
        ] {
            assert!(!needle.may_be_in(text), "{text}");
        }
    }

    #[test]
    fn a_text_without_a_letter_may_be_anywhere_and_a_long_run_is_cut() {
        assert!(Needle::of("...").unwrap().may_be_in(""));
        let long = Needle::of(&"é".repeat(1 << 16)).unwrap();
        assert!(long.may_be_in(&"é".repeat(32)) && !long.may_be_in(&"é".repeat(31)));
    }

    #[test]
    fn a_text_that_looks_like_an_expression_is_found_as_it_is() {
        let needle = Needle::of("x*.(y+").unwrap();
        assert!(needle.may_be_in("y x") && !needle.may_be_in("y"));
    }
}
