"""Reads items of the OpenAI Responses API.

An item is a message with a role, or a call, an output, reasoning and so on, with only a type. Items that the
model made get the role ``assistant``; answers to calls get the role ``tool``.

Three kinds of items get the role ``developer``, although no developer wrote them: a compaction of the
provider, a reference to an item at the provider, and settings that stay in force. The text behind the first
two is only at the provider, so no summary could replace them. Messages of that role are never discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from siltstone.messages.dialects import base
from siltstone.messages.groups import call_key, is_reasoning
from siltstone.messages.message import (
    REFERENCE,
    Dialect,
    Message,
    Part,
    RawMessage,
    RepairedMessage,
    Role,
    as_fields,
)

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
#: In force until another one replaces them.
_SETTINGS = frozenset({"additional_tools", "configuration_update"})

#: Item types that no other dialect has.
ITEMS = frozenset({
    *base.CALLS, *base.OUTPUTS, *base.BY_PROVIDER, *_OPAQUE, REFERENCE,
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


def read(fields: base.Fields) -> tuple[Role, tuple[Part, ...]]:
    """The role and the parts of an item."""
    kind = item_type(fields)
    if kind in base.CALLS:
        return "assistant", (_call(fields, base.CALLS[kind]), *_caller(fields))
    if kind in base.OUTPUTS:
        return "tool", _output(kind, fields, base.OUTPUTS[kind])
    if kind in base.BY_PROVIDER:
        return "assistant", (*_run_by_provider(kind, fields), *_approval(fields))
    if kind == "reasoning":
        thought = base.text_of([fields.get("summary"), fields.get("content")])
        return "assistant", (Part("reasoning", thought, size=base.opaque_size(fields, "encrypted_content")),)
    if kind in _OPAQUE:
        return "developer", (Part("compaction"),)
    if kind == REFERENCE:
        return "developer", (Part("other", name=REFERENCE),)
    if kind in ITEMS or fields.get("role") is None:
        return _role_of_unknown(kind, fields), _unknown(fields)
    return ROLES[fields["role"]], base.read_content(fields.get("content"), "content", _read_block)


def _read_block(kind: str, block: base.Fields, path: str) -> Iterable[Part]:
    key = _TEXTS.get(kind)
    return base.known_parts(kind, block) if key is None else (Part("text", base.string(block, key, path)),)


def _call(fields: base.Fields, call: base.CallType) -> Part:
    name = call.name or base.identifier(fields.get("name"))
    arguments = _first(fields, call.arguments)
    return Part(
        "tool_call", "", base.identifier(fields.get(call.call_id)), name, base.arguments_text(arguments)
    )


def _output(kind: str, fields: base.Fields, call: base.CallType) -> tuple[Part, ...]:
    call_id = base.identifier(_first(fields, call.answered_by))
    name = call.name or base.identifier(fields.get("name"))
    if kind == "mcp_approval_response":
        return (Part("tool_result", _decision(fields), call_id, name),)
    output = fields.get("result" if kind == "program_output" else "output")
    if kind == "tool_search_output":
        output = None  # only schemas of tools, no text of the conversation
    content = [output] if isinstance(output, Mapping) else output
    failed = kind == "apply_patch_call_output" and fields.get("status") == "failed"
    return base.result_parts(call_id, name, content, "output", is_error=failed) + _caller(fields)


def _decision(fields: base.Fields) -> str:
    reason = fields.get("reason")
    decision = "approved" if fields.get("approve") is True else "refused"
    return f"{decision}: {reason}" if isinstance(reason, str) and reason else decision


def _run_by_provider(kind: str, fields: base.Fields) -> tuple[Part, ...]:
    """A call and its result in one item. Only the provider can answer it, whatever its status is."""
    name, keys = base.BY_PROVIDER[kind]
    call_id = base.identifier(fields.get("id"))
    name = name or base.identifier(fields.get("name"))
    call = Part("tool_call", "", call_id, name, base.arguments_text(_first(fields, keys)))
    if kind == "image_generation_call":
        return call, Part("tool_result", "", call_id, name), *_picture(fields, call_id)
    if kind == "mcp_call":
        error = fields.get("error")
        said = base.text_of([fields.get("output"), _message_of(error)])
        return call, Part("tool_result", said, call_id, name, is_error=error is not None)
    key = "outputs" if kind == "code_interpreter_call" else "results"
    found = fields.get(key)
    if found is not None and not isinstance(found, (list, tuple)):
        raise base.Malformed(key, "a list", found)
    return call, *base.result_parts(call_id, name, found, key)


def _message_of(error: object) -> object:
    fields = as_fields(error)
    return fields.get("message", fields) if fields is not None else error


def _picture(fields: base.Fields, call_id: str | None) -> Iterable[Part]:
    data = fields.get("result")
    if not isinstance(data, str):
        return ()
    source = {"data": data, "format": fields.get("output_format")}
    part = base.media_part("image", {"source": source}, call_id)
    return () if part is None else (part,)


def _approval(fields: base.Fields) -> tuple[Part, ...]:
    """The part that ties an approved call to its request for approval."""
    approved = base.identifier(fields.get("approval_request_id"))
    return () if approved is None else (Part("other", call_id=approved),)


def _caller(fields: base.Fields) -> tuple[Part, ...]:
    """The part that ties a program's call to the program."""
    caller = as_fields(fields.get("caller"))
    program = None if caller is None else base.identifier(caller.get("caller_id"))
    return () if program is None else (Part("other", call_id=program),)


def _role_of_unknown(kind: str, fields: base.Fields) -> Role:
    role = fields.get("role")
    if isinstance(role, str) and role in ROLES:
        return ROLES[role]
    if kind in _SETTINGS:
        return "developer"
    return "tool" if kind.endswith(("_output", "_response")) else "assistant"


def _unknown(fields: base.Fields) -> tuple[Part, ...]:
    call_id = base.identifier(fields.get("call_id"))
    parts = base.known_parts("", fields)
    return parts if call_id is None else tuple(replace(part, call_id=call_id) for part in parts)


def _first(fields: base.Fields, keys: Iterable[str]) -> object:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


# The rules of the OpenAI Responses API.
#
# Items may follow each other in any order, with two rules. An output stands somewhere after its call, and
# has the type that answers it. Reasoning is followed directly by the item that it led to.


def check(history: base.Placed, pending_ok: bool) -> Iterator[base.Finding]:
    """The findings, in no order."""
    yield from _calls(history, pending_ok)
    yield from _lonely_reasoning(history, pending_ok)
    yield from _same_ids(history)


def _calls(history: base.Placed, pending_ok: bool) -> Iterator[base.Finding]:
    ledger = base.Ledger()
    types: dict[int, str] = {}
    asked, referred, before = -1, False, ""
    for position, message in history:
        types[position] = kind = _type(message.raw)
        calls = results = 0
        for part in message.parts:
            if part.kind == "tool_call":
                if part.call_id is None and kind != "tool_search_call":
                    yield base.Finding(
                        position, "missing-id", f"the call of {part.name!r} has no id", None, calls
                    )
                yield from ledger.open(position, part, calls)
                calls += 1
            elif part.kind == "tool_result":
                called_at = ledger.waiting_at(part)
                expected = None if called_at is None else base.CALLS.get(types[called_at])
                if expected is not None and kind in base.OUTPUTS and kind != expected.output:
                    said = f"call {part.call_id!r} is answered by {kind!r}, not by {expected.output!r}"
                    yield base.Finding(position, "result-type", said, part.call_id, results)
                elif called_at is not None or not referred:
                    yield from ledger.answer(position, part, results)
                results += 1
            elif part.kind == "other" and part.name == REFERENCE:
                referred = True  # from here on, the call of an output may be at the provider
        if message.role == "user" or (message.role == "assistant" and before == "tool"):
            asked = position
        before = message.role
    # A call may wait as long as neither a user message nor another answer of the assistant follows.
    yield from ledger.close(after=asked if pending_ok else -1) if asked >= 0 or not pending_ok else ()


def _lonely_reasoning(history: base.Placed, pending_ok: bool) -> Iterator[base.Finding]:
    """Finds reasoning without the item that it led to."""
    waiting: list[int] = []
    for position, message in history:
        if is_reasoning(message):
            waiting.append(position)
            continue
        refers = any(part.name == REFERENCE for part in message.parts)
        if message.role != "assistant" and not refers:
            yield from map(_alone, waiting)
        waiting.clear()
    if not pending_ok:
        yield from map(_alone, waiting)


def _alone(position: int) -> base.Finding:
    return base.Finding(position, "reasoning-alone", "the item that this reasoning led to does not follow it")


def _same_ids(history: base.Placed) -> Iterator[base.Finding]:
    seen: set[str] = set()
    for position, message in history:
        fields = as_fields(message.raw) or {}
        # A reference has the id of another item on purpose; the old shell's output has the id of its call.
        if item_type(fields) in (REFERENCE, "local_shell_call_output"):
            continue
        item_id = fields.get("id")
        if isinstance(item_id, str) and item_id:
            if item_id in seen:
                yield base.Finding(position, "duplicate-id", f"there is another item with the id {item_id!r}")
            seen.add(item_id)


def _type(raw: RawMessage) -> str:
    return item_type(as_fields(raw) or {})


# Repairs a list of Responses items.

# The artificial output for each type of call. A type that is not here needs an output that cannot be
# invented (a screenshot), so its call is removed.
_NO_OUTPUT: Final[dict[str, Callable[[str | None], dict[str, Any]]]] = {
    "function_call": lambda call_id: {"call_id": call_id, "output": base.NO_RESULT},
    "custom_tool_call": lambda call_id: {"call_id": call_id, "output": base.NO_RESULT},
    "shell_call": lambda call_id: {
        "call_id": call_id,
        "output": [{"stdout": "", "stderr": base.NO_RESULT, "outcome": {"type": "exit", "exit_code": 1}}],
    },
    "local_shell_call": lambda call_id: {"id": call_id, "output": base.NO_RESULT},
    "apply_patch_call": lambda call_id: {"call_id": call_id, "status": "failed", "output": base.NO_RESULT},
    "tool_search_call": lambda call_id: {"call_id": call_id, "tools": []},
    "mcp_approval_request": lambda call_id: {
        "approval_request_id": call_id,
        "approve": False,
        "reason": base.NO_RESULT,
    },
}


def is_healed(message: Message, finding: base.Finding) -> bool:  # noqa: ARG001 - each dialect has its own answer
    """Whether :func:`mend` repairs *finding*: all faults of calls, outputs and reasoning."""
    return finding.rule in base.HEALED or finding.rule == "duplicate-call"


def mend(
    raws: Sequence[RawMessage], messages: Sequence[Message | None], faults: base.Faults
) -> list[RawMessage]:
    """The items with an artificial output after each unanswered call, and with stranded outputs quoted.

    Reasoning without the item that it led to is removed: it is never edited, and the provider refuses it as
    it is. A call with the id of a call that still waits is removed too: an output could not tell which of
    them it answers.
    """
    mended: list[RawMessage] = []
    quotes: list[RawMessage] = []
    waiting = _first_waiting(messages, faults)
    held_at: int | None = None
    for position, (raw, message) in enumerate(zip(raws, messages, strict=True)):
        if position == waiting:
            held_at = len(mended)
        found = faults.get(position, ())
        if message is None or not found:
            mended.append(raw)
        elif any(finding.rule in base.STRANDED for finding in found):
            (mended if held_at is None else quotes).extend(base.quotations(message, found))
        elif found[0].rule == "unanswered-call" and len(found) == 1:
            mended += _answered(raw, message, found[0])
    if held_at is not None:  # a call still waits for its output: no message may stand after it
        mended[held_at:held_at] = quotes
    return mended


def _first_waiting(messages: Sequence[Message | None], faults: base.Faults) -> int | None:
    """The position where the answer with the first waiting call begins; None if no call waits."""
    waiting: dict[object, int] = {}
    for position, message in enumerate(messages):
        if message is None or position in faults:
            continue
        for part in message.parts:
            if part.kind == "tool_call":
                waiting.setdefault(call_key(part), position)
            elif part.kind == "tool_result":
                waiting.pop(call_key(part), None)
    if not waiting:
        return None
    start = min(waiting.values())
    while start > 0 and (before := messages[start - 1]) is not None and before.role == "assistant":
        start -= 1
    return start


def _answered(raw: RawMessage, message: Message, finding: base.Finding) -> Sequence[RawMessage]:
    kind = item_type(as_fields(raw) or {})
    no_output = _NO_OUTPUT.get(kind)
    if no_output is None:
        return ()
    return raw, RepairedMessage(
        type=base.CALLS[kind].output, **no_output(base.nth_call(message, finding).call_id)
    )
