"""Reads a list of messages as a history, in which each message has a sequence number."""

from __future__ import annotations

from collections.abc import Iterable

from siltstone.messages.message import Message, RawMessage
from siltstone.messages.numbers import Numbers
from siltstone.messages.summaries import SummaryReader

__all__ = ["read_history"]


def read_history(raws: Iterable[RawMessage], *, first_seq: int = 0) -> list[Message]:
    """The messages of a list, numbered from *first_seq* on, as before any message was summarised.

    A summary has the number of the first message that it covers. The messages after it take the numbers that
    no summary covers. So a compacted history keeps its numbers when it is read again, also for pinned
    messages between covered ranges. Numbers always increase.

    If messages were added before a summary, its ranges no longer fit its place. Then all its ranges are moved
    up, if it is the object that siltstone made, or a copy with only rules before it. Any other copy whose
    ranges do not fit its place is read as a plain message.

    Raises:
        InvalidMessageError: one of *raws* is not a message; carries ``index``, its place in the list.
        MessageTooLargeError: a message is over the size limit.
    """
    known = list(raws)
    reader = SummaryReader(known, Numbers(first_seq))
    return [reader.read(index) for index in range(len(known))]
