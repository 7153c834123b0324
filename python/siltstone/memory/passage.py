"""The best part of a hit, with the words that were looked for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from siltstone._native import Asked
from siltstone.errors import ConfigError
from siltstone.values import dataclass

__all__ = ["PASSAGE", "SNIPPET", "Passage", "best_passage", "snippet"]

PASSAGE: Final = 1_000  #: characters of the passage of a hit, at most
SNIPPET: Final = 240  #: characters of its snippet, marks left out, at most
CUT: Final = "…"  #: stands where a text was cut


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text, and where it has words that a search looked for.

    All places count characters (code points) of the whole text. None of them halves what people take for one
    character, such as a letter with its accents.

    Attributes:
        text: The part.
        start: Where it begins.
        end: Where it ends; ``text == content[start:end]``.
        marks: Where words of the query stand, in order: half-open ranges, which neither touch nor overlap.
            Other forms of a word count, and what a typo was corrected to.
    """

    text: str
    start: int
    end: int
    marks: tuple[tuple[int, int], ...]

    def marked(
        self, before: str = "**", after: str = "**", escape: Callable[[str], str] | None = None
    ) -> str:
        """The text with *before* and *after* around each mark.

        Args:
            before: Stands before a mark.
            after: Stands behind it.
            escape: Is given all that is of the text, piece by piece, such as ``html.escape``. Without it the
                text stays as it is: what looks like a mark in it cannot be told from one.
        """
        escaped = escape or str
        edges = [self.start, *(at for mark in self.marks for at in mark), self.end]
        pieces = [self.text[start - self.start : end - self.start] for start, end in pairwise(edges)]
        shown = [escaped(piece) for piece in pieces]
        shown[1::2] = [f"{before}{piece}{after}" for piece in shown[1::2]]
        return "".join(shown)


def best_passage(text: str, asked: Asked | None, size: int = PASSAGE) -> Passage:
    """The part of *text* that has most of what was *asked*, of at most *size* characters.

    Args:
        text: The text of an entry.
        asked: What a search looked for; None marks nothing, and takes the beginning.
        size: How many characters it may have, 1 or more.

    Raises:
        ConfigError: *size* is below 1.
    """
    if type(size) is not int or size < 1:
        raise ConfigError(
            f"the size of a passage must be an integer of at least 1 character, got {size!r}",
            field="size",
            value=size,
        )
    start, end, marks = (asked or Asked([], "auto")).best_part(text, size)
    return Passage(text[start:end], start, end, tuple(marks))


def snippet(text: str, asked: Asked | None) -> str:
    """A line for people: the best part, words of the query between ``**``, an ellipsis where it was cut."""
    best = best_passage(text, asked, SNIPPET)
    line = " ".join(best.marked().split())
    return f"{f'{CUT} ' if best.start else ''}{line}{f' {CUT}' if best.end < len(text) else ''}"
