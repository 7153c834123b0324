//! How a caller's message is read without making anything of it.
//!
//! A reader tells a [`Sink`] what it finds, part by part. It reads what nearly every message is made of,
//! exactly as `siltstone.messages.read` does, and answers `None` for all else: media, blocks that nobody
//! knows, what a provider ran, subclasses, SDK objects, and everything that is an error.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use siltstone_core::json::string_size;
use siltstone_core::outline::Role;
use siltstone_core::tokens::TextSize;

use super::dialects;
use super::value::{MAX_DEPTH, measure, object, text};

/// The most bytes of JSON that one message may have, as in `siltstone.messages.limits`.
const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// What is told of a message. Every call is one part.
pub(super) trait Sink {
    /// A text.
    fn said(&mut self, text: &str) -> Option<()>;
    /// Reasoning; what it says, as far as anyone may count it.
    fn reasoned(&mut self, text: &str) -> Option<()>;
    /// A call of a tool.
    fn called(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Arguments<'_, '_>,
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
pub(super) struct Arguments<'a, 'py>(pub(super) Option<&'a Bound<'py, PyAny>>);

impl Arguments<'_, '_> {
    /// How many bytes they have as text.
    pub(super) fn len(&self) -> Option<usize> {
        if let Some(text) = self.0.and_then(text) {
            return Some(text.len());
        }
        let mut json = String::new();
        self.write(&mut json)?;
        Some(json.len())
    }

    /// Appends them as text.
    pub(super) fn write(&self, out: &mut String) -> Option<()> {
        match self.0 {
            None => out.push_str("{}"),
            Some(value) if value.is_none() => out.push_str("{}"),
            Some(value) => match text(value) {
                Some(text) => out.push_str(text),
                None => super::value::write(value, MAX_DEPTH, out)?,
            },
        }
        Some(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Any,
    Chat,
    Responses,
    Anthropic,
}

/// Who speaks, and in which dialect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) role: Role,
    pub(super) dialect: Dialect,
}

/// The fields of a message that mean something in some dialect.
#[derive(Default)]
pub(super) struct Fields<'py> {
    pub(super) role: Option<Bound<'py, PyAny>>,
    pub(super) kind: Option<Bound<'py, PyAny>>,
    pub(super) content: Option<Bound<'py, PyAny>>,
    pub(super) tool_calls: Option<Bound<'py, PyAny>>,
    pub(super) tool_call_id: Option<Bound<'py, PyAny>>,
    pub(super) function_call: Option<Bound<'py, PyAny>>,
    pub(super) refusal: Option<Bound<'py, PyAny>>,
    pub(super) audio: Option<Bound<'py, PyAny>>,
    pub(super) reasoning_content: Option<Bound<'py, PyAny>>,
    pub(super) reasoning: Option<Bound<'py, PyAny>>,
    pub(super) name: Option<Bound<'py, PyAny>>,
    pub(super) tool_name: Option<Bound<'py, PyAny>>,
    pub(super) call_id: Option<Bound<'py, PyAny>>,
    pub(super) arguments: Option<Bound<'py, PyAny>>,
    pub(super) input: Option<Bound<'py, PyAny>>,
    pub(super) output: Option<Bound<'py, PyAny>>,
    pub(super) caller: Option<Bound<'py, PyAny>>,
}

impl<'py> Fields<'py> {
    /// The fields of `raw`, in one walk over it.
    pub(super) fn of(raw: &Bound<'py, PyDict>) -> Option<Self> {
        let mut fields = Self::default();
        for (key, value) in raw.iter() {
            let key = text(&key)?;
            fields.take(key, value);
        }
        Some(fields)
    }

    /// The same, and the size of `raw` as JSON; `None` for one that is too large.
    pub(super) fn measured(raw: &Bound<'py, PyDict>) -> Option<(Self, TextSize)> {
        let (mut fields, mut size) = (Self::default(), TextSize::default());
        object(&mut size, raw.len());
        for (key, value) in raw.iter() {
            let key = text(&key)?;
            size = size.plus(string_size(key.as_bytes()));
            measure(&value, MAX_DEPTH, &mut size)?;
            fields.take(key, value);
        }
        (size.bytes <= MAX_MESSAGE_BYTES).then_some((fields, size))
    }

    fn take(&mut self, key: &str, value: Bound<'py, PyAny>) {
        let place = match key {
            "role" => &mut self.role,
            "type" => &mut self.kind,
            "content" => &mut self.content,
            "tool_calls" => &mut self.tool_calls,
            "tool_call_id" => &mut self.tool_call_id,
            "function_call" => &mut self.function_call,
            "refusal" => &mut self.refusal,
            "audio" => &mut self.audio,
            "reasoning_content" => &mut self.reasoning_content,
            "reasoning" => &mut self.reasoning,
            "name" => &mut self.name,
            "tool_name" => &mut self.tool_name,
            "call_id" => &mut self.call_id,
            "arguments" => &mut self.arguments,
            "input" => &mut self.input,
            "output" => &mut self.output,
            "caller" => &mut self.caller,
            _ => return,
        };
        *place = Some(value);
    }

    /// Reads the message: tells `sink` of each part, and gives who speaks.
    pub(super) fn read(&self, sink: &mut impl Sink) -> Option<Head> {
        let Some(role) = present(self.role.as_ref()) else {
            let role = dialects::item(self, text(self.kind.as_ref()?)?, sink)?;
            let dialect = Dialect::Responses;
            return Some(Head { role, dialect });
        };
        let role = text(role)?;
        let dialect = self.detect(role)?;
        let spoken = dialect.role(role)?;
        match dialect {
            Dialect::Any | Dialect::Chat => dialects::chat(self, spoken, sink)?,
            Dialect::Responses => dialects::spoken_item(self, sink)?,
            Dialect::Anthropic => dialects::anthropic(self, sink)?,
        }
        Some(Head {
            role: spoken,
            dialect,
        })
    }

    fn detect(&self, role: &str) -> Option<Dialect> {
        let is_item = match &self.kind {
            None => false,
            Some(kind) if text(kind)? == "message" => true,
            Some(_) => return None,
        };
        let chat = [
            &self.tool_calls,
            &self.tool_call_id,
            &self.function_call,
            &self.refusal,
            &self.audio,
            &self.reasoning_content,
            &self.reasoning,
        ];
        if matches!(role, "tool" | "developer" | "function") || chat.iter().any(|key| key.is_some())
        {
            return Some(Dialect::Chat);
        }
        let Some(content) = &self.content else {
            return Some(Dialect::Chat);
        };
        if let Ok(blocks) = content.cast_exact::<PyList>() {
            return detect_blocks(blocks);
        }
        if text(content).is_none() {
            return Some(Dialect::Chat);
        }
        Some(if is_item {
            Dialect::Responses
        } else {
            Dialect::Any
        })
    }
}

/// A value that is there and not None.
pub(super) fn present<'a, 'py>(
    value: Option<&'a Bound<'py, PyAny>>,
) -> Option<&'a Bound<'py, PyAny>> {
    value.filter(|value| !value.is_none())
}

/// The type of a block, whatever it is.
pub(super) fn kind_of<'py>(block: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyAny>>> {
    block.get_item(intern!(block.py(), "type"))
}

fn detect_blocks(blocks: &Bound<'_, PyList>) -> Option<Dialect> {
    for item in blocks.iter() {
        let Ok(block) = item.cast_exact::<PyDict>() else {
            text(&item)?; // a text gives nothing away
            continue;
        };
        let kind = kind_of(block).ok()?;
        match kind.as_ref().and_then(text).unwrap_or("") {
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
    /// Our word for one of its roles.
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
