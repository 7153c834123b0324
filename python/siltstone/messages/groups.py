"""What groups and turns are: messages that must stay together, and a request with all that answers it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from siltstone.messages.message import SAID, Message, Part, RequestRule, as_fields


@dataclass(frozen=True, slots=True)
class Group:
    """Messages that are retained or discarded as a whole.

    Attributes:
        positions: Their positions in the history, ascending; other messages may lie between them.
        pending: Whether a call among them has no result yet.
    """

    positions: tuple[int, ...]
    pending: bool = False


def call_key(part: Part) -> Hashable:
    """The key that ties a result to its call: the id, or the tool's name if the dialect has no ids."""
    return part.call_id if part.call_id is not None else (part.name,)


def is_reasoning(message: Message) -> bool:
    """Whether *message* has only reasoning."""
    return bool(message.parts) and all(part.kind == "reasoning" for part in message.parts)


def is_reasoning_only(message: Message) -> bool:
    """Whether *message* has reasoning and nothing else, except empty text parts."""
    reasons = False
    for part in message.parts:
        if part.kind == "reasoning":
            reasons = True
        elif part.kind != "text" or part.text:
            return False
    return reasons


# A turn begins with a request.

REMINDER_TAGS: Final = ("<system-reminder>",)
"""The first words of a host's own texts beside tool results."""


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
        return bool((as_fields(message.raw) or {}).get("role", "user") == "user")  # or it is a host's own
    return any(part.kind == "text" and part.text.strip() and rule(part.text) for part in message.parts)
