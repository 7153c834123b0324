//! Reads the parts of a message, dialect by dialect. The slow counterparts are the files of
//! `siltstone.messages.dialects`.

use std::borrow::Cow;

use super::lines::Role;
use super::read::{Arguments, Fields, Sink};
use super::value::{Field, Value, present};
use crate::json::Node;

/// Reads a message of `OpenAI` chat, or one that is the same in every dialect.
pub(super) fn chat<V: Value>(
    fields: &Fields<V>,
    role: Role,
    sink: &mut impl Sink<V>,
) -> Option<()> {
    let content = present(fields.get(Field::Content));
    if role == Role::Tool {
        let name = match identifier(fields.get(Field::Name)).ok()? {
            Some("") | None => identifier(fields.get(Field::ToolName)).ok()?,
            name => name,
        };
        let id = identifier(fields.get(Field::ToolCallId)).ok()?;
        return result(id, name, content, false, sink);
    }
    if role != Role::Assistant {
        return contents(content?, sink, chat_block);
    }
    for field in [Field::ReasoningContent, Field::Reasoning] {
        if let Some(value) = fields.get(field)
            && matches!(value.node().ok()?, Node::Text(_))
        {
            sink.reasoned(value.text()?)?;
            break;
        }
    }
    if let Some(content) = content {
        contents(content, sink, chat_block)?;
    }
    if let Some(refusal) = present(fields.get(Field::Refusal)) {
        sink.said(refusal.text()?)?;
    }
    if present(fields.get(Field::Audio)).is_some()
        || present(fields.get(Field::FunctionCall)).is_some()
    {
        return None;
    }
    if let Some(calls) = present(fields.get(Field::ToolCalls)) {
        for call in calls.items()? {
            chat_call(&call, sink)?;
        }
    }
    Some(())
}

fn chat_block<V: Value>(kind: &str, block: &V, sink: &mut impl Sink<V>) -> Option<()> {
    match kind {
        "refusal" => sink.said(block.field(Field::Refusal)?.text()?),
        _ => None,
    }
}

fn chat_call<V: Value>(call: &V, sink: &mut impl Sink<V>) -> Option<()> {
    if !call.is_object() {
        return None;
    }
    let kind = call.field(Field::Type);
    let (key, arguments) = match kind.as_ref().map(Value::text) {
        None | Some(Some("function")) => (Field::Function, Field::Arguments),
        Some(Some("custom")) => (Field::Custom, Field::Input),
        _ => return None,
    };
    let called = call.field(key)?;
    if !called.is_object() {
        return None;
    }
    let (id, name) = (call.field(Field::Id), called.field(Field::Name));
    let arguments = called.field(arguments);
    sink.called(
        identifier(id.as_ref()).ok()?,
        identifier(name.as_ref()).ok()?,
        Arguments(arguments.as_ref()),
    )
}

/// Reads a message of Anthropic's API.
pub(super) fn anthropic<V: Value>(fields: &Fields<V>, sink: &mut impl Sink<V>) -> Option<()> {
    contents(fields.get(Field::Content)?, sink, anthropic_block)
}

fn anthropic_block<V: Value>(kind: &str, block: &V, sink: &mut impl Sink<V>) -> Option<()> {
    match kind {
        "tool_result" => {
            let id = block.field(Field::ToolUseId);
            let content = block.field(Field::Content);
            let error = block.field(Field::IsError);
            let failed = error.is_some_and(|error| error.is_true());
            let content = present(content.as_ref());
            result(identifier(id.as_ref()).ok()?, None, content, failed, sink)
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let (id, name) = (block.field(Field::Id), block.field(Field::Name));
            let input = block.field(Field::Input);
            sink.called(
                identifier(id.as_ref()).ok()?,
                identifier(name.as_ref()).ok()?,
                Arguments(input.as_ref()),
            )
        }
        "thinking" => sink.reasoned(block.field(Field::Thinking)?.text()?),
        "redacted_thinking" => sink.reasoned(""),
        _ => None,
    }
}

/// Reads a message among the items of the Responses API.
pub(super) fn spoken_item<V: Value>(fields: &Fields<V>, sink: &mut impl Sink<V>) -> Option<()> {
    contents(fields.get(Field::Content)?, sink, |kind, block, sink| {
        let field = match kind {
            "input_text" | "output_text" => Field::Text,
            "refusal" => Field::Refusal,
            _ => return None,
        };
        sink.said(block.field(field)?.text()?)
    })
}

/// Reads an item that is not a message; returns its role.
pub(super) fn item<V: Value>(
    fields: &Fields<V>,
    kind: &str,
    sink: &mut impl Sink<V>,
) -> Option<Role> {
    if present(fields.get(Field::Caller)).is_some() {
        return None;
    }
    let id = identifier(fields.get(Field::CallId)).ok()?;
    let name = identifier(fields.get(Field::Name)).ok()?;
    match kind {
        "function_call" | "custom_tool_call" => {
            let arguments = if kind == "function_call" {
                Field::Arguments
            } else {
                Field::Input
            };
            sink.called(id, name, Arguments(fields.get(arguments)))?;
            Some(Role::Assistant)
        }
        "function_call_output" | "custom_tool_call_output" => {
            result(id, name, present(fields.get(Field::Output)), false, sink)?;
            Some(Role::Tool)
        }
        "reasoning" => {
            let mut texts = Joined::default();
            for field in [Field::Summary, Field::Content] {
                let Some(blocks) = present(fields.get(field)) else {
                    continue;
                };
                for block in blocks.items()? {
                    block.field(Field::Type)?;
                    if block.fields()?.nth(2).is_some() {
                        return None;
                    }
                    Sink::<V>::said(&mut texts, block.field(Field::Text)?.text()?)?;
                }
            }
            sink.reasoned(&texts.0)?;
            Some(Role::Assistant)
        }
        _ => None,
    }
}

/// Reads a content: a text, or a list of texts and blocks. `read` reads the blocks that are not plain text.
fn contents<V: Value, S: Sink<V>>(
    content: &V,
    sink: &mut S,
    read: impl Fn(&str, &V, &mut S) -> Option<()>,
) -> Option<()> {
    if let Some(text) = content.text() {
        return sink.said(text);
    }
    for item in content.items()? {
        if let Some(text) = item.text() {
            sink.said(text)?;
            continue;
        }
        match item.field(Field::Type)?.text()? {
            "text" => sink.said(item.field(Field::Text)?.text()?)?,
            kind => read(kind, &item, sink)?,
        }
    }
    Some(())
}

/// Reads a result: its texts are joined by line breaks; empty ones are left out.
fn result<V: Value>(
    id: Option<&str>,
    name: Option<&str>,
    content: Option<&V>,
    failed: bool,
    sink: &mut impl Sink<V>,
) -> Option<()> {
    let Some(content) = content else {
        return sink.answered(id, name, "", failed);
    };
    if let Some(text) = content.text() {
        return sink.answered(id, name, text, failed);
    }
    let mut texts = Joined::default();
    contents(content, &mut texts, |_, _, _| None)?;
    sink.answered(id, name, &texts.0, failed)
}

#[derive(Default)]
struct Joined(Cow<'static, str>);

impl<V: Value> Sink<V> for Joined {
    fn said(&mut self, text: &str) -> Option<()> {
        if !text.is_empty() {
            let joined = self.0.to_mut();
            if !joined.is_empty() {
                joined.push('\n');
            }
            joined.push_str(text);
        }
        Some(())
    }

    fn reasoned(&mut self, _: &str) -> Option<()> {
        None
    }

    fn called(&mut self, _: Option<&str>, _: Option<&str>, _: Arguments<'_, V>) -> Option<()> {
        None
    }

    fn answered(&mut self, _: Option<&str>, _: Option<&str>, _: &str, _: bool) -> Option<()> {
        None
    }
}

/// An id or a name; `None` if it is absent or `null`.
fn identifier<V: Value>(value: Option<&V>) -> Result<Option<&str>, NotText> {
    let value = present(value);
    value.map(|value| value.text().ok_or(NotText)).transpose()
}

/// An id or a name is not a text; Python knows how to write it.
#[derive(Debug)]
struct NotText;
