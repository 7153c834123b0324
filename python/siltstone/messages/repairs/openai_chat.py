"""Repairs an OpenAI chat history."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.messages.message import Message, RawMessage, RepairedMessage
from siltstone.messages.plain import as_fields
from siltstone.messages.repairs.base import HEALED, Faults, calls_of, nth_call, quotations
from siltstone.messages.repairs.fence import NO_RESULT
from siltstone.messages.validators import Finding

__all__ = ["is_healed", "mend"]


def is_healed(message: Message, finding: Finding) -> bool:  # noqa: ARG001 - each dialect has its own answer
    """Whether :func:`mend` repairs *finding*: all faults of calls and results."""
    return finding.rule in HEALED


def mend(raws: Sequence[RawMessage], messages: Sequence[Message | None], faults: Faults) -> list[RawMessage]:
    """The history with complete exchanges; a quotation stands after the exchange of its result."""
    mended: list[RawMessage] = []
    missing: list[RawMessage] = []
    quotes: list[RawMessage] = []
    start = waits = 0
    for position, (raw, message) in enumerate(zip(raws, messages, strict=True)):
        found = faults.get(position, ())
        if message is None:
            mended.append(raw)
        elif message.role != "tool":
            mended += (*missing, *quotes)
            start, quotes = len(mended), []
            missing = [_no_result(message, finding) for finding in found]
            waits = len(calls_of(message)) - len(missing)
            mended.append(raw)
        elif found:
            quotes += quotations(message, found)
        else:
            waits -= 1
            mended.append(raw)
    if waits > 0:  # calls still wait for their results: no message may stand after them
        mended[start:start] = quotes
        return [*mended, *missing]
    return [*mended, *missing, *quotes]


def _no_result(message: Message, finding: Finding) -> RepairedMessage:
    part = nth_call(message, finding)
    if part.call_id is not None:
        return RepairedMessage(role="tool", tool_call_id=part.call_id, content=NO_RESULT)
    if (as_fields(message.raw) or {}).get("function_call") is not None:
        return RepairedMessage(role="function", name=part.name, content=NO_RESULT)
    return RepairedMessage(role="tool", tool_name=part.name, content=NO_RESULT)
