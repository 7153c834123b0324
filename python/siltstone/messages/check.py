"""Counts the calls and results of a history that have lost their counterpart."""

from __future__ import annotations

from collections.abc import Iterable

from siltstone.messages.message import REFERENCE, Message, PartKind, RawMessage
from siltstone.messages.read import read_message

__all__ = ["broken_tool_groups"]


def broken_tool_groups(history: Iterable[RawMessage | Message]) -> int:
    """The number of messages with a result without an earlier call, or with a call that can get no result.

    A provider refuses such a history. A call may lack its result only at the very end, where only results
    and further calls of the same answer follow it. This function checks :func:`groups`, so it shares no code
    with it: it looks only at ids and positions.
    """
    messages = [_read(item, place) for place, item in enumerate(history)]
    called: set[object] = set()
    referred = False
    broken: set[int] = set()
    unanswered: dict[object, int] = {}
    for place, message in enumerate(messages):
        for part in message.parts:
            key = part.call_id or ("named", part.name)
            if part.kind == "tool_call":
                if key in unanswered and part.call_id:
                    broken.add(unanswered[key])
                called.add(key)
                unanswered[key] = place
            elif part.kind == "tool_result":
                unanswered.pop(key, None)
                if key not in called and not referred:
                    broken.add(place)
            elif part.kind == "other" and part.name == REFERENCE:
                referred = True  # the reference may stand for any call
    end = _start_of_last_exchange(messages)
    return len(broken | {place for place in unanswered.values() if place < end})


def _start_of_last_exchange(messages: list[Message]) -> int:
    """The place of the calls that the trailing results belong to."""
    place = len(messages)
    while place > 0 and _is(messages[place - 1], "tool_result"):
        place -= 1
    while place > 0 and (_is(messages[place - 1], "tool_call") or _is_item(messages[place - 1])):
        place -= 1
    return place


def _is(message: Message, kind: PartKind) -> bool:
    """Whether *message* is of the assistant and has calls, or of another role and has results."""
    if (message.role == "assistant") != (kind == "tool_call"):
        return False
    return any(part.kind == kind for part in message.parts)


def _is_item(message: Message) -> bool:
    """Whether *message* is one item of an assistant's answer; other items may stand before it."""
    return message.role == "assistant" and message.dialect == "openai.responses"


def _read(item: RawMessage | Message, place: int) -> Message:
    return item if isinstance(item, Message) else read_message(item, place)
