//! Reads a message without building an object of it.
//!
//! A reader passes each part of a message to a [`Sink`]. It reads the common parts exactly as
//! `siltstone.messages.read` does, and answers `None` for everything else: media, unknown blocks, tools that the
//! provider runs, values that JSON does not have, and all errors.

use std::array;

use super::dialects;
use super::lines::Role;
use super::value::{Field, MAX_DEPTH, Value, present};
use crate::json::{size_of, string_size, write};
use crate::tokens::TextSize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Any,
    Chat,
    Responses,
    Anthropic,
}

/// The role of a message, and its dialect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) role: Role,
    pub(super) dialect: Dialect,
}

/// Reads a message: passes each part to `sink`, and returns the role and the dialect.
pub(super) fn read<V: Value>(fields: &Fields<V>, sink: &mut impl Sink<V>) -> Option<Head> {
    let Some(role) = present(fields.get(Field::Role)) else {
        let role = dialects::item(fields, fields.get(Field::Type)?.text()?, sink)?;
        let dialect = Dialect::Responses;
        return Some(Head { role, dialect });
    };
    let role = role.text()?;
    if matches!(role, "user" | "assistant") && may_be_summary(fields) {
        return None; // its position decides, which Python knows
    }
    let dialect = detect(fields, role)?;
    let spoken = dialect.role(role)?;
    match dialect {
        Dialect::Any | Dialect::Chat => dialects::chat(fields, spoken, sink)?,
        Dialect::Responses => dialects::spoken_item(fields, sink)?,
        Dialect::Anthropic => dialects::anthropic(fields, sink)?,
    }
    Some(Head {
        role: spoken,
        dialect,
    })
}

fn detect<V: Value>(fields: &Fields<V>, role: &str) -> Option<Dialect> {
    let is_item = match fields.get(Field::Type) {
        None => false,
        Some(kind) if kind.text()? == "message" => true,
        Some(_) => return None,
    };
    let chat = [
        Field::ToolCalls,
        Field::ToolCallId,
        Field::FunctionCall,
        Field::Refusal,
        Field::Audio,
        Field::ReasoningContent,
        Field::Reasoning,
    ];
    if matches!(role, "tool" | "developer" | "function")
        || chat.iter().any(|&field| fields.get(field).is_some())
    {
        return Some(Dialect::Chat);
    }
    let Some(content) = fields.get(Field::Content) else {
        return Some(Dialect::Chat);
    };
    if let Some(blocks) = content.items() {
        return detect_blocks(blocks);
    }
    if content.text().is_none() {
        return Some(Dialect::Chat);
    }
    Some(if is_item {
        Dialect::Responses
    } else {
        Dialect::Any
    })
}

fn detect_blocks<V: Value>(blocks: impl Iterator<Item = V>) -> Option<Dialect> {
    for block in blocks {
        if !block.is_object() {
            block.text()?; // a text is the same in every dialect
            continue;
        }
        let kind = block.field(Field::Type);
        match kind.as_ref().and_then(Value::text).unwrap_or("") {
            "tool_use" | "server_tool_use" | "mcp_tool_use" | "thinking" | "redacted_thinking"
            | "image" | "document" | "search_result" | "container_upload" | "compaction" => {
                return Some(Dialect::Anthropic);
            }
            kind if kind.ends_with("tool_result") => return Some(Dialect::Anthropic),
            "input_text" | "output_text" | "input_image" | "input_file" => {
                return Some(Dialect::Responses);
            }
            "image_url" | "input_audio" | "file" | "refusal" | "video_url" => {
                return Some(Dialect::Chat);
            }
            _ => {}
        }
    }
    Some(Dialect::Any)
}

impl Dialect {
    /// The role of this name in the dialect.
    fn role(self, role: &str) -> Option<Role> {
        match (self, role) {
            (_, "system") => Some(Role::System),
            (_, "user") => Some(Role::User),
            (_, "assistant") => Some(Role::Assistant),
            (Self::Any | Self::Chat | Self::Responses, "developer") => Some(Role::Developer),
            (Self::Any | Self::Chat, "tool" | "function") => Some(Role::Tool),
            _ => None,
        }
    }
}

/// Whether the content is one text that ends like a summary, as `siltstone.messages.message` defines it.
fn may_be_summary<V: Value>(fields: &Fields<V>) -> bool {
    let Some(content) = present(fields.get(Field::Content)) else {
        return false;
    };
    if let Some(said) = content.text() {
        return is_marked(said);
    }
    let Some(mut blocks) = content.items() else {
        return false;
    };
    let (Some(block), None) = (blocks.next(), blocks.next()) else {
        return false;
    };
    if let Some(said) = block.text() {
        return is_marked(said);
    }
    let said = block.field(Field::Text);
    said.as_ref().and_then(Value::text).is_some_and(is_marked)
}

/// Whether the last line of a text may be the mark of a summary; Python checks the digest in it.
pub(super) fn is_marked(said: &str) -> bool {
    let said = said.trim_end();
    said.ends_with(']')
        && said
            .rsplit('\n')
            .next()
            .is_some_and(|line| line.starts_with("[Summary level "))
}

// Collects the fields of a message in one walk, and defines the receiver of its parts.

/// The most bytes of JSON that one message may have, as in `siltstone.messages.json_text`.
pub(super) const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// The receiver of the parts of a message. Every call is one part.
pub(super) trait Sink<V: Value> {
    /// A text.
    fn said(&mut self, text: &str) -> Option<()>;
    /// Reasoning, with as much of its text as counts.
    fn reasoned(&mut self, text: &str) -> Option<()>;
    /// A call of a tool.
    fn called(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Arguments<'_, V>,
    ) -> Option<()>;
    /// A result of a tool.
    fn answered(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        text: &str,
        failed: bool,
    ) -> Option<()>;
}

/// The arguments of a call: a text, or a value that is written as JSON; absent ones are `{}`.
pub(super) struct Arguments<'a, V>(pub(super) Option<&'a V>);

impl<V: Value> Arguments<'_, V> {
    /// Appends them as text.
    pub(super) fn write(&self, out: &mut String) -> Option<()> {
        match self.0 {
            Some(value) if !value.is_null() => match value.text() {
                Some(text) => out.push_str(text),
                None => write(value, MAX_DEPTH, out).ok()?,
            },
            _ => out.push_str("{}"),
        }
        Some(())
    }
}

/// The fields of a message that some dialect uses.
pub(super) struct Fields<V> {
    values: [Option<V>; Field::ALL.len()],
}

impl<V: Value> Fields<V> {
    /// The fields of `raw`.
    pub(super) fn of(raw: &V) -> Option<Self> {
        let mut fields = Self::empty();
        for (key, value) in raw.fields()? {
            fields.take(key.text()?, value);
        }
        Some(fields)
    }

    /// The fields and the size of `raw` as JSON; `None` if it is too large.
    pub(super) fn measured(raw: &V) -> Option<(Self, TextSize)> {
        let (mut fields, mut size, mut count) = (Self::empty(), TextSize::default(), 0_usize);
        for (key, value) in raw.fields()? {
            let key = key.text()?;
            size = size.plus(string_size(key.as_bytes()));
            size = size.plus(size_of(&value, MAX_DEPTH).ok()?);
            fields.take(key, value);
            count += 1;
        }
        let marks = 2 + (2 * count).saturating_sub(1); // braces, colons, commas
        let size = size.plus(TextSize {
            bytes: marks,
            code_points: marks,
        });
        (size.bytes <= MAX_MESSAGE_BYTES).then_some((fields, size))
    }

    /// The value of a field.
    pub(super) fn get(&self, field: Field) -> Option<&V> {
        self.values[field as usize].as_ref()
    }

    #[inline]
    fn empty() -> Self {
        Self {
            values: array::from_fn(|_| None),
        }
    }

    #[inline]
    fn take(&mut self, key: &str, value: V) {
        if let Some(field) = Field::of(key) {
            self.values[field as usize] = Some(value);
        }
    }
}
