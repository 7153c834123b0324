"""Which sequence number has each message of a list?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from siltstone.errors import InvalidMessageError
from siltstone.messages.message import Message, RawMessage, SummaryMessage, provenance_of
from siltstone.messages.read import project, read_summary

__all__ = ["Numbers", "read_history"]


def read_history(raws: Iterable[RawMessage], *, first_seq: int = 0) -> list[Message]:
    """The messages of a list, numbered from *first_seq* as they stood before anything was summarised.

    A summary has the number of the first message it covers, and stands for all that it covers: the
    messages after it take the numbers that no summary covers. So a history that was compacted keeps
    its numbers when it is read again, pins between covered ranges included. Numbers always increase.
    Where they could not, because messages were added before a summary, the summary's ranges are moved
    up as a whole.

    Raises:
        InvalidMessageError: one of *raws* is not a message; carries ``index``, its place in the list.
        MessageTooLargeError: one is over the limit.
    """
    numbers = Numbers(first_seq)
    messages = []
    for index, raw in enumerate(raws):
        if isinstance(raw, SummaryMessage):
            covers = numbers.cover(raw.covers, index) if raw.covers else ()
            seq = covers[0][0] if covers else numbers.next()
            messages.append(read_summary(raw, seq, covers, index))
        else:
            dialect, role, parts = project(raw, index)
            messages.append(Message(numbers.next(), role, parts, raw, dialect, provenance_of(raw)))
    return messages


class Numbers:
    """Hands out increasing numbers that no summary covers, from *first* on."""

    def __init__(self, first: int) -> None:
        self._free = first
        self._covered: list[tuple[int, int]] = []  # ascending; only those that end beyond ``_free``

    def next(self) -> int:
        """The next number."""
        self._skip_covered()
        self._free += 1
        return self._free - 1

    def take(self, count: int) -> Iterator[tuple[int, int]]:
        """The next *count* numbers, as runs: the first number of each, and how many."""
        while count > 0:
            self._skip_covered()
            run = min(count, self._covered[0][0] - self._free) if self._covered else count
            yield self._free, run
            self._free += run
            count -= run

    def cover(self, covers: Sequence[tuple[int, int]], index: int) -> tuple[tuple[int, int], ...]:
        """Takes the ranges of a summary out of what is handed out; the ranges, moved up if need be."""
        _check_ranges(covers, index)
        if covers[0][0] < self._free or self._overlaps(covers):
            end = max([self._free, *(end for _, end in self._covered)])
            shift = end - covers[0][0]
            covers = [(start + shift, stop + shift) for start, stop in covers]
        self._free = covers[0][1]
        self._covered = sorted([*self._covered, *covers[1:]])
        return tuple(covers)

    def _overlaps(self, covers: Sequence[tuple[int, int]]) -> bool:
        return any(
            start < other_end and other_start < end
            for start, end in covers
            for other_start, other_end in self._covered
        )

    def _skip_covered(self) -> None:
        while self._covered and self._covered[0][0] <= self._free:
            self._free = max(self._free, self._covered.pop(0)[1])


def _check_ranges(covers: Sequence[tuple[int, int]], index: int) -> None:
    last = 0
    for start, end in covers:
        if not last <= start < end:
            raise InvalidMessageError(
                f"message {index}: the ranges a summary covers must ascend and be disjoint, got {covers!r}",
                index=index,
                key="covers",
            )
        last = end
