"""Sets of sequence numbers as half-open ranges: ascending, disjoint, and with touching ranges joined."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import TypeAlias

__all__ = ["RangeSet", "common", "count", "has", "minus", "numbers", "union", "within"]

RangeSet: TypeAlias = tuple[tuple[int, int], ...]


def union(*parts: Iterable[tuple[int, int]]) -> RangeSet:
    """All numbers of *parts*. The ranges may overlap, and come in any order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(span for part in parts for span in part):
        if start >= end:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def minus(spans: RangeSet, gone: RangeSet) -> RangeSet:
    """The numbers of *spans* that are not in *gone*."""
    found: list[tuple[int, int]] = []
    at = 0
    for start, end in spans:
        while at < len(gone) and gone[at][1] <= start:
            at += 1
        place = at
        while place < len(gone) and gone[place][0] < end:
            if start < gone[place][0]:
                found.append((start, gone[place][0]))
            start = max(start, gone[place][1])
            place += 1
        if start < end:
            found.append((start, end))
    return tuple(found)


def has(spans: RangeSet, start: int, end: int | None = None) -> bool:
    """Whether *spans* has every number from *start* to below *end*; without *end*, whether it has *start*.

    O(log n) in the number of ranges, so a caller may ask for each message of a view.
    """
    end = start + 1 if end is None else end
    place = bisect_right(spans, start, key=itemgetter(0)) - 1
    return start >= end or (place >= 0 and end <= spans[place][1])


def common(one: RangeSet, other: RangeSet) -> RangeSet:
    """The numbers that both sets have."""
    return minus(one, minus(one, other))


def within(spans: Iterable[tuple[int, int]], start: int, end: int) -> RangeSet:
    """The numbers of *spans* from *start* to below *end*, in the order of *spans*."""
    cut = ((max(first, start), min(last, end)) for first, last in spans)
    return tuple(span for span in cut if span[0] < span[1])


def count(spans: RangeSet) -> int:
    """How many numbers *spans* has."""
    return sum(end - start for start, end in spans)


def numbers(spans: RangeSet) -> list[int]:
    """All numbers of *spans*, ascending."""
    return [number for span in spans for number in range(*span)]
