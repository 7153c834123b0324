"""Reads messages of the Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from siltstone.messages.dialects.base import (
    Fields,
    arguments_text,
    identifier,
    known_parts,
    opaque_size,
    read_content,
    result_parts,
    string,
    text_of,
)
from siltstone.messages.message import Dialect, Part, Role
from siltstone.messages.plain import as_fields

__all__ = ["CALLS", "NAME", "ROLES", "TYPES", "is_result", "read"]

NAME: Final[Dialect] = "anthropic"

#: The roles of this dialect, each with the common role. System text is usually a parameter of the request;
#: in a complete history it is a message.
ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}

CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})

#: Block types that no other dialect has. Types of results are not listed: ``is_result`` knows them.
TYPES = CALLS | {
    *("thinking", "redacted_thinking", "image", "document"),
    *("search_result", "container_upload", "compaction"),
}


def is_result(kind: str) -> bool:
    """Whether a block of type *kind* is a result: ``tool_result``, ``web_search_tool_result`` and so on."""
    return kind.endswith("tool_result")


def read(fields: Fields) -> tuple[Role, tuple[Part, ...]]:
    """The role and the parts of a message."""
    return ROLES[fields["role"]], read_content(fields.get("content"), "content", _read_block)


def _read_block(kind: str, block: Fields, path: str) -> Iterable[Part]:
    if kind == "tool_result":
        failed = block.get("is_error") is True
        call_id = identifier(block.get("tool_use_id"))
        return result_parts(call_id, None, block.get("content"), f"{path}.content", is_error=failed)
    if kind in CALLS:
        arguments = arguments_text(block.get("input"))
        call_id, name = identifier(block.get("id")), identifier(block.get("name"))
        return (Part("tool_call", "", call_id, name, arguments),)
    if kind == "thinking":
        thought = string(block, "thinking", path)
        return (Part("reasoning", thought, size=opaque_size(block, "signature")),)
    if kind == "redacted_thinking":
        return (Part("reasoning", size=opaque_size(block, "data")),)
    if kind == "compaction":
        return (Part("compaction", text_of(block)),)
    if is_result(kind):
        return _server_result(block, path)
    return known_parts(kind, block)


def _server_result(block: Fields, path: str) -> Iterable[Part]:
    """The result of a tool that the provider ran: an object or a list of objects, in many shapes."""
    content = block.get("content")
    outcome = as_fields(content)
    kind = outcome.get("type") if outcome is not None else None
    failed = block.get("is_error") is True or (isinstance(kind, str) and kind.endswith("_error"))
    return result_parts(
        identifier(block.get("tool_use_id")), None, content, f"{path}.content", is_error=failed
    )
