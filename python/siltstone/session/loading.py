"""A view read back from the log: what a compaction left, and what came after it."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.memory.log import CompactionRow, NewCompaction, SessionLog
from siltstone.messages import Message
from siltstone.session import rows
from siltstone.session.view import Item, View

__all__ = ["covered", "load", "pieces", "with_live_objects"]

_NOT_ORIGINAL = ("compaction_summary", "placeholder")


def load(log: SessionLog, view: View, head: CompactionRow | None, end: int) -> list[Item]:
    """The view that *head* left, and every message of the log after it up to *end*, measured as by *view*."""
    if head is None:
        return _messages(log, view, 0, end)
    return pieces(log, view, head.compaction) + _messages(log, view, head.compaction.next_seq, end)


def pieces(log: SessionLog, view: View, row: NewCompaction) -> list[Item]:
    """What *row* made of the history."""
    items: list[Item] = []
    for piece in row.view:
        if piece is None:
            items.append(view.measured(rows.summary_of(row), row.created_at))
        else:
            items += _messages(log, view, *piece)
    return items


def covered(log: SessionLog, row: NewCompaction) -> list[Message]:
    """What is left of the messages that the summary of *row* stands for."""
    found = [rows.message_of(each) for span in row.covers for each in log.read(*span)]
    return [message for message in found if message.provenance != "placeholder"]


def with_live_objects(view: View, items: Sequence[Item]) -> list[Item]:
    """*items*, where *view* holds the caller's own object of a message, with that.

    Not where it was forgotten: the caller's object says what it said.
    """
    live = {item.message.seq: item for item in view if item.message.provenance not in _NOT_ORIGINAL}
    return [
        item if item.message.provenance in _NOT_ORIGINAL else live.get(item.message.seq, item)
        for item in items
    ]


def _messages(log: SessionLog, view: View, start: int, end: int) -> list[Item]:
    return [view.measured(rows.message_of(row), row.created_at) for row in log.read(start, end)]
