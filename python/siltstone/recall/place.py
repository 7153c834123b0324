"""Finds the place of the block in a history, and the blocks of earlier calls."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

from siltstone.messages import Message, groups, opens_turn
from siltstone.messages.groups import call_key
from siltstone.messages.message import RULE_ROLES
from siltstone.messages.recalled_block import is_recalled, may_be_recalled

__all__ = ["is_recalled", "may_be_recalled", "position", "without_recalled"]


def without_recalled(history: Iterable[Message]) -> list[Message]:
    """*history* without blocks of earlier calls, whether their content is a string or a list."""
    return [message for message in history if not is_recalled(message)]


def position(history: Sequence[Message], placement: Literal["head", "tail"] = "tail") -> int:
    """The position in *history* before which the block is inserted, never inside of a group.

    ``tail`` is directly before the last user message, or before the group of this message; ``head`` is behind
    the system messages and the summary at the beginning. A history without a user message always uses the
    head.
    """
    if placement == "tail":
        for place in range(len(history) - 1, -1, -1):
            if opens_turn(history[place]) or _words_beside_results(history[place]):
                return _before_groups(history, place)
    place = 0
    while place < len(history) and _leads(history[place]):
        place += 1
    return _before_groups(history, place)


def _is_within(history: Sequence[Message], place: int) -> bool:
    """Whether a group may span *place*.

    It may if a message from *place* on answers a call before it, or continues an answer before it. Only the
    messages from *place* on are read, which are one turn if *place* is its request.
    """
    calls: set[Hashable] = set()
    for message in history[place:]:
        for part in message.parts:
            if part.kind == "tool_call":
                calls.add(call_key(part))
            elif part.kind == "tool_result":
                if call_key(part) not in calls:
                    return True
            elif part.kind == "other":
                return True
    return 0 < place < len(history) and history[place].role == "assistant"


def _leads(message: Message) -> bool:
    return message.role in RULE_ROLES or message.provenance == "compaction_summary"


def _words_beside_results(message: Message) -> bool:
    """Whether a user message has tool results, and the user's own words beside them."""
    if message.role != "user" or message.provenance != "original":
        return False
    kinds = {part.kind for part in message.parts if part.kind != "text" or part.text.strip()}
    return "tool_result" in kinds and "text" in kinds


def _before_groups(history: Sequence[Message], place: int) -> int:
    if not _is_within(history, place):
        return place
    spans = [(group.positions[0], group.positions[-1]) for group in groups(history)]
    moved = True
    while moved:
        moved = False
        for first, last in spans:
            if first < place <= last:
                place, moved = first, True
    return place
