//! Finds the rows of a session that may hold a text, so that a caller looks closely at few.

use std::cell::OnceCell;
use std::cmp::Reverse;

use regex::Regex;
use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::entries::Page;
use crate::memory::store::Store;
use crate::sqlite::{deletion, entry, log, session};

/// Rows of the log that are held at once.
const STRETCH: i64 = 1_000;

/// The most runs that are looked for.
const RUNS: usize = 2;

/// The fewest digits of a text that may be grouped in another way.
const FEW_DIGITS: usize = 6;

/// Tells what may hold a text: in a spelling that an expression matches, or by escapes of JSON at any depth.
///
/// A plain text (ASCII, and no escapes in it) that holds a spelling has all runs of ASCII letters and digits of the
/// text, in upper or lower case. This is found out faster than by the expression.
struct Needle {
    /// The longest runs, the longest first.
    runs: Vec<Regex>,
    spelled: String,
    /// Compiled when it is first needed, which takes as long as reading hundreds of rows. None if it cannot be: then
    /// everything may hold the text.
    compiled: OnceCell<Option<Regex>>,
    escape: Regex,
    /// What begins an escape of any kind. An expression finds it faster than `str::contains`.
    sign: Regex,
}

impl Needle {
    /// What `spelled` matches, which are spellings of `text`. A row is compared as it is, and composed (NFC).
    fn of(text: &str, spelled: &str) -> Result<Self> {
        let is_number = text.chars().filter(|point| point.is_numeric()).count() >= FEW_DIGITS;
        let runs = text.split(|point: char| {
            !(point.is_ascii_alphabetic() || (point.is_ascii_digit() && !is_number))
        });
        let mut runs: Vec<&str> = runs.filter(|run| !run.is_empty()).collect();
        runs.sort_by_key(|run| Reverse(run.len()));
        runs.truncate(RUNS);
        let runs = runs
            .into_iter()
            .map(|run| expression(&format!("(?i-u){run}")));
        Ok(Self {
            runs: runs.collect::<Result<_>>()?,
            spelled: spelled.to_owned(),
            compiled: OnceCell::new(),
            escape: expression(r"\\u")?,
            sign: expression(r"[%&]|\\u")?,
        })
    }

    fn may_be_in(&self, text: &str) -> bool {
        let is_plain = text.is_ascii() && !self.sign.is_match(text);
        if is_plain && !self.runs.iter().all(|run| run.is_match(text)) {
            return false;
        }
        if !is_plain && self.escape.is_match(text) {
            return true;
        }
        let compiled = self.compiled.get_or_init(|| Regex::new(&self.spelled).ok());
        let Some(spelled) = compiled else { return true };
        let is_composed = text.is_ascii() || is_nfc(text);
        spelled.is_match(text)
            || (!is_composed && spelled.is_match(&text.nfc().collect::<String>()))
    }
}

fn expression(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|error| {
        Error::new(ErrorKind::Internal, "a text is no expression").caused_by(error)
    })
}

impl Store {
    /// The entries of the session that may hold a spelling of `text`, in order of id, and the ids of damaged ones.
    /// `spelled` is an expression that matches all spellings, composed (NFC).
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn entries_holding(&self, session: &SessionId, text: &str, spelled: &str) -> Result<Page> {
        let needle = Needle::of(text, spelled)?;
        let (entries, damaged) = self.database.read(|transaction| {
            let Some(row) = session::find(transaction, session)? else {
                return Ok((Vec::new(), Vec::new()));
            };
            entry::chosen(transaction, &row, |entry| {
                let name = entry.name.as_deref().unwrap_or_default();
                needle.may_be_in(&entry.text) || needle.may_be_in(name)
            })
        })?;
        Ok(Page {
            entries,
            damaged,
            next_offset: None,
        })
    }

    /// The numbers of the session's messages whose JSON may hold a spelling of `text`, ascending.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn messages_holding(
        &self,
        session: &SessionId,
        text: &str,
        spelled: &str,
    ) -> Result<Vec<i64>> {
        let needle = Needle::of(text, spelled)?;
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

    /// The texts beside what was said that may hold a spelling of `text`, of one session or of all, deleted ones too:
    /// what each is, and the text itself. Names and the like are `""`.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn labels_holding(
        &self,
        session: Option<&str>,
        text: &str,
        spelled: &str,
    ) -> Result<Vec<(String, String)>> {
        let needle = Needle::of(text, spelled)?;
        let mut labels = self
            .database
            .read(|transaction| session::labels(transaction, session))?;
        labels.retain(|(_, label)| needle.may_be_in(label));
        Ok(labels)
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
    fn what_lacks_a_run_or_the_expression_does_not_hold_the_text() {
        let needle = Needle::of("a b, silt.stone", r"(?i)a\s+b, silt\.stone").unwrap();
        for text in ["A  b, Silt.stone", r"\u0073", r"\\u", "x a\nb, silt.stone"] {
            assert!(needle.may_be_in(text), "{text}");
        }
        for text in [
            "",
            "a b silt stone",
            "a b, silt.ston",
            r"\n\\",
            "%61 b, silt.stone",
        ] {
            assert!(!needle.may_be_in(text), "{text}");
        }
    }

    #[test]
    fn what_is_not_plain_is_compared_composed_and_by_the_expression_alone() {
        let needle = Needle::of("Jos\u{e9}", "(?i)jos\u{e9}|jos%c3%a9").unwrap();
        for text in ["Jose\u{301}", "JOS\u{c9}", "?q=jos%C3%A9"] {
            assert!(needle.may_be_in(text), "{text}");
        }
        assert!(!needle.may_be_in("Jose") && !needle.may_be_in("Jos\u{ea}"));
        assert!(Needle::of("...", r"\.").unwrap().may_be_in("a."));
    }
}
