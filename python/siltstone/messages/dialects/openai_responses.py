"""Reads items of the OpenAI Responses API.

An item is a message with a role, or a call, an output, reasoning and so on, with only a type. Items that the
model made get the role ``assistant``; answers to calls get the role ``tool``.

Three kinds of items get the role ``developer``, although no developer wrote them: a compaction of the
provider, a reference to an item at the provider, and settings that stay in force. The text behind the first
two is only at the provider, so no summary could replace them. Messages of that role are never discarded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from siltstone.messages.dialects.base import (
    Fields,
    Malformed,
    arguments_text,
    identifier,
    known_parts,
    opaque_size,
    read_content,
    result_parts,
    string,
    text_of,
)
from siltstone.messages.dialects.pairs import BY_PROVIDER, CALLS, OUTPUTS, CallType
from siltstone.messages.media import media_part
from siltstone.messages.message import REFERENCE, Dialect, Part, Role
from siltstone.messages.plain import as_fields

__all__ = ["ITEMS", "NAME", "ROLES", "TYPES", "item_type", "read"]

NAME: Final[Dialect] = "openai.responses"

#: The roles of messages of this dialect, each with the common role.
ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}

#: Block types that no other dialect has.
TYPES = frozenset({"input_text", "output_text", "input_image", "input_file"})

_TEXTS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}  # block type: key of its text
_OPAQUE = frozenset({"compaction", "compaction_summary"})
_SETTINGS = frozenset(
    {"additional_tools", "configuration_update"}
)  # in force until another one replaces them

#: Item types that no other dialect has.
ITEMS = frozenset({
    *CALLS, *OUTPUTS, *BY_PROVIDER, *_OPAQUE, REFERENCE,
    *_SETTINGS, "reasoning", "mcp_list_tools", "compaction_trigger",
})  # fmt: skip


def item_type(fields: Mapping[str, Any]) -> str:
    """The type of an item; without a type ``message`` for a role, ``item_reference`` for a bare id."""
    kind = fields.get("type")
    if isinstance(kind, str):
        return kind
    if fields.get("role") is not None:
        return "message"
    return REFERENCE if isinstance(fields.get("id"), str) and fields.keys() <= {"id", "type"} else ""


def read(fields: Fields) -> tuple[Role, tuple[Part, ...]]:
    """The role and the parts of an item."""
    kind = item_type(fields)
    if kind in CALLS:
        return "assistant", (_call(fields, CALLS[kind]), *_caller(fields))
    if kind in OUTPUTS:
        return "tool", _output(kind, fields, OUTPUTS[kind])
    if kind in BY_PROVIDER:
        return "assistant", (*_run_by_provider(kind, fields), *_approval(fields))
    if kind == "reasoning":
        thought = text_of([fields.get("summary"), fields.get("content")])
        return "assistant", (Part("reasoning", thought, size=opaque_size(fields, "encrypted_content")),)
    if kind in _OPAQUE:
        return "developer", (Part("compaction"),)
    if kind == REFERENCE:
        return "developer", (Part("other", name=REFERENCE),)
    if kind in ITEMS or fields.get("role") is None:
        return _role_of_unknown(kind, fields), _unknown(fields)
    return ROLES[fields["role"]], read_content(fields.get("content"), "content", _read_block)


def _read_block(kind: str, block: Fields, path: str) -> Iterable[Part]:
    key = _TEXTS.get(kind)
    return known_parts(kind, block) if key is None else (Part("text", string(block, key, path)),)


def _call(fields: Fields, call: CallType) -> Part:
    name = call.name or identifier(fields.get("name"))
    arguments = _first(fields, call.arguments)
    return Part("tool_call", "", identifier(fields.get(call.call_id)), name, arguments_text(arguments))


def _output(kind: str, fields: Fields, call: CallType) -> tuple[Part, ...]:
    call_id = identifier(_first(fields, call.answered_by))
    name = call.name or identifier(fields.get("name"))
    if kind == "mcp_approval_response":
        return (Part("tool_result", _decision(fields), call_id, name),)
    output = fields.get("result" if kind == "program_output" else "output")
    if kind == "tool_search_output":
        output = None  # only schemas of tools, no text of the conversation
    content = [output] if isinstance(output, Mapping) else output
    failed = kind == "apply_patch_call_output" and fields.get("status") == "failed"
    return result_parts(call_id, name, content, "output", is_error=failed) + _caller(fields)


def _decision(fields: Fields) -> str:
    reason = fields.get("reason")
    decision = "approved" if fields.get("approve") is True else "refused"
    return f"{decision}: {reason}" if isinstance(reason, str) and reason else decision


def _run_by_provider(kind: str, fields: Fields) -> tuple[Part, ...]:
    """A call and its result in one item. Only the provider can answer it, whatever its status is."""
    name, keys = BY_PROVIDER[kind]
    call_id = identifier(fields.get("id"))
    name = name or identifier(fields.get("name"))
    call = Part("tool_call", "", call_id, name, arguments_text(_first(fields, keys)))
    if kind == "image_generation_call":
        return call, Part("tool_result", "", call_id, name), *_picture(fields, call_id)
    if kind == "mcp_call":
        error = fields.get("error")
        said = text_of([fields.get("output"), _message_of(error)])
        return call, Part("tool_result", said, call_id, name, is_error=error is not None)
    key = "outputs" if kind == "code_interpreter_call" else "results"
    found = fields.get(key)
    if found is not None and not isinstance(found, (list, tuple)):
        raise Malformed(key, "a list", found)
    return call, *result_parts(call_id, name, found, key)


def _message_of(error: object) -> object:
    fields = as_fields(error)
    return fields.get("message", fields) if fields is not None else error


def _picture(fields: Fields, call_id: str | None) -> Iterable[Part]:
    data = fields.get("result")
    if not isinstance(data, str):
        return ()
    source = {"data": data, "format": fields.get("output_format")}
    part = media_part("image", {"source": source}, call_id)
    return () if part is None else (part,)


def _approval(fields: Fields) -> tuple[Part, ...]:
    """The part that ties an approved call to its request for approval."""
    approved = identifier(fields.get("approval_request_id"))
    return () if approved is None else (Part("other", call_id=approved),)


def _caller(fields: Fields) -> tuple[Part, ...]:
    """The part that ties a program's call to the program."""
    caller = as_fields(fields.get("caller"))
    program = None if caller is None else identifier(caller.get("caller_id"))
    return () if program is None else (Part("other", call_id=program),)


def _role_of_unknown(kind: str, fields: Fields) -> Role:
    role = fields.get("role")
    if isinstance(role, str) and role in ROLES:
        return ROLES[role]
    if kind in _SETTINGS:
        return "developer"
    return "tool" if kind.endswith(("_output", "_response")) else "assistant"


def _unknown(fields: Fields) -> tuple[Part, ...]:
    call_id = identifier(fields.get("call_id"))
    parts = known_parts("", fields)
    return parts if call_id is None else tuple(replace(part, call_id=call_id) for part in parts)


def _first(fields: Fields, keys: Iterable[str]) -> object:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)
