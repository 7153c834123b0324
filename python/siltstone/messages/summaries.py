"""Finds siltstone's own summaries in a list of messages.

A summary object that siltstone made is recognised by its type and its mark together. A copy of it is
recognised by its mark alone, and only in a place where a summary can stand. A text that quotes or imitates a
summary is a plain message. So a copy must fit its place:

- its ranges begin with the number of its place, or only rules stand before it;
- it is not the last message of the list, which the user has just sent;
- it is not the only user message: then it would be the request.
"""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.errors import InvalidMessageError
from siltstone.messages.message import RULE_ROLES, Message, RawMessage, SummaryMessage
from siltstone.messages.numbers import Numbers
from siltstone.messages.plain import as_fields
from siltstone.messages.read import read_message
from siltstone.messages.summary_mark import SummaryMark, read_mark
from siltstone.messages.turns import opens_turn

__all__ = ["SummaryReader", "mark_of", "summary_level"]


def mark_of(message: Message) -> SummaryMark | None:
    """The mark of *message*, if it is a user message with a single text and a valid mark; else None."""
    if message.role != "user" or len(message.parts) != 1 or message.parts[0].kind != "text":
        return None
    return read_mark(message.parts[0].text)


def summary_level(message: Message) -> int:
    """The level of a summary; 0 for any other message, or if its mark was lost."""
    if message.provenance != "compaction_summary":
        return 0
    if isinstance(message.raw, SummaryMessage):
        return message.raw.level
    mark = mark_of(message)
    return 0 if mark is None else mark.level


class SummaryReader:
    """Reads the messages of one list in their order, and recognises the summaries among them.

    Args:
        raws: The whole list.
        numbers: The source of sequence numbers.
    """

    def __init__(self, raws: Sequence[RawMessage], numbers: Numbers) -> None:
        self._raws, self._numbers = raws, numbers
        self._refused: set[int] = set()  # places of messages that only look like a summary
        self._request: int | None = None  # the place of a user message that is certainly not a summary
        self._looked = False

    def read(self, index: int) -> Message:
        """The message at *index* with its number. All places before it must be numbered."""
        message = read_message(self._raws[index], index)
        covers = self._covers(message, index)
        if not covers:
            return message.numbered(self._numbers.next())
        return Message(
            covers[0][0],
            message.role,
            message.parts,
            message.raw,
            message.dialect,
            "compaction_summary",
            covers,
        )

    def _covers(self, message: Message, index: int) -> tuple[tuple[int, int], ...]:
        """The ranges that the message at *index* replaces; empty if it is not a summary."""
        mark = mark_of(message)
        if mark is None or message.provenance != "original":
            return ()
        raw = message.raw
        is_ours = isinstance(raw, SummaryMessage) and raw.covers == mark.covers
        if is_ours or self._can_stand(mark, index):
            return self._numbers.cover(mark.covers)
        self._refused.add(index)
        return ()

    def _can_stand(self, mark: SummaryMark, index: int) -> bool:
        if index == len(self._raws) - 1:
            return False
        if not self._numbers.follows(mark.covers) and not all(map(_is_rule, self._raws[:index])):
            return False
        return self._is_asked()

    def _is_asked(self) -> bool:
        """Whether the list has a user message that is certainly not a summary."""
        if self._refused:
            return True
        if not self._looked:
            self._looked = True
            self._request = next((at for at in range(len(self._raws)) if self._asks(at)), None)
        return self._request is not None

    def _asks(self, at: int) -> bool:
        fields = as_fields(self._raws[at])
        if fields is None or fields.get("role") != "user":
            return False
        try:
            message = read_message(self._raws[at], at)
        except InvalidMessageError:  # the error is raised when this message itself is read
            return False
        return opens_turn(message) and mark_of(message) is None


def _is_rule(raw: RawMessage) -> bool:
    fields = as_fields(raw)
    return fields is not None and fields.get("role") in RULE_ROLES
