"""What stands in the place of a message that was forgotten?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["FORGOTTEN", "texts_of", "tombstone"]

FORGOTTEN = "[forgotten]"  #: what a model reads where something was said

_ALIKE = ("role", "tool_call_id")  #: what keeps a message in its place, and says nothing


def tombstone(raw: Mapping[str, Any]) -> dict[str, Any]:
    """*raw* without what it said: its role, and the ids that tie calls to results.

    So a history stays one that a provider takes: a call keeps its id and the tool's name, a result its
    call. Texts, arguments, outputs, media, reasoning and everything else is gone. Signed reasoning is
    never edited, but left out whole.
    """
    kept = {key: raw[key] for key in _ALIKE if key in raw}
    if raw.get("role") == "function" and "name" in raw:
        kept["name"] = raw["name"]  # all that ties such a result to its call
    content = raw.get("content")
    if isinstance(content, list | tuple):
        blocks = [block for item in content if (block := _block(item))]
        kept["content"] = blocks or [{"type": "text", "text": FORGOTTEN}]
    else:
        kept["content"] = FORGOTTEN if isinstance(content, str) else None
    calls = raw.get("tool_calls")
    if isinstance(calls, list | tuple):
        kept["tool_calls"] = [_call(call) for call in calls if isinstance(call, Mapping)]
    called = raw.get("function_call")
    if isinstance(called, Mapping):
        kept["function_call"] = {"name": called.get("name"), "arguments": "{}"}
    if kept["content"] is None and "tool_calls" not in kept and "function_call" not in kept:
        kept["content"] = FORGOTTEN
    return kept


def _block(item: object) -> dict[str, Any] | None:
    """A block that others refer to, emptied; None for any other."""
    if not isinstance(item, Mapping):
        return None
    if item.get("type") == "tool_use":
        return {"type": "tool_use", "id": item.get("id"), "name": item.get("name"), "input": {}}
    if item.get("type") == "tool_result":
        return {"type": "tool_result", "tool_use_id": item.get("tool_use_id"), "content": FORGOTTEN}
    return None


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    kind = call.get("type") if isinstance(call.get("type"), str) else "function"
    called = call.get(str(kind))
    name = called.get("name") if isinstance(called, Mapping) else None
    emptied = {"name": name, "input": ""} if kind == "custom" else {"name": name, "arguments": "{}"}
    return {"id": call.get("id"), "type": kind, str(kind): emptied}


def texts_of(value: object) -> Iterator[str]:
    """Every text in a message, keys included, and what is written as JSON inside of a text."""
    if isinstance(value, str):
        yield value
        yield from _nested(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from texts_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_of(item)


def _nested(text: str) -> Iterator[str]:
    if not text.lstrip().startswith(("{", "[", '"')):
        return
    import json

    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return
    if inner != text:
        yield from texts_of(inner)
