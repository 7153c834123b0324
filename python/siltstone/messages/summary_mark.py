"""The mark of a summary: the last line of its text, by which it is recognised after any store or network.

The line has the level, the numbers of the covered messages, and a digest of the text before it::

    [Summary level 2, messages 1-40, 43: 9f3ac1d2e4]

So a summary is still recognised after JSON, a copy or a database, which keep only a role and a text. A text
that was cut, edited or invented does not match its digest, and is not a summary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

__all__ = ["SummaryMark", "ascend", "marked", "ranges_in_words", "read_mark", "unmarked"]

_LEAD: Final = "\n\n[Summary level "
_LINE: Final = re.compile(
    r"\[Summary level ([1-9][0-9]{0,8}), messages "
    r"([0-9]{1,18}(?:-[0-9]{1,18})?(?:, [0-9]{1,18}(?:-[0-9]{1,18})?)*): ([0-9a-f]{10})\][ \t\r\n]*"
)


@dataclass(frozen=True, slots=True)
class SummaryMark:
    """The content of the last line of a summary.

    Attributes:
        level: 1 for a summary of messages, else one more than the highest summary it replaced.
        covers: The half-open ranges of sequence numbers that it replaces, ascending and disjoint.
    """

    level: int
    covers: tuple[tuple[int, int], ...]


def marked(text: str, covers: Sequence[tuple[int, int]], level: int) -> str:
    """*text* with its mark as the last line. An older mark is replaced.

    If *covers* are empty, the text gets no mark.
    """
    body = unmarked(text)
    if not covers:
        return body
    ranges = ranges_in_words(covers)
    return f"{body}{_LEAD}{level}, messages {ranges}: {_check(body, level, ranges)}]"


def unmarked(text: str) -> str:
    """*text* without its mark. A line that only looks like a mark stays."""
    found = _read(text)
    return text if found is None else found[0]


def read_mark(text: str) -> SummaryMark | None:
    """The mark of *text*; None if there is none, or if its digest does not match the text."""
    found = _read(text)
    return None if found is None else found[1]


def ranges_in_words(ranges: Sequence[tuple[int, int]]) -> str:
    """Half-open ranges in words, with both ends included: ``3-17, 20``."""
    return ", ".join(str(start) if end - start == 1 else f"{start}-{end - 1}" for start, end in ranges)


def ascend(covers: Sequence[tuple[int, int]]) -> bool:
    """Whether half-open ranges ascend from 0 on and are disjoint; adjacent ranges need not be joined."""
    last = 0
    for start, end in covers:
        if not last <= start < end:
            return False
        last = end
    return True


def _read(text: str) -> tuple[str, SummaryMark] | None:
    place = text.rfind(_LEAD)
    line = _LINE.fullmatch(text, place + 2) if place >= 0 else None
    if line is None:
        return None
    level, ranges, check = int(line[1]), line[2], line[3]
    body = text[:place]
    if check != _check(body, level, ranges):
        return None
    covers = tuple(_range(words) for words in ranges.split(", "))
    return (body, SummaryMark(level, covers)) if ascend(covers) else None


def _range(words: str) -> tuple[int, int]:
    start, _, last = words.partition("-")
    return int(start), int(last or start) + 1


def _check(body: str, level: int, ranges: str) -> str:
    """The digest of a mark. UTF-16 gives the same bytes before and after JSON, also for lone surrogates."""
    said = f"{level}|{ranges}|{body}".encode("utf-16-le", "surrogatepass")
    return blake2b(said, digest_size=5, person=b"siltstone-sum").hexdigest()
