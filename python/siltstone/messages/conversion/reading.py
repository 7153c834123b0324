"""Reads a message of each dialect into the neutral form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from siltstone.messages.conversion.neutral import Block, Call, Losses, Media, Neutral, Result, Text, from_url
from siltstone.messages.dialects.base import arguments_text
from siltstone.messages.dialects.openai_responses import item_type
from siltstone.messages.message import RawMessage
from siltstone.messages.plain import as_fields

__all__ = ["READERS", "is_plain"]

BOUND = "it is bound to the provider that made it"
UNKNOWN = "no other dialect has a block of this type"


def is_plain(fields: Mapping[str, Any]) -> bool:
    """Whether a message reads alike in every dialect: a role and a text."""
    spoken = fields.get("role") in ("system", "user", "assistant") and isinstance(fields.get("content"), str)
    return spoken and fields.keys() <= {"role", "content"}


def chat(raw: RawMessage, place: int, losses: Losses) -> list[Neutral]:
    """A message of OpenAI chat."""
    fields = as_fields(raw) or {}
    role = fields["role"]
    if role in ("tool", "function"):
        losses.leftover(place, "", fields, ("role", "content", "tool_call_id", "name"))
        call_id = str(fields.get("tool_call_id") or f"call_{fields.get('name')}")
        result = Result(call_id, _media_and_text(_chat_blocks(fields.get("content"), place, losses)))
        return [Neutral(place, "tool", (result,))]
    blocks = list(_chat_blocks(fields.get("content"), place, losses))
    if isinstance(fields.get("refusal"), str):
        blocks.append(Text(fields["refusal"]))
    for key in ("reasoning_content", "reasoning"):
        if fields.get(key):
            losses.add(place, key, BOUND)
    known = (
        "role", "content", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call",
    )  # fmt: skip
    losses.leftover(place, "", fields, known)
    for at, call in enumerate(map(_fields, fields.get("tool_calls") or ())):
        free = call.get("type") == "custom"
        called = _fields(call.get(str(call.get("type") or "function")))
        losses.leftover(place, f"tool_calls[{at}].", call, ("id", "type", "function", "custom"))
        arguments = called.get("input") if free else called.get("arguments")
        blocks.append(
            Call(place, str(call.get("id")), str(called.get("name")), arguments_text(arguments), free)
        )
    if legacy := _fields(fields.get("function_call")):
        name = str(legacy.get("name"))
        losses.add(place, "function_call", f"a call without an id is given one: 'call_{name}'")
        blocks.append(Call(place, f"call_{name}", name, arguments_text(legacy.get("arguments"))))
    return [Neutral(place, role, tuple(blocks), raw if _is_rule(fields) else None)]


def responses(raw: RawMessage, place: int, losses: Losses) -> list[Neutral]:
    """An item of the Responses API."""
    fields = as_fields(raw) or {}
    kind = item_type(fields)
    if kind == "message":
        losses.leftover(place, "", fields, ("type", "role", "content", "id", "status"))
        blocks = tuple(_items(fields.get("content"), place, losses))
        return [Neutral(place, fields["role"], blocks, raw if _is_rule(fields) else None)]
    if kind in ("function_call", "custom_tool_call"):
        free = kind == "custom_tool_call"
        losses.leftover(place, "", fields, ("type", "id", "call_id", "name", "arguments", "input", "status"))
        arguments = arguments_text(fields.get("input" if free else "arguments"))
        return [
            Neutral(
                place,
                "assistant",
                (Call(place, str(fields.get("call_id")), str(fields.get("name")), arguments, free),),
            )
        ]
    if kind in ("function_call_output", "custom_tool_call_output"):
        losses.leftover(place, "", fields, ("type", "id", "call_id", "output", "status"))
        blocks = _media_and_text(_items(fields.get("output"), place, losses))
        free = kind.startswith("custom")
        return [Neutral(place, "tool", (Result(str(fields.get("call_id")), blocks, free=free),))]
    losses.add(place, kind or "item", BOUND if kind == "reasoning" else "no other dialect has such an item")
    return []


def anthropic(raw: RawMessage, place: int, losses: Losses) -> list[Neutral]:
    """A message of Anthropic: its results first, each as a message of its own, then the other blocks."""
    fields = as_fields(raw) or {}
    losses.leftover(place, "", fields, ("role", "content", "id", "type", "model", "stop_reason", "usage"))
    blocks = list(_anthropic_blocks(fields.get("content"), place, losses))
    results = [Neutral(place, "tool", (block,)) for block in blocks if isinstance(block, Result)]
    said = tuple(block for block in blocks if not isinstance(block, Result))
    return [*results, Neutral(place, fields["role"], said)] if said or not results else results


READERS = {"openai.chat": chat, "openai.responses": responses, "anthropic": anthropic}


def _is_rule(fields: Mapping[str, Any]) -> bool:
    """Whether both dialects of OpenAI accept the message as it is: it has only a role and a text."""
    return fields.keys() == {"role", "content"} and isinstance(fields["content"], str)


def _fields(value: object) -> Mapping[str, Any]:
    return as_fields(value) or {}


def _listed(content: object) -> Sequence[Any]:
    if content is None:
        return ()
    return (content,) if isinstance(content, str) or not isinstance(content, Sequence) else content


def _each(content: object) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The blocks of *content*, each with its place; a str counts as a text block."""
    for at, block in enumerate(_listed(content)):
        yield f"content[{at}]", {"type": "text", "text": block} if isinstance(block, str) else _fields(block)


def _media_and_text(blocks: Iterable[Block]) -> tuple[Text | Media, ...]:
    return tuple(block for block in blocks if isinstance(block, Text | Media))


def _chat_blocks(content: object, place: int, losses: Losses) -> Iterable[Block]:
    for part, fields in _each(content):
        kind = fields.get("type")
        held = _fields(fields.get(str(kind)))
        if kind in ("text", "refusal"):
            losses.leftover(place, f"{part}.", fields, ("type", kind))
            yield Text(str(fields.get(kind)))
        elif kind == "image_url":
            yield Media("image", **from_url(str(held.get("url"))), detail=str(held.get("detail") or ""))
        elif kind == "input_audio":
            yield Media("audio", str(held.get("data")), f"audio/{held.get('format')}")
        elif kind == "file":
            yield _file(held)
        else:
            losses.add(place, f"{part} ({kind})", UNKNOWN)


def _items(content: object, place: int, losses: Losses) -> Iterable[Block]:
    for part, fields in _each(content):
        kind = fields.get("type")
        if kind in ("input_text", "output_text", "text"):
            losses.leftover(place, f"{part}.", fields, ("type", "text"))
            yield Text(str(fields.get("text")))
        elif kind == "refusal":
            yield Text(str(fields.get("refusal")))
        elif kind == "input_image":
            source = from_url(str(fields["image_url"])) if fields.get("image_url") else {}
            detail = str(fields.get("detail") or "")
            file_id = str(fields.get("file_id") or "")
            yield Media("image", **source, file_id=file_id, detail="" if detail == "auto" else detail)
        elif kind == "input_file":
            yield _file(fields)
        else:
            losses.add(place, f"{part} ({kind})", UNKNOWN)


def _file(held: Mapping[str, Any]) -> Media:
    source = from_url(str(held["file_data"])) if held.get("file_data") else {}
    if source.get("url"):  # base64 without the head of a data URL
        source = {"data": source["url"], "media_type": "application/pdf"}
    if held.get("file_url"):
        source["url"] = str(held["file_url"])
    file_id, name = str(held.get("file_id") or ""), str(held.get("filename") or "")
    return Media("document", **source, file_id=file_id, name=name)


def _anthropic_blocks(content: object, place: int, losses: Losses) -> Iterable[Block]:
    for part, fields in _each(content):
        kind = fields.get("type")
        if kind == "text":
            losses.leftover(place, f"{part}.", fields, ("type", "text"))
            yield Text(str(fields.get("text")))
        elif kind == "tool_use":
            losses.leftover(place, f"{part}.", fields, ("type", "id", "name", "input"))
            yield Call(
                place, str(fields.get("id")), str(fields.get("name")), arguments_text(fields.get("input"))
            )
        elif kind == "tool_result":
            losses.leftover(place, f"{part}.", fields, ("type", "tool_use_id", "content", "is_error"))
            inner = _media_and_text(_anthropic_blocks(fields.get("content"), place, losses))
            yield Result(str(fields.get("tool_use_id")), inner, fields.get("is_error") is True)
        elif kind in ("image", "document"):
            losses.leftover(place, f"{part}.", fields, ("type", "source", "title"))
            yield from _sourced(kind, fields, place, part, losses)
        else:
            thought = kind in ("thinking", "redacted_thinking", "compaction")
            losses.add(place, f"{part} ({kind})", BOUND if thought else UNKNOWN)


def _sourced(kind: Any, fields: Mapping[str, Any], place: int, part: str, losses: Losses) -> Iterable[Block]:
    source, name = _fields(fields.get("source")), str(fields.get("title") or "")
    match source.get("type"):
        case "base64":
            yield Media(kind, str(source.get("data")), str(source.get("media_type")), name=name)
        case "url":
            yield Media(kind, url=str(source.get("url")), name=name)
        case "text":
            losses.add(place, f"{part} ({kind})", "a document that is text becomes text")
            yield Text(str(source.get("data")))
        case other:
            losses.add(place, f"{part} ({kind})", BOUND if other == "file" else UNKNOWN)
