"""Reads a list of messages as a history, in which each message has a sequence number."""

from __future__ import annotations

from collections.abc import Iterable

from siltstone.messages.kinds import RawMessage
from siltstone.messages.message import Message
from siltstone.messages.numbers import Numbers
from siltstone.messages.summaries import SummaryReader

__all__ = ["read_history"]


def read_history(raws: Iterable[RawMessage], *, first_seq: int = 0) -> list[Message]:
    """The messages of a list, numbered from *first_seq* as they stood before anything was summarised.

    A summary has the number of the first message it covers, and stands for all that it covers: the
    messages after it take the numbers that no summary covers. So a history that was compacted keeps
    its numbers when it is read again, pins between covered ranges included. Numbers always increase.
    Where they could not, because messages were added before a summary, its ranges are moved up as a whole:
    of the very object that we made, and of a copy that stands behind nothing but rules. Any other copy
    whose ranges do not fit its place is a message.

    Raises:
        InvalidMessageError: one of *raws* is not a message; carries ``index``, its place in the list.
        MessageTooLargeError: one is over the limit.
    """
    known = list(raws)
    reader = SummaryReader(known, Numbers(first_seq))
    return [reader.read(index) for index in range(len(known))]
