"""The common part of the readers of all dialects.

A reader is a module with a ``NAME``, its ``ROLES``, the block types that only its dialect has (``TYPES``),
and ``read(fields) -> (role, parts)``. It never changes the message, and it drops nothing: a block of an
unknown type becomes a part of kind ``other``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from siltstone._native import json_size, text_size
from siltstone.messages.json_text import dump
from siltstone.messages.media import media_part, without_inline_data
from siltstone.messages.message import Part
from siltstone.messages.plain import as_fields

__all__ = [
    "BlockReader",
    "Fields",
    "Malformed",
    "arguments_text",
    "identifier",
    "known_parts",
    "opaque_size",
    "read_content",
    "result_parts",
    "string",
    "text_of",
]

Fields: TypeAlias = Mapping[str, Any]
BlockReader: TypeAlias = Callable[[str, Fields, str], Iterable[Part]]
"""``(type, block, path) -> parts``: reads the blocks of one dialect."""

# The keys of blocks with readable text, in reading order. Encrypted texts and URLs are not among them.
_TEXT_KEYS = (
    *("title", "context", "text", "refusal", "transcript"),
    *("stdout", "stderr", "logs", "output", "content", "source"),
)


class Malformed(Exception):  # noqa: N818 - never leaves this family
    """A message does not follow its dialect. It becomes an ``InvalidMessageError`` that names the message."""

    def __init__(self, key: str, expected: str, value: object) -> None:
        super().__init__(key)
        self.key, self.expected, self.value = key, expected, value


def string(fields: Fields, key: str, path: str, place: int | None = None) -> str:
    """The text under *key* of the block at *path*, or at *place* of the list there.

    Raises:
        Malformed: there is no text.
    """
    value = fields.get(key)
    if isinstance(value, str):
        return value
    block = path if place is None else f"{path}[{place}]"
    raise Malformed(f"{block}.{key}", "text", value)


def identifier(value: object) -> str | None:
    """An id or a name as text; None stays None. A number becomes its digits."""
    return value if value is None or isinstance(value, str) else str(value)


def opaque_size(fields: Fields, key: str) -> int:
    """The bytes of the signature or the encrypted text under *key*; 0 if there is none."""
    value = fields.get(key)
    return text_size(value)[0] if isinstance(value, str) else 0


def arguments_text(value: object) -> str:
    """Arguments as JSON text: a text as received, any other value as compact JSON."""
    return value if isinstance(value, str) else dump({} if value is None else value)


def read_content(content: object, path: str, reader: BlockReader) -> tuple[Part, ...]:
    """The parts of a ``content``, which is a text or a list of blocks.

    Raises:
        Malformed: it is neither.
    """
    if isinstance(content, str):
        return (Part("text", content),)
    if not isinstance(content, (list, tuple)):
        raise Malformed(path, "text or a list of blocks", content)
    parts: list[Part] = []
    for place, item in enumerate(content):
        if isinstance(item, str):
            parts.append(Part("text", item))
            continue
        block = item if type(item) is dict else as_fields(item)
        if block is None:
            raise Malformed(f"{path}[{place}]", "a block", item)
        kind = block.get("type")
        if kind == "text":
            parts.append(Part("text", string(block, "text", path, place)))
        else:
            parts.extend(reader(kind if isinstance(kind, str) else "", block, f"{path}[{place}]"))
    return tuple(parts)


def known_parts(kind: str, block: Fields, _path: str = "") -> tuple[Part, ...]:
    """The parts of a block that all dialects read in the same way: media, and blocks of unknown types."""
    return (media_part(kind, block) or _other_part(block),)


def result_parts(
    call_id: str | None,
    name: str | None,
    content: object,
    path: str,
    *,
    is_error: bool = False,
) -> tuple[Part, ...]:
    """The parts of a tool result: its text as one part, then the media inside it, each with its call's id."""
    if content is None or isinstance(content, str):
        return (Part("tool_result", content or "", call_id, name, None, is_error),)
    fields = as_fields(content)
    if fields is not None:
        return (Part("tool_result", text_of(fields), call_id, name, None, is_error),)
    texts: list[str] = []
    beside: list[Part] = []
    for part in read_content(content, path, known_parts):
        if part.kind == "blob" or not (part.text or part.kind == "text"):
            beside.append(_of_call(part, call_id))
        elif part.text:
            texts.append(part.text)
    return (Part("tool_result", "\n".join(texts), call_id, name, None, is_error), *beside)


def text_of(value: object) -> str:
    """All texts in a nested block of an unknown type, joined by line breaks."""
    return "\n".join(_texts(value))


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif (fields := as_fields(value)) is not None:
        if fields.get("type") == "text" and isinstance(fields.get("data"), str):
            yield from _texts(fields["data"])  # the source of a plain text document
        for key in _TEXT_KEYS:
            item = fields.get(key)
            if key != "source" or not isinstance(item, str):  # a source that is a str is a URL
                yield from _texts(item)


def _other_part(block: Fields) -> Part:
    text = text_of(block)
    rest, cut = without_inline_data(block)
    return Part(
        "other",
        text,
        modality="document" if cut else None,
        size=0 if text else json_size(rest)[0],
    )


def _of_call(part: Part, call_id: str | None) -> Part:
    return Part(
        part.kind,
        part.text,
        call_id,
        modality=part.modality,
        size=part.size,
        duration_ms=part.duration_ms,
    )
