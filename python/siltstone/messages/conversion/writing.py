"""Writes neutral messages in each dialect."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from siltstone.messages.conversion.neutral import Block, Call, Losses, Media, Neutral, Result, Text, data_url
from siltstone.messages.message import RULE_ROLES, RawMessage

__all__ = ["WRITERS"]

BOUND = "it is bound to the provider that has the file"


def chat(messages: Sequence[Neutral], losses: Losses) -> list[RawMessage]:
    """*messages* as OpenAI chat; adjacent calls are one message, and their results follow it."""
    written: list[RawMessage] = []
    for message in messages:
        if message.raw is not None:
            written.append(message.raw)
        elif message.role == "tool":
            written += [
                {"role": "tool", "tool_call_id": r.call_id, "content": _chat_result(r, message.place, losses)}
                for r in message.blocks
                if isinstance(r, Result)
            ]
        else:
            calls = [block for block in message.blocks if isinstance(block, Call)]
            content = _chat_content(message, losses)
            if content is not None or calls:
                more = {"tool_calls": [_chat_call(call) for call in calls]} if calls else {}
                written.append({"role": message.role, "content": content, **more})
    return written


def responses(messages: Sequence[Neutral], losses: Losses) -> list[RawMessage]:
    """*messages* as items of the Responses API; each call and each result is an item of its own."""
    written: list[RawMessage] = []
    for message in messages:
        if message.raw is not None:
            written.append(message.raw)
            continue
        said: list[Any] = []
        items: list[RawMessage] = []
        for block in message.blocks:
            if isinstance(block, Call):
                kind, key = ("custom_tool_call", "input") if block.free else ("function_call", "arguments")
                items.append(
                    {"type": kind, "call_id": block.call_id, "name": block.name, key: block.arguments}
                )
            elif isinstance(block, Result):
                items.append(_output(block, message.place, losses))
            elif (written_block := _item(block, message, losses)) is not None:
                said.append(written_block)
        if said:
            written.append({"type": "message", "role": message.role, "content": _said_item(message, said)})
        written += items
    return written


def anthropic(messages: Sequence[Neutral], losses: Losses) -> list[RawMessage]:
    """*messages* as Anthropic messages; rules come first, and the arguments of every call are an object."""
    rules: list[RawMessage] = []
    written: list[RawMessage] = []
    for message in messages:
        if message.role in RULE_ROLES:
            if message.role == "developer":
                losses.add(message.place, "role", "the developer's text becomes the system's")
            if written:
                losses.add(message.place, "place", "system text stands before all other messages")
            whole = message.raw if message.raw is not None and message.role == "system" else None
            rules.append(whole or {"role": "system", "content": _text_of(message.blocks)})
            continue
        if message.raw is not None and _text_of(message.blocks).strip():
            written.append(message.raw)
            continue
        blocks = [w for block in message.blocks for w in _anthropic_block(block, message, losses)]
        role = "assistant" if message.role == "assistant" else "user"
        if blocks:
            written.append({"role": role, "content": blocks})
    return [*rules, *written]


WRITERS = {"openai.chat": chat, "openai.responses": responses, "anthropic": anthropic}


def _text_of(blocks: Iterable[Block]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, Text))


def _chat_call(call: Call) -> dict[str, Any]:
    if call.free:
        return {
            "id": call.call_id,
            "type": "custom",
            "custom": {"name": call.name, "input": call.arguments},
        }
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _chat_content(message: Neutral, losses: Losses) -> Any:
    said = [block for block in message.blocks if isinstance(block, Text | Media)]
    blocks = [written for block in said if (written := _chat_block(block, message, losses)) is not None]
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return blocks[0]["text"]
    return blocks or None


def _chat_block(block: Text | Media, message: Neutral, losses: Losses) -> dict[str, Any] | None:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if message.role != "user":
        losses.add(message.place, block.kind, f"only a user's message may have it, not the {message.role}'s")
        return None
    if block.kind == "audio":
        held = {"data": block.data, "format": block.media_type.removeprefix("audio/")}
        return {"type": "input_audio", "input_audio": held}
    if block.kind == "image" and not block.file_id:
        detail = {"detail": block.detail} if block.detail else {}
        return {"type": "image_url", "image_url": {"url": data_url(block), **detail}}
    if block.kind == "document" and (block.data or block.file_id):
        return {"type": "file", "file": _file_fields(block)}
    losses.add(message.place, block.kind, "by its id" if block.file_id else "a document by its address")
    return None


def _chat_result(result: Result, place: int, losses: Losses) -> Any:
    if result.is_error:
        losses.add(place, "is_error", "a result cannot say that it is an error")
    for block in result.blocks:
        if isinstance(block, Media):
            losses.add(place, block.kind, "a result is text alone")
    texts = [block for block in result.blocks if isinstance(block, Text)]
    if len(texts) < 2:
        return _text_of(texts)
    return [{"type": "text", "text": block.text} for block in texts]


def _output(result: Result, place: int, losses: Losses) -> dict[str, Any]:
    if result.is_error:
        losses.add(place, "is_error", "a result cannot say that it is an error")
    kind = "custom_tool_call_output" if result.free else "function_call_output"
    holder = Neutral(place, "user", result.blocks)
    blocks = [w for block in result.blocks if (w := _item(block, holder, losses)) is not None]
    plain = len(blocks) == 1 and blocks[0]["type"] == "input_text"
    output: Any = blocks[0]["text"] if plain else blocks or ""
    return {"type": kind, "call_id": result.call_id, "output": output}


def _item(block: Text | Media, message: Neutral, losses: Losses) -> dict[str, Any] | None:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    if message.role != "user" or block.kind == "audio":
        losses.add(message.place, block.kind, f"no message of the {message.role} may have it")
        return None
    if block.kind == "image":
        source = {"file_id": block.file_id} if block.file_id else {"image_url": data_url(block)}
        return {"type": "input_image", "detail": block.detail or "auto", **source}
    source = {"file_url": block.url} if block.url else _file_fields(block)
    return {"type": "input_file", **source}


def _said_item(message: Neutral, blocks: list[Any]) -> Any:
    if len(blocks) == 1 and blocks[0]["type"] == "input_text":
        return blocks[0]["text"]
    if message.role == "assistant":  # blocks of an assistant need an item with an id; a text does not
        return "\n".join(block["text"] for block in blocks)
    return blocks


def _file_fields(media: Media) -> dict[str, Any]:
    if media.file_id:
        return {"file_id": media.file_id}
    return {"file_data": data_url(media), "filename": media.name or "document"}


def _anthropic_block(block: Block, message: Neutral, losses: Losses) -> list[dict[str, Any]]:
    place = message.place
    if isinstance(block, Text):
        if block.text.strip():
            return [{"type": "text", "text": block.text}]
        losses.add(place, "text", "a blank text is refused")
        return []
    if isinstance(block, Call):
        arguments = _object(block, losses)
        return [{"type": "tool_use", "id": block.call_id, "name": block.name, "input": arguments}]
    if isinstance(block, Result):
        inner = [w for part in block.blocks for w in _anthropic_block(part, message, losses)]
        content: Any = inner[0]["text"] if len(inner) == 1 and inner[0]["type"] == "text" else inner
        written = {"type": "tool_result", "tool_use_id": block.call_id, "content": content}
        return [{**written, "is_error": True} if block.is_error else written]
    if block.kind == "audio" or block.file_id or message.role == "assistant":
        losses.add(place, block.kind, BOUND if block.file_id else "it has no place in such a message")
        return []
    if block.detail:
        losses.add(place, "detail", "an image has no detail")
    source = (
        {"type": "base64", "media_type": block.media_type, "data": block.data}
        if block.data
        else {"type": "url", "url": block.url}
    )
    title = {"title": block.name} if block.name and block.kind == "document" else {}
    return [{"type": block.kind, "source": source, **title}]


def _object(call: Call, losses: Losses) -> dict[str, Any]:
    """The arguments as an object: the parsed JSON object, or the text under the key ``input``."""
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict) and not call.free:
        return value
    losses.add(call.place, f"arguments of {call.name}", "they are no JSON object, and stand under 'input'")
    return {"input": call.arguments}
