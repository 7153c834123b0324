"""Repairs a list of Responses items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from siltstone.messages.dialects.openai_responses import item_type
from siltstone.messages.dialects.pairs import CALLS
from siltstone.messages.groups import call_key
from siltstone.messages.message import Message, RawMessage, RepairedMessage
from siltstone.messages.plain import as_fields
from siltstone.messages.repairs.base import HEALED, STRANDED, Faults, nth_call, quotations
from siltstone.messages.repairs.fence import NO_RESULT
from siltstone.messages.validators import Finding

__all__ = ["is_healed", "mend"]

# The artificial output for each type of call. A type that is not here needs an output that cannot be
# invented (a screenshot), so its call is removed.
_NO_OUTPUT: Final[dict[str, Callable[[str | None], dict[str, Any]]]] = {
    "function_call": lambda call_id: {"call_id": call_id, "output": NO_RESULT},
    "custom_tool_call": lambda call_id: {"call_id": call_id, "output": NO_RESULT},
    "shell_call": lambda call_id: {
        "call_id": call_id,
        "output": [{"stdout": "", "stderr": NO_RESULT, "outcome": {"type": "exit", "exit_code": 1}}],
    },
    "local_shell_call": lambda call_id: {"id": call_id, "output": NO_RESULT},
    "apply_patch_call": lambda call_id: {"call_id": call_id, "status": "failed", "output": NO_RESULT},
    "tool_search_call": lambda call_id: {"call_id": call_id, "tools": []},
    "mcp_approval_request": lambda call_id: {
        "approval_request_id": call_id,
        "approve": False,
        "reason": NO_RESULT,
    },
}


def is_healed(message: Message, finding: Finding) -> bool:  # noqa: ARG001 - each dialect has its own answer
    """Whether :func:`mend` repairs *finding*: all faults of calls, outputs and reasoning."""
    return finding.rule in HEALED or finding.rule == "duplicate-call"


def mend(raws: Sequence[RawMessage], messages: Sequence[Message | None], faults: Faults) -> list[RawMessage]:
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
        elif any(finding.rule in STRANDED for finding in found):
            (mended if held_at is None else quotes).extend(quotations(message, found))
        elif found[0].rule == "unanswered-call" and len(found) == 1:
            mended += _answered(raw, message, found[0])
    if held_at is not None:  # a call still waits for its output: no message may stand after it
        mended[held_at:held_at] = quotes
    return mended


def _first_waiting(messages: Sequence[Message | None], faults: Faults) -> int | None:
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


def _answered(raw: RawMessage, message: Message, finding: Finding) -> Sequence[RawMessage]:
    kind = item_type(as_fields(raw) or {})
    no_output = _NO_OUTPUT.get(kind)
    if no_output is None:
        return ()
    return raw, RepairedMessage(type=CALLS[kind].output, **no_output(nth_call(message, finding).call_id))
