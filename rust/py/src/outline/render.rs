//! What a summariser reads of messages: the twin is `siltstone.compaction.render`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::read::{Arguments, Fields, Sink};
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

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    /// Appends the lines of a message: all of them or, for one that is not read here, none.
    fn show(&mut self, raw: &Bound<'_, PyAny>) -> Option<()> {
        let before = self.text.len();
        let shown = self.try_show(raw);
        if shown.is_none() {
            self.text.truncate(before);
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
            speaker,
        };
        fields.read(&mut items).map(|_| ())
    }
}

/// Writes an item for each part: it begins at the start of a line, and its further lines are indented.
struct Items<'a> {
    text: &'a mut String,
    speaker: &'static str,
}

impl Items<'_> {
    /// Begins an item on a line of its own.
    fn begin(&mut self, head: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(head);
    }

    fn indented(&mut self, text: &str) {
        let mut lines = text.split('\n');
        self.text.push_str(lines.next().unwrap_or(""));
        for line in lines {
            self.text.push_str("\n  ");
            self.text.push_str(line);
        }
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

/// What stands for an id or a name that is not there.
fn or_dash(text: Option<&str>) -> &str {
    text.filter(|text| !text.is_empty()).unwrap_or("-")
}
