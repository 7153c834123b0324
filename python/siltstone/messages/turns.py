"""Finds the turns of a history, and tells whether the newest turn is still going on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from siltstone.messages.message import SAID, Dialect, Message, RequestRule

__all__ = [
    "REMINDER_TAGS",
    "Turn",
    "has_words_beside_results",
    "in_flight",
    "is_request",
    "opens_turn",
    "turns",
]

REMINDER_TAGS: Final = ("<system-reminder>",)
"""The first words of a host's own texts beside tool results."""

ITEMS: Final[Dialect] = "openai.responses"
_INJECTED = frozenset({"injected_context", "recalled_context"})


@dataclass(frozen=True, slots=True)
class Turn:
    """A user message and all messages up to the next one, as half-open positions in the history.

    Attributes:
        start: Its first message: the request, or the first of the injected messages directly before it.
        end: The position after its last message.
        request: The user message that the turn answers.
    """

    start: int
    end: int
    request: int


def is_request(text: str) -> bool:
    """Whether *text*, beside tool results, is from the user: it does not begin with a reminder tag.

    The tags are ``REMINDER_TAGS``.
    """
    return not text.lstrip().startswith(REMINDER_TAGS)


def opens_turn(message: Message, rule: RequestRule = is_request) -> bool:
    """Whether *message* is a user's request.

    A user message without tool results is a request. A user message with tool results is a request if it
    also has a text that is the user's by *rule*. Tool results alone are not a request.
    """
    if message.role != "user" or message.provenance not in SAID:
        return False
    if message.said is not None:
        return True
    if all(part.kind != "tool_result" for part in message.parts):
        return True
    return any(part.kind == "text" and part.text.strip() and rule(part.text) for part in message.parts)


def has_words_beside_results(message: Message, rule: RequestRule = is_request) -> bool:
    """Whether *message* is a request that also carries tool results."""
    return opens_turn(message, rule) and any(part.kind == "tool_result" for part in message.parts)


def turns(history: Sequence[Message], rule: RequestRule = is_request) -> list[Turn]:
    """The turns of a history, in order. Messages before the first turn belong to none.

    Args:
        history: The messages.
        rule: Decides which text beside tool results is a request.
    """
    requests = [position for position, message in enumerate(history) if opens_turn(message, rule)]
    starts = [_start(history, request) for request in requests]
    ends = [*starts[1:], len(history)]
    return [Turn(*turn) for turn in zip(starts, ends, requests, strict=False)]


def _start(history: Sequence[Message], request: int) -> int:
    start = request
    while start > 0 and history[start - 1].provenance in _INJECTED:
        start -= 1
    return start


def in_flight(history: Sequence[Message], rule: RequestRule = is_request) -> bool:
    """Whether the newest turn is still going on.

    A turn is over if the history ends with an assistant message without pending calls. Injected messages at
    the end do not count. A history without a turn has no turn in flight.
    """
    if not any(opens_turn(message, rule) for message in reversed(history)):
        return False
    end = len(history)
    while history[end - 1].provenance in _INJECTED:
        end -= 1
    spoken = history if end == len(history) else history[:end]
    from siltstone.messages.groups import unanswered

    return spoken[-1].role != "assistant" or unanswered(_last_answer(spoken))


def _last_answer(history: Sequence[Message]) -> Sequence[Message]:
    """The assistant's last answer: one message, or in the Responses API all items at the end."""
    start = len(history) - 1
    while start > 0 and history[start - 1].role == "assistant" and history[start - 1].dialect == ITEMS:
        start -= 1
    return history[start:]
