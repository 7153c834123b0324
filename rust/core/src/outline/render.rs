//! Renders messages for a summariser; the slow counterpart is `siltstone.compaction.render`.

use super::fields::{Arguments, Fields, Sink};
use super::measure::Measure;
use super::read::read;
use super::value::{Field, Value};
use crate::tokens::TextSize;

/// Messages as lines for a summariser: one item for each part, on lines of its own.
#[derive(Debug, Default)]
pub struct Rendering {
    text: String,
    starts: Vec<usize>, // where an item begins
}

impl Rendering {
    /// The lines so far.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// The lines so far, borrowed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The units of all items so far by `measure`, each with its line break.
    #[must_use]
    pub fn units(&self, measure: Measure) -> usize {
        let counts = self
            .items()
            .map(|item| measure.text(TextSize::of(item.as_bytes())) + 1);
        counts.sum()
    }

    /// Removes all lines.
    pub fn clear(&mut self) {
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

    /// Appends the lines of a message. Appends none and returns `None` if this reader cannot read the message.
    pub fn show<V: Value>(&mut self, raw: &V) -> Option<()> {
        let before = (self.text.len(), self.starts.len());
        let shown = self.try_show(raw);
        if shown.is_none() {
            self.text.truncate(before.0);
            self.starts.truncate(before.1);
        }
        shown
    }

    fn try_show<V: Value>(&mut self, raw: &V) -> Option<()> {
        let fields = Fields::of(raw)?;
        let speaker = match fields.get(Field::Role).and_then(Value::text) {
            Some("system" | "developer") => "System",
            Some("user") => "User",
            Some("assistant") => "Assistant",
            _ => "Tool", // never written: tool results, and items without a role, have no text parts
        };
        let mut items = Items {
            text: &mut self.text,
            starts: &mut self.starts,
            speaker,
        };
        read(&fields, &mut items).map(|_| ())
    }
}

/// Writes one item for each part: it begins at the start of a line, and its further lines are indented.
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

impl<V: Value> Sink<V> for Items<'_> {
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
        arguments: Arguments<'_, V>,
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

/// Where the next line begins: after the first line end of those that Python's `str.splitlines` knows, since a
/// reader may recognize any of them.
fn line_end(text: &[u8]) -> Option<usize> {
    (0..text.len()).find_map(|at| match &text[at..] {
        [b'\r', b'\n', ..] | [0xc2, 0x85, ..] => Some(at + 2),
        [b'\n' | 0x0b | 0x0c | b'\r' | 0x1c..=0x1e, ..] => Some(at + 1),
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => Some(at + 3),
        _ => None,
    })
}

/// The id or the name, or a dash if it is absent or empty.
fn or_dash(text: Option<&str>) -> &str {
    text.filter(|text| !text.is_empty()).unwrap_or("-")
}
