"""Repairs an Anthropic history.

A message of the assistant is never edited, because it may be signed. So a missing result of a tool that the
provider runs is reported by the validator, and not repaired.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from siltstone.messages.dialects.anthropic import is_result
from siltstone.messages.groups import is_reasoning
from siltstone.messages.message import Message, RawMessage, RepairedMessage
from siltstone.messages.plain import as_fields
from siltstone.messages.repairs.base import (
    HEALED,
    STRANDED,
    Faults,
    calls_of,
    nth_call,
    quotations,
)
from siltstone.messages.repairs.fence import NO_RESULT
from siltstone.messages.validators import Finding

__all__ = ["is_healed", "mend"]


def is_healed(message: Message, finding: Finding) -> bool:
    """Whether :func:`mend` repairs *finding*."""
    if finding.rule == "unanswered-call":
        return _kind_of_call(message, finding.nth) == "tool_use"
    if finding.rule == "reasoning-alone":
        return is_reasoning(message)
    return finding.rule in HEALED and message.role != "assistant"


def mend(raws: Sequence[RawMessage], messages: Sequence[Message | None], faults: Faults) -> list[RawMessage]:
    """The history with the results of each turn at the beginning of the user's next turn."""
    mending = _Mending(faults)
    for position, (raw, message) in enumerate(zip(raws, messages, strict=True)):
        if message is not None and message.role == "assistant":
            mending.assistant(position, raw, message)
        else:
            mending.other(position, raw, message)
    mending.end_of_turn(is_last=True)
    return mending.mended


class _Mending:
    """The part of the history that is already repaired, and the user's turn that is being read."""

    def __init__(self, faults: Faults) -> None:
        self.mended: list[RawMessage] = []
        self._faults = faults
        self._start = 0  # the beginning of the assistant's latest turn in `mended`
        self._waits = 0  # the number of its calls that have a result in the user's turn
        self._missing: list[dict[str, Any]] = []  # artificial results for its other calls
        self._turn: list[tuple[int, RawMessage, Message | None]] = []
        self._listening = True  # the user's turn is being read

    def assistant(self, position: int, raw: RawMessage, message: Message) -> None:
        if self._listening:
            self.end_of_turn()
            self._start, self._waits, self._listening = len(self.mended), 0, False
        found = self._faults.get(position, ())
        missing = [each for each in found if each.rule == "unanswered-call"]
        self._missing += [_no_result(nth_call(message, each).call_id) for each in missing]
        results = sum(part.kind == "tool_result" for part in message.parts)
        self._waits += len(calls_of(message)) - results - len(missing)
        if not any(each.rule == "reasoning-alone" for each in found):
            self.mended.append(raw)

    def other(self, position: int, raw: RawMessage, message: Message | None) -> None:
        self._listening = self._listening or (message is not None and message.role == "user")
        if self._listening:
            self._turn.append((position, raw, message))
        else:  # rules between two messages of the assistant's turn stay there
            self.mended.append(raw)

    def end_of_turn(self, *, is_last: bool = False) -> None:
        """Writes the user's turn: results first, then the other messages, then the quotations."""
        first: list[Any] = []
        kept: list[RawMessage] = []
        quotes: list[RawMessage] = []
        for position, raw, message in self._turn:
            found = self._faults.get(position, ())
            if message is None or not found:
                kept.append(raw)
                self._waits -= 0 if message is None else _results(message)
                continue
            self._waits -= _results(message) - sum(each.rule in STRANDED for each in found)
            lifted, rest = _parted(raw, found)
            first += lifted
            quotes += quotations(message, found)
            if rest:
                kept.append({**(as_fields(raw) or {}), "content": rest})
        if self._missing and not first:
            self.mended.append(RepairedMessage(role="user", content=self._missing))
        elif first:
            self.mended.append({"role": "user", "content": [*first, *self._missing]})
        self.mended += kept
        # If calls still wait for their results, no message may stand after them.
        place = self._start if is_last and self._waits > 0 else len(self.mended)
        self.mended[place:place] = quotes
        self._turn, self._missing = [], []


def _parted(raw: RawMessage, found: Sequence[Finding]) -> tuple[list[Any], list[Any]]:
    """The results of *raw* that stand too late, and its other blocks without the quoted results."""
    rules = {each.nth: each.rule for each in found}
    lifted, rest, nth = [], [], 0
    for block in (as_fields(raw) or {}).get("content", ()):
        fields = as_fields(block)
        kind = fields.get("type") if fields is not None else None
        rule = None
        if isinstance(kind, str) and is_result(kind):
            rule, nth = rules.get(nth), nth + 1
        if rule == "result-place":
            lifted.append(block)
        elif rule is None:
            rest.append(block)
    return lifted, rest


def _results(message: Message) -> int:
    return sum(part.kind == "tool_result" for part in message.parts)


def _no_result(call_id: str | None) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "is_error": True, "content": NO_RESULT}


def _kind_of_call(message: Message, nth: int) -> str:
    """The type of the block that is the *nth* call of *message*."""
    content = (as_fields(message.raw) or {}).get("content", ())
    kinds = [str((as_fields(block) or {}).get("type")) for block in content if not isinstance(block, str)]
    return [kind for kind in kinds if kind.endswith("tool_use")][nth]
