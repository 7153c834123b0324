"""The tombstone of a message: it replaces a forgotten message.

A tombstone keeps the type of the message, of its items and of its blocks, and the ids that tie calls to
results. So a provider still accepts the history. Texts, arguments, outputs, media and everything else are
gone. Signed reasoning is never edited: a block of it is left out whole, an item of it keeps only its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from siltstone.messages.dialects import anthropic, openai_responses
from siltstone.messages.message import Dialect
from siltstone.messages.read import detect
from siltstone.messages.tombstone_items import FORGOTTEN, emptied

__all__ = ["FORGOTTEN", "Identifier", "identifiers", "renamed", "tombstone"]

_ALIKE = ("role", "tool_call_id")  #: fields that stay: they tie a message to its place, and have no text

_IDS: Final = frozenset({"id", "approval_request_id", "caller_id"})  # and all keys that end in _id
_NAMES: Final = frozenset({"name", "server_name", "server_label"})


def tombstone(raw: Mapping[str, Any], dialect: Dialect | None = None) -> dict[str, Any]:
    """*raw* without its texts: only its type, its role, and the ids that tie calls to results.

    A call keeps its id and the tool's name, a result keeps the id of its call. The tombstone has the dialect
    of *raw*, which is detected if *dialect* is None.
    """
    dialect = dialect or detect(raw)
    if dialect == openai_responses.NAME:
        return emptied(raw)
    kept = {key: raw[key] for key in _ALIKE if key in raw}
    if raw.get("role") == "function" and "name" in raw:
        kept["name"] = raw["name"]  # only the name ties such a result to its call
    content = raw.get("content")
    if isinstance(content, list | tuple):
        kept["content"] = _blocks(content)
    else:
        kept["content"] = FORGOTTEN if isinstance(content, str) else None
    calls = raw.get("tool_calls")
    if isinstance(calls, list | tuple):
        kept["tool_calls"] = [_call(call) for call in calls if isinstance(call, Mapping)]
    called = raw.get("function_call")
    if isinstance(called, Mapping):
        kept["function_call"] = {"name": called.get("name"), "arguments": "{}"}
    if kept["content"] is None and not kept.get("tool_calls") and "function_call" not in kept:
        kept["content"] = FORGOTTEN
    return kept


class Identifier(NamedTuple):
    """An identifier that a tombstone still has.

    An ``id`` ties a call or an item to others. A ``name`` is the name of a tool or a server. A ``tying name``
    is a name that ties a call to its result, because neither has an id.
    """

    kind: Literal["id", "name", "tying name"]
    value: str


def identifiers(forgotten: Mapping[str, Any]) -> Iterator[Identifier]:
    """The ids and the names in a tombstone, in order."""
    is_tied_by_name = forgotten.get("role") == "function" or "function_call" in forgotten
    for key, value in _identifying(forgotten):
        kind: Literal["id", "name"] = "name" if key in _NAMES else "id"
        yield Identifier("tying name" if kind == "name" and is_tied_by_name else kind, value)


def renamed(forgotten: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A tombstone with its ids and names replaced by *names*. A call and its result need the same new id."""
    return {key: _renamed(key, value, names) for key, value in forgotten.items()}


def _identifying(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in fields.items():
        if _identifies(key, value):
            yield key, value
        else:
            for inner in value if isinstance(value, list) else (value,):
                if isinstance(inner, Mapping):
                    yield from _identifying(inner)


def _renamed(key: str, value: Any, names: Mapping[str, str]) -> Any:
    if _identifies(key, value):
        return names.get(value, value)
    if isinstance(value, Mapping):
        return renamed(value, names)
    if isinstance(value, list):
        return [renamed(each, names) if isinstance(each, Mapping) else each for each in value]
    return value


def _identifies(key: str, value: object) -> bool:
    return isinstance(value, str) and (key in _IDS or key in _NAMES or key.endswith("_id"))


def _blocks(content: list[Any] | tuple[Any, ...]) -> list[dict[str, Any]]:
    """The emptied blocks to which others refer, and one text if there was a text, or if no block is left."""
    blocks: list[dict[str, Any]] = []
    has_text = False
    for item in content:
        kind = item.get("type") if isinstance(item, Mapping) else "text"
        block = _block(item, str(kind)) if isinstance(item, Mapping) else None
        if block is not None:
            blocks.append(block)
        elif kind == "text" and not has_text:
            blocks.append({"type": "text", "text": FORGOTTEN})
            has_text = True
    return blocks or [{"type": "text", "text": FORGOTTEN}]


def _block(item: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """The emptied form of a block to which others refer, or of a compaction; None for any other block."""
    if kind in anthropic.CALLS:
        kept = {key: item[key] for key in ("id", "name", "server_name") if key in item}
        return {"type": kind, **kept, "input": {}}
    if kind == "tool_result":
        failed = {"is_error": True} if item.get("is_error") is True else {}
        return {"type": kind, "tool_use_id": item.get("tool_use_id"), "content": FORGOTTEN, **failed}
    if kind == "mcp_tool_result":
        content = [{"type": "text", "text": FORGOTTEN}]
        return {"type": kind, "tool_use_id": item.get("tool_use_id"), "is_error": False, "content": content}
    if anthropic.is_result(kind):  # a provider's tool: content of its own type, or an error
        error = {"type": f"{kind}_error", "error_code": "unavailable"}
        return {"type": kind, "tool_use_id": item.get("tool_use_id"), "content": error}
    return {"type": kind, "content": FORGOTTEN} if kind == "compaction" else None


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    kind = call.get("type") if isinstance(call.get("type"), str) else "function"
    called = call.get(str(kind))
    name = called.get("name") if isinstance(called, Mapping) else None
    said = {"input": ""} if kind == "custom" else {"arguments": "{}"}
    return {"id": call.get("id"), "type": kind, str(kind): {"name": name, **said}}
