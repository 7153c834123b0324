//! Renders messages for a summariser; the slow counterpart is `siltstone.compaction.material`.

use super::measure::Measure;
use super::read::{Arguments, Fields, Sink, read};
use super::value::{Field, Value};

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
        let counts = self.items().map(|item| measure.text(item.as_bytes()) + 1);
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
        each_item(raw, &mut |item| self.add(item))
    }

    /// Appends an item: it begins at the start of a line, and its further lines are indented.
    fn add(&mut self, item: Item<'_>) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.starts.push(self.text.len());
        match item.kind {
            ItemKind::Text => {
                self.text.push_str(match item.role {
                    Some("system" | "developer") => "System: ",
                    Some("user") => "User: ",
                    Some("assistant") => "Assistant: ",
                    _ => "Tool: ", // never written: tool results, and messages without a role, have no text parts
                });
                self.indented(item.text);
            }
            ItemKind::Call => {
                self.text.push_str("[Tool call ");
                self.indented(or_dash(item.call_id));
                self.text.push_str(": ");
                self.indented(or_dash(item.name));
                self.text.push('(');
                self.indented(item.text);
                self.text.push_str(")]");
            }
            ItemKind::Result { failed } => {
                self.text.push_str("[Tool result ");
                self.indented(or_dash(item.call_id));
                self.text.push_str(if failed { ", error: " } else { ": " });
                self.indented(item.text);
                self.text.push(']');
            }
        }
    }

    fn indented(&mut self, text: &str) {
        let (bytes, mut start, mut at) = (text.as_bytes(), 0, 0);
        while let Some(gap) = bytes[at..].iter().position(|&byte| may_end_line(byte)) {
            at += gap;
            let Some(length) = line_end(&bytes[at..]) else {
                at += 1;
                continue;
            };
            at += length;
            self.text.push_str(&text[start..at]);
            self.text.push_str("  ");
            start = at;
        }
        self.text.push_str(&text[start..]);
    }
}

/// Whether a line end may begin with the byte.
fn may_end_line(byte: u8) -> bool {
    matches!(byte, 0x0a..=0x0d | 0x1c..=0x1e | 0xc2 | 0xe2)
}

/// The length of the line end with which a text begins, one of those that Python's `str.splitlines` knows, since a
/// reader may recognize any of them.
fn line_end(text: &[u8]) -> Option<usize> {
    match text {
        [b'\r', b'\n', ..] | [0xc2, 0x85, ..] => Some(2),
        [b'\n' | 0x0b | 0x0c | b'\r' | 0x1c..=0x1e, ..] => Some(1),
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => Some(3),
        _ => None,
    }
}

/// The id or the name, or a dash if it is absent or empty.
fn or_dash(text: Option<&str>) -> &str {
    text.filter(|text| !text.is_empty()).unwrap_or("-")
}

// The parts of a message as a summariser gets them: the speaker, the text, the called tool, its result.

/// The kind of a part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A text.
    Text,
    /// A call of a tool.
    Call,
    /// A result of a tool.
    Result {
        /// The call failed.
        failed: bool,
    },
}

/// A part of a message. Reasoning and empty texts are no items.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Its kind.
    pub kind: ItemKind,
    /// The role of its message, as the message has it.
    pub role: Option<&'a str>,
    /// The id of the call, also in its result.
    pub call_id: Option<&'a str>,
    /// The name of the tool, where the part has it.
    pub name: Option<&'a str>,
    /// The text; of a call its arguments.
    pub text: &'a str,
}

/// Calls `each` with the items of a message in order. `None` if this reader cannot read the message; `each` may
/// have been called for some of its items then.
pub fn each_item<V: Value>(raw: &V, each: &mut dyn FnMut(Item<'_>)) -> Option<()> {
    let fields = Fields::of(raw)?;
    let role = fields.get(Field::Role).and_then(Value::text);
    read(&fields, &mut Items { role, each }).map(|_| ())
}

/// Makes an item of each part.
struct Items<'a> {
    role: Option<&'a str>,
    each: &'a mut dyn FnMut(Item<'_>),
}

impl<V: Value> Sink<V> for Items<'_> {
    fn said(&mut self, text: &str) -> Option<()> {
        if !text.is_empty() {
            (self.each)(Item {
                kind: ItemKind::Text,
                role: self.role,
                call_id: None,
                name: None,
                text,
            });
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
        let mut written = String::new();
        arguments.write(&mut written)?;
        (self.each)(Item {
            kind: ItemKind::Call,
            role: self.role,
            call_id: id,
            name,
            text: &written,
        });
        Some(())
    }

    fn answered(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        text: &str,
        failed: bool,
    ) -> Option<()> {
        (self.each)(Item {
            kind: ItemKind::Result { failed },
            role: self.role,
            call_id: id,
            name,
            text,
        });
        Some(())
    }
}
