"""The common part of the validators of all dialects.

A validator is a function ``check(history, pending_ok) -> findings`` over positions and messages. It is pure,
its time is linear, and no content of a history makes it raise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from siltstone.messages.groups import call_key
from siltstone.messages.message import Message, Part

__all__ = ["Finding", "Ledger", "Placed", "Rule", "has_blank_text"]

Rule: TypeAlias = Literal[
    "malformed",
    "foreign",
    "first-role",
    "system-place",
    "empty-content",
    "missing-id",
    "duplicate-id",
    "duplicate-call",
    "unanswered-call",
    "orphan-result",
    "duplicate-result",
    "late-result",
    "result-type",
    "result-place",
    "reasoning-alone",
]
"""A rule of a provider that a message breaks; docs/design/messages.md explains each rule."""

Placed: TypeAlias = Sequence[tuple[int, Message]]
"""The readable messages of a history, each with its position."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault for which the provider would refuse the history.

    Attributes:
        position: The message's position in the list.
        rule: The rule that the message breaks.
        sentence: The fault in words.
        call_id: The id of the call or the result with the fault; None without an id.
        nth: The number of that call among the message's calls, or of that result among its results, from 0.
    """

    position: int
    rule: Rule
    sentence: str
    call_id: str | None = None
    nth: int = 0


@dataclass(frozen=True, slots=True)
class _Call:
    position: int
    part: Part
    nth: int


class Ledger:
    """The calls that wait for their results, and the keys of all calls and results so far."""

    def __init__(self, *, unique: bool = False) -> None:
        self._unique = unique  # whether an id may be used only once in a history
        self._waiting: dict[Hashable, deque[_Call]] = {}
        self._called: set[Hashable] = set()
        self._answered: set[Hashable] = set()

    @property
    def waits(self) -> bool:
        """Whether any call waits for its result."""
        return bool(self._waiting)

    def open(self, position: int, part: Part, nth: int) -> Iterator[Finding]:
        """Records a call."""
        key = call_key(part)
        if part.call_id is not None and key in (self._called if self._unique else self._waiting):
            said = f"the id of call {part.call_id!r} is already that of another"
            yield Finding(position, "duplicate-call", said, part.call_id, nth)
        self._called.add(key)
        self._answered.discard(key)
        self._waiting.setdefault(key, deque()).append(_Call(position, part, nth))

    def answer(self, position: int, part: Part, nth: int) -> Iterator[Finding]:
        """Records a result."""
        key = call_key(part)
        queue = self._waiting.get(key)
        if queue:
            queue.popleft()
            if not queue:
                del self._waiting[key]
            self._answered.add(key)
            return
        name = _named(part)
        if key in self._answered:
            yield Finding(position, "duplicate-result", f"{name} has a result already", part.call_id, nth)
        elif key in self._called:
            said = f"the result of {name} comes after its exchange has ended"
            yield Finding(position, "late-result", said, part.call_id, nth)
        else:
            said = f"the result of {name} has no call before it"
            yield Finding(position, "orphan-result", said, part.call_id, nth)

    def waiting_at(self, part: Part) -> int | None:
        """The position of the call that a result would answer."""
        queue = self._waiting.get(call_key(part))
        return queue[0].position if queue else None

    def close(self, after: int = -1) -> Iterator[Finding]:
        """Ends the exchange: waiting calls, with *after* only those before that position, get no result."""
        for queue in self._waiting.values():
            for call in queue:
                if after < 0 or call.position < after:
                    said = f"{_named(call.part)} has no result"
                    yield Finding(call.position, "unanswered-call", said, call.part.call_id, call.nth)
        self._waiting.clear()


def has_blank_text(message: Message) -> bool:
    """Whether *message* has no parts, or has a text that is blank."""
    return not message.parts or any(part.kind == "text" and not part.text.strip() for part in message.parts)


def _named(part: Part) -> str:
    return f"call {part.call_id!r}" if part.call_id is not None else f"the call of {part.name!r}"
