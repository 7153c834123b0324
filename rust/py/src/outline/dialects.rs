//! The parts of a message, a dialect at a time: the twins are the files of `siltstone.messages.dialects`.

use std::borrow::Cow;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString};
use siltstone_core::outline::Role;

use super::read::{Arguments, Fields, Sink, kind_of, present};
use super::value::text;

/// A message of `OpenAI` chat, or one that reads alike everywhere.
pub(super) fn chat(fields: &Fields<'_>, role: Role, sink: &mut impl Sink) -> Option<()> {
    let content = present(fields.content.as_ref());
    if role == Role::Tool {
        let name = match identifier(fields.name.as_ref()).ok()? {
            Some("") | None => identifier(fields.tool_name.as_ref()).ok()?,
            name => name,
        };
        let id = identifier(fields.tool_call_id.as_ref()).ok()?;
        return result(id, name, content, false, sink);
    }
    if role != Role::Assistant {
        return contents(content?, sink, chat_block);
    }
    for reasoning in [&fields.reasoning_content, &fields.reasoning] {
        if let Some(value) = reasoning
            && value.is_instance_of::<PyString>()
        {
            sink.reasoned(text(value)?)?;
            break;
        }
    }
    if let Some(content) = content {
        contents(content, sink, chat_block)?;
    }
    if let Some(refusal) = present(fields.refusal.as_ref()) {
        sink.said(text(refusal)?)?;
    }
    if present(fields.audio.as_ref()).is_some() || present(fields.function_call.as_ref()).is_some()
    {
        return None;
    }
    if let Some(calls) = present(fields.tool_calls.as_ref()) {
        for call in calls.cast_exact::<PyList>().ok()?.iter() {
            chat_call(call.cast_exact::<PyDict>().ok()?, sink)?;
        }
    }
    Some(())
}

fn chat_block(kind: &str, block: &Bound<'_, PyDict>, sink: &mut impl Sink) -> Option<()> {
    match kind {
        "refusal" => sink.said(text(
            &block.get_item(intern!(block.py(), "refusal")).ok()??,
        )?),
        _ => None,
    }
}

fn chat_call(call: &Bound<'_, PyDict>, sink: &mut impl Sink) -> Option<()> {
    let py = call.py();
    let kind = kind_of(call).ok()?;
    let (key, arguments) = match kind.as_ref().map(text) {
        None | Some(Some("function")) => (intern!(py, "function"), intern!(py, "arguments")),
        Some(Some("custom")) => (intern!(py, "custom"), intern!(py, "input")),
        _ => return None,
    };
    let called = call.get_item(key).ok()??;
    let called = called.cast_exact::<PyDict>().ok()?;
    let id = call.get_item(intern!(py, "id")).ok()?;
    let name = called.get_item(intern!(py, "name")).ok()?;
    let arguments = called.get_item(arguments).ok()?;
    sink.called(
        identifier(id.as_ref()).ok()?,
        identifier(name.as_ref()).ok()?,
        Arguments(arguments.as_ref()),
    )
}

/// A message of Anthropic's.
pub(super) fn anthropic(fields: &Fields<'_>, sink: &mut impl Sink) -> Option<()> {
    contents(fields.content.as_ref()?, sink, anthropic_block)
}

fn anthropic_block(kind: &str, block: &Bound<'_, PyDict>, sink: &mut impl Sink) -> Option<()> {
    let py = block.py();
    match kind {
        "tool_result" => {
            let id = block.get_item(intern!(py, "tool_use_id")).ok()?;
            let content = block.get_item(intern!(py, "content")).ok()?;
            let error = block.get_item(intern!(py, "is_error")).ok()?;
            let failed = error.is_some_and(|error| {
                error
                    .cast_exact::<PyBool>()
                    .is_ok_and(PyBoolMethods::is_true)
            });
            let content = present(content.as_ref());
            result(identifier(id.as_ref()).ok()?, None, content, failed, sink)
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let id = block.get_item(intern!(py, "id")).ok()?;
            let name = block.get_item(intern!(py, "name")).ok()?;
            let input = block.get_item(intern!(py, "input")).ok()?;
            sink.called(
                identifier(id.as_ref()).ok()?,
                identifier(name.as_ref()).ok()?,
                Arguments(input.as_ref()),
            )
        }
        "thinking" => sink.reasoned(text(&block.get_item(intern!(py, "thinking")).ok()??)?),
        "redacted_thinking" => sink.reasoned(""),
        _ => None,
    }
}

/// A message among the items of the Responses API.
pub(super) fn spoken_item(fields: &Fields<'_>, sink: &mut impl Sink) -> Option<()> {
    contents(fields.content.as_ref()?, sink, |kind, block, sink| {
        let py = block.py();
        let key = match kind {
            "input_text" | "output_text" => intern!(py, "text"),
            "refusal" => intern!(py, "refusal"),
            _ => return None,
        };
        sink.said(text(&block.get_item(key).ok()??)?)
    })
}

/// An item that is no message, and who made it.
pub(super) fn item(fields: &Fields<'_>, kind: &str, sink: &mut impl Sink) -> Option<Role> {
    if present(fields.caller.as_ref()).is_some() {
        return None;
    }
    let id = identifier(fields.call_id.as_ref()).ok()?;
    let name = identifier(fields.name.as_ref()).ok()?;
    match kind {
        "function_call" | "custom_tool_call" => {
            let arguments = if kind == "function_call" {
                &fields.arguments
            } else {
                &fields.input
            };
            sink.called(id, name, Arguments(arguments.as_ref()))?;
            Some(Role::Assistant)
        }
        "function_call_output" | "custom_tool_call_output" => {
            result(id, name, present(fields.output.as_ref()), false, sink)?;
            Some(Role::Tool)
        }
        "reasoning" => {
            sink.reasoned("")?; // an assistant's counts by its JSON, and none is ever shown
            Some(Role::Assistant)
        }
        _ => None,
    }
}

/// A content: a text, or a list of texts and blocks. `read` reads the blocks that are not plain text.
fn contents<S: Sink>(
    content: &Bound<'_, PyAny>,
    sink: &mut S,
    read: impl Fn(&str, &Bound<'_, PyDict>, &mut S) -> Option<()>,
) -> Option<()> {
    if let Some(text) = text(content) {
        return sink.said(text);
    }
    for item in content.cast_exact::<PyList>().ok()?.iter() {
        if let Some(text) = text(&item) {
            sink.said(text)?;
            continue;
        }
        let block = item.cast_exact::<PyDict>().ok()?;
        let kind = kind_of(block).ok()??;
        match text(&kind)? {
            "text" => sink.said(text(&block.get_item(intern!(block.py(), "text")).ok()??)?)?,
            kind => read(kind, block, sink)?,
        }
    }
    Some(())
}

/// A result: its texts as one, joined by line breaks, empty ones left out.
fn result(
    id: Option<&str>,
    name: Option<&str>,
    content: Option<&Bound<'_, PyAny>>,
    failed: bool,
    sink: &mut impl Sink,
) -> Option<()> {
    let Some(content) = content else {
        return sink.answered(id, name, "", failed);
    };
    if let Some(text) = text(content) {
        return sink.answered(id, name, text, failed);
    }
    let mut texts = Joined::default();
    contents(content, &mut texts, |_, _, _| None)?;
    sink.answered(id, name, &texts.0, failed)
}

#[derive(Default)]
struct Joined(Cow<'static, str>);

impl Sink for Joined {
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

    fn called(&mut self, _: Option<&str>, _: Option<&str>, _: Arguments<'_, '_>) -> Option<()> {
        None
    }

    fn answered(&mut self, _: Option<&str>, _: Option<&str>, _: &str, _: bool) -> Option<()> {
        None
    }
}

/// An id or a name: a text, or nothing.
fn identifier<'a>(value: Option<&'a Bound<'_, PyAny>>) -> Result<Option<&'a str>, NotText> {
    let value = present(value);
    value.map(|value| text(value).ok_or(NotText)).transpose()
}

/// An id or a name is something else, which Python knows how to write.
#[derive(Debug)]
struct NotText;
