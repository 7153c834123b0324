"""Numbers the messages of a list as they were numbered before any of them was summarised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["Numbers"]


class Numbers:
    """Gives increasing numbers, from *first* on, that no summary covers."""

    def __init__(self, first: int) -> None:
        self._free = first
        self._covered: list[tuple[int, int]] = []  # ascending; only ranges that end after ``_free``

    def next(self) -> int:
        """The next number."""
        self._skip_covered()
        self._free += 1
        return self._free - 1

    def take(self, count: int) -> Iterator[tuple[int, int]]:
        """The next *count* numbers, as runs: the first number and the length of each."""
        while count > 0:
            self._skip_covered()
            run = min(count, self._covered[0][0] - self._free) if self._covered else count
            yield self._free, run
            self._free += run
            count -= run

    def cover(self, covers: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Reserves the ranges of a summary, and returns them, moved up if they overlap earlier numbers.

        *covers* ascend and are disjoint; there is at least one range.
        """
        if covers[0][0] < self._free or self._overlaps(covers):
            end = max([self._free, *(end for _, end in self._covered)])
            shift = end - covers[0][0]
            covers = [(start + shift, stop + shift) for start, stop in covers]
        self._free = covers[0][1]
        self._covered = sorted([*self._covered, *covers[1:]])
        return tuple(covers)

    def follows(self, covers: Sequence[tuple[int, int]]) -> bool:
        """Whether *covers* begin with the next number, and overlap no other summary."""
        self._skip_covered()
        return covers[0][0] == self._free and not self._overlaps(covers)

    def _overlaps(self, covers: Sequence[tuple[int, int]]) -> bool:
        return any(
            start < other_end and other_start < end
            for start, end in covers
            for other_start, other_end in self._covered
        )

    def _skip_covered(self) -> None:
        while self._covered and self._covered[0][0] <= self._free:
            self._free = max(self._free, self._covered.pop(0)[1])
