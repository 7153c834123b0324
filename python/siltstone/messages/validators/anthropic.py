"""The rules of the Anthropic Messages API.

It joins consecutive messages of one role, so its rules are about turns: runs of messages of the assistant, or
of the user. System text is a parameter of the request, and may only stand at the beginning of the history.
The first turn is the user's. The results of a turn's calls stand at the beginning of the user's next turn. If
the provider runs the tool, they stand in the same turn of the assistant.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from siltstone.messages.message import RULE_ROLES
from siltstone.messages.validators.base import Finding, Ledger, Placed, has_blank_text

__all__ = ["check"]


def check(history: Placed, pending_ok: bool) -> Iterator[Finding]:
    """The findings, in no order."""
    yield from _systems(history)
    spoken = [(position, message) for position, message in history if message.role not in RULE_ROLES]
    if spoken and spoken[0][1].role == "assistant":
        yield Finding(spoken[0][0], "first-role", "the first message must be the user's")
    yield from _empty(history, spoken)
    ledger = Ledger(unique=True)
    runs = [list(run) for _, run in groupby(spoken, lambda placed: placed[1].role == "assistant")]
    for run in runs:
        is_last = run is runs[-1] and pending_ok
        if run[0][1].role == "assistant":
            yield from _assistant(run, ledger, is_last)
        else:
            yield from _user(run, ledger, is_last)
    if not pending_ok:
        yield from ledger.close()


def _systems(history: Placed) -> Iterator[Finding]:
    leading = True
    for position, message in history:
        if message.role not in RULE_ROLES:
            leading = False
        elif not leading:
            yield Finding(position, "system-place", "system text must stand before all other messages")


def _empty(history: Placed, spoken: Placed) -> Iterator[Finding]:
    for position, message in history:
        opening = spoken and position == spoken[-1][0] and message.role == "assistant"
        if has_blank_text(message) and not (opening and not message.parts):
            said = "it has no content" if not message.parts else "a text in it is blank"
            yield Finding(position, "empty-content", said)


def _assistant(run: Placed, ledger: Ledger, is_last: bool) -> Iterator[Finding]:
    """Checks a turn of the assistant: its calls, and the results of tools that the provider ran."""
    for position, message in run:
        calls = results = 0
        for part in message.parts:
            if part.kind == "tool_call":
                if part.call_id is None:
                    yield Finding(position, "missing-id", f"the call of {part.name!r} has no id", None, calls)
                yield from ledger.open(position, part, calls)
                calls += 1
            elif part.kind == "tool_result":
                yield from ledger.answer(position, part, results)
                results += 1
    position, message = run[-1]
    if not is_last and message.parts and message.parts[-1].kind == "reasoning":
        yield Finding(position, "reasoning-alone", "nothing follows the reasoning in this turn")


def _user(run: Placed, ledger: Ledger, is_last: bool) -> Iterator[Finding]:
    """Checks a turn of the user: the results for the turn before it must come first."""
    said = False
    for position, message in run:
        results = 0
        for part in message.parts:
            if part.kind == "tool_result":
                found = list(ledger.answer(position, part, results))
                if said and not found:
                    sentence = f"the result of call {part.call_id!r} stands after other content"
                    found = [Finding(position, "result-place", sentence, part.call_id, results)]
                yield from found
                results += 1
            elif part.call_id is None:  # a part with an id belongs to a result
                said = True
    if said or not is_last:
        yield from ledger.close()
