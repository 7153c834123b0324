"""The rules of the OpenAI Responses API.

Items may follow each other in any order, with two rules. An output stands somewhere after its call, and has
the type that answers it. Reasoning is followed directly by the item that it led to.
"""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.messages.dialects.openai_responses import item_type
from siltstone.messages.dialects.pairs import CALLS, OUTPUTS
from siltstone.messages.groups import is_reasoning
from siltstone.messages.message import REFERENCE, RawMessage
from siltstone.messages.plain import as_fields
from siltstone.messages.validators.base import Finding, Ledger, Placed

__all__ = ["check"]


def check(history: Placed, pending_ok: bool) -> Iterator[Finding]:
    """The findings, in no order."""
    yield from _calls(history, pending_ok)
    yield from _lonely_reasoning(history, pending_ok)
    yield from _same_ids(history)


def _calls(history: Placed, pending_ok: bool) -> Iterator[Finding]:
    ledger = Ledger()
    types: dict[int, str] = {}
    asked, referred, before = -1, False, ""
    for position, message in history:
        types[position] = kind = _type(message.raw)
        calls = results = 0
        for part in message.parts:
            if part.kind == "tool_call":
                if part.call_id is None and kind != "tool_search_call":
                    yield Finding(position, "missing-id", f"the call of {part.name!r} has no id", None, calls)
                yield from ledger.open(position, part, calls)
                calls += 1
            elif part.kind == "tool_result":
                called_at = ledger.waiting_at(part)
                expected = None if called_at is None else CALLS.get(types[called_at])
                if expected is not None and kind in OUTPUTS and kind != expected.output:
                    said = f"call {part.call_id!r} is answered by {kind!r}, not by {expected.output!r}"
                    yield Finding(position, "result-type", said, part.call_id, results)
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


def _lonely_reasoning(history: Placed, pending_ok: bool) -> Iterator[Finding]:
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


def _alone(position: int) -> Finding:
    return Finding(position, "reasoning-alone", "the item that this reasoning led to does not follow it")


def _same_ids(history: Placed) -> Iterator[Finding]:
    seen: set[str] = set()
    for position, message in history:
        fields = as_fields(message.raw) or {}
        # A reference has the id of another item on purpose; the old shell's output has the id of its call.
        if item_type(fields) in (REFERENCE, "local_shell_call_output"):
            continue
        item_id = fields.get("id")
        if isinstance(item_id, str) and item_id:
            if item_id in seen:
                yield Finding(position, "duplicate-id", f"there is another item with the id {item_id!r}")
            seen.add(item_id)


def _type(raw: RawMessage) -> str:
    return item_type(as_fields(raw) or {})
