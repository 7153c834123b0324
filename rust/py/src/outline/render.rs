//! What a summariser reads of messages: the twin is `siltstone.compaction.render`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use siltstone_core::tokens::{TextSize, at_least_one, bytes_over_four, chars_over_three};

use super::read::{Arguments, Fields, Sink};
use super::unknown_measure;
use super::value::text;
use crate::error::guard_attached;

/// The lines of the messages from `start` up to `end`, as far as this reader reads them, and where it
/// stopped.
#[pyfunction]
pub(crate) fn render_messages(
    raws: &Bound<'_, PyList>,
    start: usize,
    end: usize,
) -> PyResult<(String, usize)> {
    guard_attached(raws.py(), || {
        let mut lines = Lines::default();
        for position in start..end.min(raws.len()) {
            let item = raws.get_item(position)?;
            if lines.show(&item).is_none() {
                return Ok((lines.text, position));
            }
        }
        Ok((lines.text, end))
    })
}

/// What the lines of each message from `start` up to `end` count together, each with its line break, as
/// far as this reader reads them, and where it stopped.
#[pyfunction]
pub(crate) fn rendered_tokens(
    raws: &Bound<'_, PyList>,
    start: usize,
    end: usize,
    measure: &str,
) -> PyResult<(Vec<usize>, usize)> {
    guard_attached(raws.py(), || {
        let count: fn(TextSize) -> usize = match measure {
            "bytes" => bytes_over_four,
            "code_points" => chars_over_three,
            "blocks" => at_least_one,
            _ => return Err(unknown_measure(measure)),
        };
        let (mut lines, mut counts) = (Lines::default(), Vec::new());
        for position in start..end.min(raws.len()) {
            lines.clear();
            if lines.show(&raws.get_item(position)?).is_none() {
                return Ok((counts, position));
            }
            let items = lines.items();
            counts.push(
                items
                    .map(|item| count(TextSize::of(item.as_bytes())) + 1)
                    .sum(),
            );
        }
        Ok((counts, end))
    })
}

#[derive(Default)]
struct Lines {
    text: String,
    starts: Vec<usize>, // where an item begins
}

impl Lines {
    fn clear(&mut self) {
        self.text.clear();
        self.starts.clear();
    }

    /// The items, without the line breaks between them.
    fn items(&self) -> impl Iterator<Item = &str> {
        let ends = self.starts.iter().skip(1).map(|&next| next - 1);
        let ends = ends.chain([self.text.len()]);
        let spans = self.starts.iter().zip(ends);
        spans.map(|(&start, end)| &self.text[start..end])
    }

    /// Appends the lines of a message: all of them or, for one that is not read here, none.
    fn show(&mut self, raw: &Bound<'_, PyAny>) -> Option<()> {
        let before = (self.text.len(), self.starts.len());
        let shown = self.try_show(raw);
        if shown.is_none() {
            self.text.truncate(before.0);
            self.starts.truncate(before.1);
        }
        shown
    }

    fn try_show(&mut self, raw: &Bound<'_, PyAny>) -> Option<()> {
        let fields = Fields::of(raw.cast_exact::<PyDict>().ok()?)?;
        let speaker = match fields.role.as_ref().and_then(text) {
            Some("system" | "developer") => "System",
            Some("user") => "User",
            Some("assistant") => "Assistant",
            _ => "Tool", // whose results are no texts, and neither is anything of an item without a role
        };
        let mut items = Items {
            text: &mut self.text,
            starts: &mut self.starts,
            speaker,
        };
        fields.read(&mut items).map(|_| ())
    }
}

/// Writes an item for each part: it begins at the start of a line, and its further lines are indented.
struct Items<'a> {
    text: &'a mut String,
    starts: &'a mut Vec<usize>,
    speaker: &'static str,
}

impl Items<'_> {
    /// Begins an item on a line of its own.
    fn begin(&mut self, head: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.starts.push(self.text.len());
        self.text.push_str(head);
    }

    fn indented(&mut self, text: &str) {
        let mut rest = text;
        while let Some(end) = line_end(rest.as_bytes()) {
            let (line, next) = rest.split_at(end);
            self.text.push_str(line);
            self.text.push_str("  ");
            rest = next;
        }
        self.text.push_str(rest);
    }
}

impl Sink for Items<'_> {
    fn said(&mut self, text: &str) -> Option<()> {
        if !text.is_empty() {
            self.begin(self.speaker);
            self.text.push_str(": ");
            self.indented(text);
        }
        Some(())
    }

    fn reasoned(&mut self, _: &str) -> Option<()> {
        Some(())
    }

    fn called(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Arguments<'_, '_>,
    ) -> Option<()> {
        self.begin("[Tool call ");
        self.indented(or_dash(id));
        self.text.push_str(": ");
        self.indented(or_dash(name));
        self.text.push('(');
        let mut written = String::new();
        arguments.write(&mut written)?;
        self.indented(&written);
        self.text.push_str(")]");
        Some(())
    }

    fn answered(
        &mut self,
        id: Option<&str>,
        _: Option<&str>,
        text: &str,
        failed: bool,
    ) -> Option<()> {
        self.begin("[Tool result ");
        self.indented(or_dash(id));
        self.text.push_str(if failed { ", error: " } else { ": " });
        self.indented(text);
        self.text.push(']');
        Some(())
    }
}

/// Where the next line begins: after the first of the line ends that `str.splitlines` of Python knows, since
/// a reader may take any of them for one.
fn line_end(text: &[u8]) -> Option<usize> {
    (0..text.len()).find_map(|at| match &text[at..] {
        [b'\r', b'\n', ..] | [0xc2, 0x85, ..] => Some(at + 2),
        [b'\n' | 0x0b | 0x0c | b'\r' | 0x1c..=0x1e, ..] => Some(at + 1),
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => Some(at + 3),
        _ => None,
    })
}

/// What stands for an id or a name that is not there.
fn or_dash(text: Option<&str>) -> &str {
    text.filter(|text| !text.is_empty()).unwrap_or("-")
}
