"""Converts messages from one dialect to another, and lists every loss."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from siltstone.errors import ConversionLossError, InvalidMessageError
from siltstone.messages.dialects import openai_chat
from siltstone.messages.dialects.base import arguments_text
from siltstone.messages.dialects.openai_responses import item_type
from siltstone.messages.message import RULE_ROLES, Dialect, RawMessage, as_fields
from siltstone.messages.read import detect, validate

# The neutral form of messages between two dialects, and the record of losses.

Speaker: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or a document: its base64 data, its URL, or its file id at the provider."""

    kind: Literal["image", "audio", "document"]
    data: str = ""
    media_type: str = ""
    url: str = ""
    file_id: str = ""
    name: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, with the position of its message; *free* if its arguments are plain text, not JSON."""

    place: int
    call_id: str
    name: str
    arguments: str
    free: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a call."""

    call_id: str
    blocks: tuple[Text | Media, ...]
    is_error: bool = False
    free: bool = False


Block: TypeAlias = Text | Media | Call | Result


@dataclass(frozen=True, slots=True)
class Neutral:
    """One message: its role and its blocks; *raw* is the original, if both dialects can share it."""

    place: int
    role: Speaker
    blocks: tuple[Block, ...]
    raw: RawMessage | None = None


class Losses:
    """Records losses: the message, the part, and the reason."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str, str]] = []

    def add(self, place: int, part: str, why: str) -> None:
        """Records one loss."""
        self.found.append((place, part, why))

    def leftover(self, place: int, part: str, fields: Mapping[str, Any], known: Iterable[str]) -> None:
        """Records a loss for every key of *fields* with a value that is not among the *known* keys."""
        known = set(known)
        for key, value in fields.items():
            if key not in known and value not in (None, [], {}, ""):
                self.add(place, f"{part}{key}", "no other dialect has this field")


def data_url(media: Media) -> str:
    """The URL of *media*; a data URL if the media are inline."""
    return f"data:{media.media_type};base64,{media.data}" if media.data else media.url


def from_url(url: str) -> dict[str, str]:
    """The fields of a :class:`Media` from a URL: type and data of a data URL, else the URL."""
    head, comma, data = url.partition(",")
    if url.startswith("data:") and comma and head.endswith(";base64"):
        return {"media_type": head[len("data:") : -len(";base64")], "data": data}
    return {"url": url}


# Reads a message of each dialect into the neutral form.

BOUND = "it is bound to the provider that made it"
UNKNOWN = "no other dialect has a block of this type"

_RESULT_KEYS = (
    "role", "content", "tool_call_id", "name", "toolCallId", "toolUseId", "toolName", "isError", "timestamp",
)  # fmt: skip
_CHAT_KEYS = (
    "role", "content", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call",
    "api", "provider", "model", "usage", "stopReason", "timestamp",
)  # fmt: skip


def is_plain(fields: Mapping[str, Any]) -> bool:
    """Whether a message reads alike in every dialect: a role and a text."""
    spoken = fields.get("role") in ("system", "user", "assistant") and isinstance(fields.get("content"), str)
    return spoken and fields.keys() <= {"role", "content"}


def read_chat(raw: RawMessage, place: int, losses: Losses) -> list[Neutral]:
    """A message of OpenAI chat."""
    fields = as_fields(raw) or {}
    role = openai_chat.ROLES[fields["role"]]
    if role == "tool":
        losses.leftover(place, "", fields, _RESULT_KEYS)
        call_id, name = openai_chat.answered(fields)
        said = _media_and_text(_chat_blocks(fields.get("content"), place, losses))
        answer = Result(call_id or f"call_{name}", said, openai_chat.failed(fields))
        return [Neutral(place, "tool", (answer,))]
    blocks = list(_chat_blocks(openai_chat.content_of(fields), place, losses))
    if isinstance(fields.get("refusal"), str):
        blocks.append(Text(fields["refusal"]))
    for key in ("reasoning_content", "reasoning"):
        if fields.get(key):
            losses.add(place, key, BOUND)
    losses.leftover(place, "", fields, _CHAT_KEYS)
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


def read_responses(raw: RawMessage, place: int, losses: Losses) -> list[Neutral]:
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


def read_anthropic(raw: RawMessage, place: int, losses: Losses) -> list[Neutral]:
    """A message of Anthropic: its results first, each as a message of its own, then the other blocks."""
    fields = as_fields(raw) or {}
    losses.leftover(place, "", fields, ("role", "content", "id", "type", "model", "stop_reason", "usage"))
    blocks = list(_anthropic_blocks(fields.get("content"), place, losses))
    results = [Neutral(place, "tool", (block,)) for block in blocks if isinstance(block, Result)]
    said = tuple(block for block in blocks if not isinstance(block, Result))
    return [*results, Neutral(place, fields["role"], said)] if said or not results else results


READERS = {"openai.chat": read_chat, "openai.responses": read_responses, "anthropic": read_anthropic}


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
        elif kind == "image":
            yield from _sourced(kind, fields, place, part, losses)
        elif kind in openai_chat.CALLS or kind == "tool_use":
            call_id, name, arguments = openai_chat.called(fields)
            yield Call(place, str(call_id), str(name), arguments)
        else:
            losses.add(place, f"{part} ({kind})", BOUND if kind == "thinking" else UNKNOWN)


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
            losses.leftover(place, f"{part}.", fields, ("type", "source", "title", "data", "mimeType"))
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
        case None if isinstance(fields.get("data"), str):  # of OpenClaw
            yield Media(kind, fields["data"], str(fields.get("mimeType")))
        case other:
            losses.add(place, f"{part} ({kind})", BOUND if other == "file" else UNKNOWN)


# Writes neutral messages in each dialect.

FILE_BOUND = "it is bound to the provider that has the file"


def write_chat(messages: Sequence[Neutral], losses: Losses) -> list[RawMessage]:
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


def write_responses(messages: Sequence[Neutral], losses: Losses) -> list[RawMessage]:
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


def write_anthropic(messages: Sequence[Neutral], losses: Losses) -> list[RawMessage]:
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


WRITERS = {"openai.chat": write_chat, "openai.responses": write_responses, "anthropic": write_anthropic}


def _text_of(blocks: Iterable[Block]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, Text))


def _chat_call(call: Call) -> dict[str, Any]:
    if call.free:
        return {"id": call.call_id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
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
        losses.add(place, block.kind, FILE_BOUND if block.file_id else "it has no place in such a message")
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


_log = logging.getLogger("siltstone")


@dataclass(frozen=True, slots=True)
class Loss:
    """A part of a message that has no equal in the other dialect.

    Attributes:
        position: The message's position in the given list.
        part: The part: a key, or a block with its place and type.
        why: The reason of the loss, or the replacement of the part.
    """

    position: int
    part: str
    why: str


@dataclass(frozen=True, slots=True)
class Converted:
    """A history in another dialect.

    Attributes:
        messages: The history. A message that is equal in both dialects is the same object.
        losses: Parts that are missing or changed; empty for a conversion that can be reversed.
    """

    messages: list[Any]
    losses: tuple[Loss, ...]


def convert(
    messages: Iterable[RawMessage],
    to: Dialect,
    *,
    dialect: Dialect | None = None,
    on_loss: Literal["drop", "warn", "error"] = "drop",
) -> Converted:
    """*messages* in the dialect *to*, and all losses.

    Texts, calls, results, images and documents have a form in every dialect. Calls and results stay
    together: adjacent calls become one message if the dialect requires it, and late results are moved to
    their call. Reasoning, files by their id, and blocks that only one provider knows are lost, because they
    are bound to their provider. A history that is already in the dialect *to* keeps its objects.

    Args:
        messages: A history, of one dialect or several.
        to: ``"openai.chat"``, ``"openai.responses"`` or ``"anthropic"``.
        dialect: The dialect of all messages; by default it is detected for each message.
        on_loss: ``"drop"``: losses are only in the result. ``"warn"``: each is logged as well. ``"error"``:
            the first is raised, and nothing is returned.

    Raises:
        InvalidMessageError: one of *messages* is not a message, or there is no such dialect.
        ConversionLossError: with ``on_loss="error"``. Carries ``loss``.
    """
    writer = WRITERS.get(to)
    if writer is None:
        known = ", ".join(map(repr, WRITERS))
        raise InvalidMessageError(f"unknown dialect {to!r} to convert to; known are {known}", dialect=to)
    raws = list(messages)
    found = [_dialect(raw, place, dialect) for place, raw in enumerate(raws)]
    if all(each in (to, "any") for each in found):
        return Converted(raws, ())
    losses = Losses()
    read = [
        each
        for place, (raw, own) in enumerate(zip(raws, found, strict=True))
        for each in _read(raw, place, own, losses)
    ]
    if to != "openai.responses":
        read = _gathered(read, losses)
    if to == "anthropic":
        read = _with_ids_of_their_own(read, losses)
    written = writer(read, losses)
    told = tuple(Loss(*each) for each in sorted(losses.found, key=lambda each: each[0]))
    for loss in told:
        said = f"message {loss.position}: {loss.part} is lost in {to}: {loss.why}"
        if on_loss == "error":
            raise ConversionLossError(said, loss=loss)
        if on_loss == "warn":
            _log.warning(said)
    return Converted(written, told)


def _dialect(raw: RawMessage, place: int, dialect: Dialect | None) -> Dialect:
    validate(raw, index=place, dialect=dialect)
    fields = as_fields(raw) or {}
    if is_plain(fields):
        return "any"
    found = dialect or detect(raw)
    return "openai.chat" if found == "any" else found  # a list of text blocks is written anew


def _read(raw: RawMessage, place: int, dialect: Dialect, losses: Losses) -> list[Neutral]:
    fields = as_fields(raw) or {}
    if dialect == "any":
        return [Neutral(place, fields["role"], (Text(fields["content"]),), raw)]
    return READERS[dialect](raw, place, losses)


def _gathered(messages: Sequence[Neutral], losses: Losses) -> list[Neutral]:
    """*messages* with adjacent calls as one message, and with their results directly after it."""
    merged = _side_by_side(messages)
    results: dict[str, list[int]] = {}
    for at, message in enumerate(merged):
        if message.role == "tool":
            results.setdefault(_answers(message), []).append(at)
    taken: set[int] = set()
    gathered: list[Neutral] = []
    for at, message in enumerate(merged):
        if at in taken:
            continue
        gathered.append(message)
        calls = [block.call_id for block in message.blocks if isinstance(block, Call)]
        found = [place for call_id in calls if (place := _next(results, call_id, at, taken)) is not None]
        for offset, place in enumerate(sorted(found)):
            if place != at + 1 + offset:
                losses.add(merged[place].place, "place", "the result is moved to its call")
            taken.add(place)
            gathered.append(merged[place])
    return gathered


def _with_ids_of_their_own(messages: Sequence[Neutral], losses: Losses) -> list[Neutral]:
    """*messages* with a different id for each call: Anthropic allows an id only once in a history."""
    used: set[str] = set()
    current: dict[str, str] = {}

    def renamed(block: Block, place: int) -> Block:
        if isinstance(block, Call):
            fresh, number = block.call_id, 2
            while fresh in used:
                fresh, number = f"{block.call_id}-{number}", number + 1
            used.add(fresh)
            current[block.call_id] = fresh
            place = block.place
        elif not isinstance(block, Result) or block.call_id not in current:
            return block
        fresh = current[block.call_id]
        if fresh != block.call_id:
            losses.add(place, "id", f"{block.call_id!r} is already that of another call, so it is {fresh!r}")
        return replace(block, call_id=fresh)

    return [
        replace(message, blocks=tuple(renamed(block, message.place) for block in message.blocks))
        for message in messages
    ]


def _side_by_side(messages: Sequence[Neutral]) -> list[Neutral]:
    merged: list[Neutral] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last is not None and last.raw is None and _calls_only(message) and _calls(last):
            merged[-1] = Neutral(last.place, "assistant", (*last.blocks, *message.blocks))
        else:
            merged.append(message)
    return merged


def _next(results: dict[str, list[int]], call_id: str, at: int, taken: set[int]) -> int | None:
    return next((place for place in results.get(call_id, ()) if place > at and place not in taken), None)


def _answers(message: Neutral) -> str:
    block = message.blocks[0]
    return block.call_id if isinstance(block, Result) else ""


def _calls(message: Neutral) -> bool:
    return any(isinstance(block, Call) for block in message.blocks)


def _calls_only(message: Neutral) -> bool:
    return bool(message.blocks) and all(isinstance(block, Call) for block in message.blocks)
