//! What a summariser reads of messages: the twin is `siltstone.compaction.render`.

use super::fields::{Arguments, Fields, Sink};
use super::measure::Measure;
use super::read::read;
use super::value::{Field, Value};
use crate::tokens::TextSize;

/// The lines of messages as a summariser reads them: an item for each part, each on lines of its own.
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

    /// The same, borrowed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the items so far count together by `measure`, each with its line break.
    #[must_use]
    pub fn units(&self, measure: Measure) -> usize {
        let counts = self
            .items()
            .map(|item| measure.text(TextSize::of(item.as_bytes())) + 1);
        counts.sum()
    }

    /// Forgets the lines.
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

    /// Appends the lines of a message: all of them or, for one that is not read here, none.
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
            _ => "Tool", // whose results are no texts, and neither is anything of an item without a role
        };
        let mut items = Items {
            text: &mut self.text,
            starts: &mut self.starts,
            speaker,
        };
        read(&fields, &mut items).map(|_| ())
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
