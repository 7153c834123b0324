"""Inline data in a message, and the text that replaces it where only text is possible."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from siltstone.messages.message import Part
from siltstone.messages.plain import as_fields

__all__ = ["Modality", "media_part", "without_inline_data"]

Modality: TypeAlias = Literal["image", "audio", "video", "document"]
Fields: TypeAlias = Mapping[str, Any]

# The media type for a block without one: any type of its kind; for a document, plain bytes.
_UNKNOWN: dict[Modality, str] = {
    "image": "image/*",
    "audio": "audio/*",
    "video": "video/*",
    "document": "application/octet-stream",
}
_DATA_KEYS = frozenset({"data", "file_data", "b64_json"})
_PICTURE_CALL = "image_generation_call"  # an item of the Responses API; its ``result`` is the picture
_TEXT_TYPES = ("text", "redacted_thinking")  # types whose ``data`` is text, not media
_BASE64 = re.compile(r"[A-Za-z0-9+/_\-\r\n]{64,}={0,2}\s*")  # a shorter run may be a word, and saves little

_MODALITIES: dict[str, Modality] = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "video_url": "video",
    "input_video": "video",
    "document": "document",
    "file": "document",
    "input_file": "document",
    "computer_screenshot": "image",
}


def media_part(kind: str, block: Fields, call_id: str | None = None) -> Part | None:
    """The part of a block of type *kind* with a picture, a sound, a film or a document; else None.

    Each dialect has its own spelling: ``image`` with a ``source``, ``image_url``, ``input_audio``, ``file``
    and so on. All spellings are read in every dialect.
    """
    modality = _MODALITIES.get(kind)
    if modality is None:
        return None
    holder = block.get("source", block.get(kind, block))
    if isinstance(holder, str):
        holder = {"url": holder}
    source = as_fields(holder)
    if source is None:
        source = {}
    if source.get("type") in ("text", "content"):
        return None  # a text document is read as text
    media_type, data = _data(source)
    media_type = media_type or _stated_type(source, modality)
    return Part(
        "blob",
        text=f"[{_refined(modality, media_type)}: {media_type or _UNKNOWN[modality]}]",
        call_id=call_id,
        modality=_refined(modality, media_type),
        size=len(data),
        duration_ms=_duration(block) or _duration(source),
    )


def _data(source: Fields) -> tuple[str | None, str]:
    """The media type, if a data URL has it, and the base64 text, which is empty for a reference."""
    for key in ("data", "file_data", "url", "image_url"):
        value = source.get(key)
        if not isinstance(value, str):
            continue
        if value.startswith("data:"):
            head, _, data = value.partition(",")
            return head[len("data:") :].split(";")[0] or None, data
        if key in _DATA_KEYS:
            return None, value
    return None, ""


def _stated_type(source: Fields, modality: Modality) -> str | None:
    for key in ("media_type", "mime_type"):
        value = source.get(key)
        if isinstance(value, str) and value:
            return value
    suffix = source.get("format")
    return f"{modality}/{suffix}" if isinstance(suffix, str) and suffix else None


def _refined(modality: Modality, media_type: str | None) -> Modality:
    """The modality by the media type, which is more exact than the type of the block.

    For example, a ``file`` may be a picture.
    """
    if modality != "document" or media_type is None:
        return modality
    major = media_type.partition("/")[0]
    return major if major in ("image", "audio", "video") else modality  # type: ignore[return-value]


def _duration(fields: Fields) -> int:
    value = fields.get("duration_ms")
    return int(value) if isinstance(value, (int, float)) and 0 < value < 2**53 else 0


def without_inline_data(value: Any) -> tuple[Any, int]:
    """*value* as plain JSON without its base64 data, and the number of characters that were cut.

    The data after ``data:…;base64,`` in a data URL is cut, and base64 under the keys that carry it. *value*
    itself is not changed.
    """
    if isinstance(value, str):
        return _without_data_url(value)
    if isinstance(value, (list, tuple)):
        return _items_without_inline_data(value)
    fields = as_fields(value)
    if fields is None:
        return value, 0
    kept, total = {}, 0
    kind = fields.get("type")
    opaque = isinstance(kind, str) and kind in _TEXT_TYPES
    for key, item in fields.items():
        carries = key in _DATA_KEYS or (key == "result" and kind == _PICTURE_CALL)
        if carries and not opaque and _is_base64(item):
            kept[key], cut = "", len(item)
        else:
            kept[key], cut = without_inline_data(item)
        total += cut
    return kept, total


def _items_without_inline_data(items: Iterable[Any]) -> tuple[list[Any], int]:
    kept, total = [], 0
    for item in items:
        rest, cut = without_inline_data(item)
        kept.append(rest)
        total += cut
    return kept, total


def _without_data_url(text: str) -> tuple[str, int]:
    if not text.startswith("data:"):
        return text, 0
    head, comma, data = text.partition(",")
    if not head.endswith(";base64"):
        return text, 0
    return head + comma, len(data)


def _is_base64(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and _BASE64.fullmatch(value) is not None
