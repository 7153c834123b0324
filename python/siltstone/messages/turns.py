"""Where does a turn begin and end, and is the newest one still going on?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from siltstone.messages.groups import unanswered
from siltstone.messages.message import Dialect, Message

__all__ = ["Turn", "in_flight", "opens_turn", "turns"]

ITEMS: Final[Dialect] = "openai.responses"
_INJECTED = frozenset({"injected_context", "recalled_context"})


@dataclass(frozen=True, slots=True)
class Turn:
    """A user message and all that follows until the next, as half-open positions in the history.

    Attributes:
        start: Its first message: the request, or what was injected directly before it.
        end: One past its last.
        request: The user message that it answers.
    """

    start: int
    end: int
    request: int


def opens_turn(message: Message) -> bool:
    """Whether *message* is an original user message, and not a tool result in the role of one."""
    if message.role != "user" or message.provenance != "original":
        return False
    return all(part.kind != "tool_result" for part in message.parts)


def turns(history: Sequence[Message]) -> list[Turn]:
    """The turns of a history, in order. What stands before the first is its preamble, and no turn."""
    requests = [position for position, message in enumerate(history) if opens_turn(message)]
    starts = [_start(history, request) for request in requests]
    ends = [*starts[1:], len(history)]
    return [Turn(*turn) for turn in zip(starts, ends, requests, strict=False)]


def _start(history: Sequence[Message], request: int) -> int:
    start = request
    while start > 0 and history[start - 1].provenance in _INJECTED:
        start -= 1
    return start


def in_flight(history: Sequence[Message]) -> bool:
    """Whether the newest turn is still going on.

    It is, unless the history ends with an assistant message without pending calls; what was injected after
    it does not count. A history without a turn has none in flight.
    """
    if not any(opens_turn(message) for message in reversed(history)):
        return False
    end = len(history)
    while history[end - 1].provenance in _INJECTED:
        end -= 1
    spoken = history if end == len(history) else history[:end]
    return spoken[-1].role != "assistant" or unanswered(_last_answer(spoken))


def _last_answer(history: Sequence[Message]) -> Sequence[Message]:
    """The assistant's last answer: one message, or in the Responses API all items at the end."""
    start = len(history) - 1
    while start > 0 and history[start - 1].role == "assistant" and history[start - 1].dialect == ITEMS:
        start -= 1
    return history[start:]
