"""Reads messages of the Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from siltstone.messages.dialects import base
from siltstone.messages.groups import is_reasoning
from siltstone.messages.message import (
    RULE_ROLES,
    Dialect,
    Message,
    Part,
    RawMessage,
    RepairedMessage,
    Role,
    as_fields,
)

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


def read(fields: base.Fields) -> tuple[Role, tuple[Part, ...]]:
    """The role and the parts of a message."""
    return ROLES[fields["role"]], base.read_content(fields.get("content"), "content", _read_block)


def _read_block(kind: str, block: base.Fields, path: str) -> Iterable[Part]:
    if kind == "tool_result":
        failed = block.get("is_error") is True
        call_id = base.identifier(block.get("tool_use_id"))
        return base.result_parts(call_id, None, block.get("content"), f"{path}.content", is_error=failed)
    if kind in CALLS:
        arguments = base.arguments_text(block.get("input"))
        call_id, name = base.identifier(block.get("id")), base.identifier(block.get("name"))
        return (Part("tool_call", "", call_id, name, arguments),)
    if kind == "thinking":
        thought = base.string(block, "thinking", path)
        return (Part("reasoning", thought, size=base.opaque_size(block, "signature")),)
    if kind == "redacted_thinking":
        return (Part("reasoning", size=base.opaque_size(block, "data")),)
    if kind == "compaction":
        return (Part("compaction", base.text_of(block)),)
    if is_result(kind):
        return _server_result(block, path)
    return base.known_parts(kind, block)


def _server_result(block: base.Fields, path: str) -> Iterable[Part]:
    """The result of a tool that the provider ran: an object or a list of objects, in many shapes."""
    content = block.get("content")
    outcome = as_fields(content)
    kind = outcome.get("type") if outcome is not None else None
    failed = block.get("is_error") is True or (isinstance(kind, str) and kind.endswith("_error"))
    return base.result_parts(
        base.identifier(block.get("tool_use_id")), None, content, f"{path}.content", is_error=failed
    )


# The rules of the Anthropic Messages API.
#
# It joins consecutive messages of one role, so its rules are about turns: runs of messages of the
# assistant, or of the user. System text is a parameter of the request, and may only stand at the beginning
# of the history. The first turn is the user's. The results of a turn's calls stand at the beginning of the
# user's next turn. If the provider runs the tool, they stand in the same turn of the assistant.


def check(history: base.Placed, pending_ok: bool) -> Iterator[base.Finding]:
    """The findings, in no order."""
    yield from _systems(history)
    spoken = [(position, message) for position, message in history if message.role not in RULE_ROLES]
    if spoken and spoken[0][1].role == "assistant":
        yield base.Finding(spoken[0][0], "first-role", "the first message must be the user's")
    yield from _empty(history, spoken)
    ledger = base.Ledger(unique=True)
    runs = [list(run) for _, run in groupby(spoken, lambda placed: placed[1].role == "assistant")]
    for run in runs:
        is_last = run is runs[-1] and pending_ok
        if run[0][1].role == "assistant":
            yield from _assistant(run, ledger, is_last)
        else:
            yield from _user(run, ledger, is_last)
    if not pending_ok:
        yield from ledger.close()


def _systems(history: base.Placed) -> Iterator[base.Finding]:
    leading = True
    for position, message in history:
        if message.role not in RULE_ROLES:
            leading = False
        elif not leading:
            yield base.Finding(position, "system-place", "system text must stand before all other messages")


def _empty(history: base.Placed, spoken: base.Placed) -> Iterator[base.Finding]:
    for position, message in history:
        opening = spoken and position == spoken[-1][0] and message.role == "assistant"
        if base.has_blank_text(message) and not (opening and not message.parts):
            said = "it has no content" if not message.parts else "a text in it is blank"
            yield base.Finding(position, "empty-content", said)


def _assistant(run: base.Placed, ledger: base.Ledger, is_last: bool) -> Iterator[base.Finding]:
    """Checks a turn of the assistant: its calls, and the results of tools that the provider ran."""
    for position, message in run:
        calls = results = 0
        for part in message.parts:
            if part.kind == "tool_call":
                if part.call_id is None:
                    yield base.Finding(
                        position, "missing-id", f"the call of {part.name!r} has no id", None, calls
                    )
                yield from ledger.open(position, part, calls)
                calls += 1
            elif part.kind == "tool_result":
                yield from ledger.answer(position, part, results)
                results += 1
    position, message = run[-1]
    if not is_last and message.parts and message.parts[-1].kind == "reasoning":
        yield base.Finding(position, "reasoning-alone", "nothing follows the reasoning in this turn")


def _user(run: base.Placed, ledger: base.Ledger, is_last: bool) -> Iterator[base.Finding]:
    """Checks a turn of the user: the results for the turn before it must come first."""
    said = False
    for position, message in run:
        results = 0
        for part in message.parts:
            if part.kind == "tool_result":
                found = list(ledger.answer(position, part, results))
                if said and not found:
                    sentence = f"the result of call {part.call_id!r} stands after other content"
                    found = [base.Finding(position, "result-place", sentence, part.call_id, results)]
                yield from found
                results += 1
            elif part.call_id is None:  # a part with an id belongs to a result
                said = True
    if said or not is_last:
        yield from ledger.close()


# Repairs an Anthropic history.
#
# A message of the assistant is never edited, because it may be signed. So a missing result of a tool that
# the provider runs is reported by the validator, and not repaired.


def is_healed(message: Message, finding: base.Finding) -> bool:
    """Whether :func:`mend` repairs *finding*."""
    if finding.rule == "unanswered-call":
        return _kind_of_call(message, finding.nth) == "tool_use"
    if finding.rule == "reasoning-alone":
        return is_reasoning(message)
    return finding.rule in base.HEALED and message.role != "assistant"


def mend(
    raws: Sequence[RawMessage], messages: Sequence[Message | None], faults: base.Faults
) -> list[RawMessage]:
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

    def __init__(self, faults: base.Faults) -> None:
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
        self._missing += [_no_result(base.nth_call(message, each).call_id) for each in missing]
        results = sum(part.kind == "tool_result" for part in message.parts)
        self._waits += len(base.calls_of(message)) - results - len(missing)
        if not any(each.rule == "reasoning-alone" for each in found):
            self.mended.append(raw)

    def other(self, position: int, raw: RawMessage, message: Message | None) -> None:
        self._listening = self._listening or (message is not None and message.role == "user")
        if self._listening:
            self._turn.append((position, raw, message))
        else:  # rules between two messages of the assistant's turn stay there
            self.mended.append(raw)

    def end_of_turn(self, *, is_last: bool = False) -> None:
        """Writes the user's turn: results first. Quotations stand in their places, but behind all results."""
        first: list[Any] = []
        kept: list[RawMessage] = []
        quotes: list[RawMessage] = []
        for position, raw, message in self._turn:
            found = self._faults.get(position, ())
            results = () if message is None else base.results_of(message)
            self._waits -= len(results) - sum(each.rule in base.STRANDED for each in found)
            if message is None or not found:
                kept.append(raw)
            else:
                lifted, rest = _parted(raw, found)
                first += lifted
                quotes += base.quotations(message, found)
                if rest:
                    kept.append({**(as_fields(raw) or {}), "content": rest})
            if self._waits <= 0:
                kept += quotes
                quotes = []
        if self._missing and not first:
            self.mended.append(RepairedMessage(role="user", content=self._missing))
        elif first:
            self.mended.append({"role": "user", "content": [*first, *self._missing]})
        self.mended += kept
        # If calls still wait for their results, no message may stand after them.
        place = self._start if is_last and self._waits > 0 else len(self.mended)
        self.mended[place:place] = quotes
        self._turn, self._missing = [], []


def _parted(raw: RawMessage, found: Sequence[base.Finding]) -> tuple[list[Any], list[Any]]:
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


def _no_result(call_id: str | None) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "is_error": True, "content": base.NO_RESULT}


def _kind_of_call(message: Message, nth: int) -> str:
    """The type of the block that is the *nth* call of *message*."""
    content = (as_fields(message.raw) or {}).get("content", ())
    kinds = [str((as_fields(block) or {}).get("type")) for block in content if not isinstance(block, str)]
    return [kind for kind in kinds if kind.endswith("tool_use")][nth]
