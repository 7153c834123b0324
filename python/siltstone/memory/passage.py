"""The best part of a hit, with marks on the words of the query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from siltstone._native import Asked
from siltstone.errors import ConfigError

__all__ = ["PASSAGE", "SNIPPET", "Passage", "best_passage", "snippet"]

PASSAGE: Final = 1_000  #: the maximum characters of the passage of a hit
SNIPPET: Final = 240  #: the maximum characters of its snippet, without marks
CUT: Final = "…"  #: marks a cut


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text, and the places of the query's words in it.

    All places count characters (code points) of the whole text. No place splits a visible character, such as
    a letter with its accents.

    Attributes:
        text: The part.
        start: The place of its first character.
        end: The place after its last character; ``text == content[start:end]``.
        marks: The places of words of the query, in order: half-open ranges that neither touch nor overlap.
            Other forms of a word are marked too, and the corrections of typing errors.
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
            before: The text before a mark.
            after: The text after a mark.
            escape: A function for the pieces of the text, such as ``html.escape``. Without it the text stays
                as it is, and may contain characters that look like marks.
        """
        escaped = escape or str
        edges = [self.start, *(at for mark in self.marks for at in mark), self.end]
        pieces = [self.text[start - self.start : end - self.start] for start, end in pairwise(edges)]
        shown = [escaped(piece) for piece in pieces]
        shown[1::2] = [f"{before}{piece}{after}" for piece in shown[1::2]]
        return "".join(shown)


def best_passage(text: str, asked: Asked | None, size: int = PASSAGE) -> Passage:
    """The part of *text* that matches the query *asked* best, of at most *size* characters.

    Args:
        text: The text of an entry.
        asked: The query of a search; None marks nothing, and takes the beginning.
        size: The maximum number of characters, 1 or more.

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
    """One line for people: the best part, with query words between ``**``, and an ellipsis at a cut."""
    best = best_passage(text, asked, SNIPPET)
    line = " ".join(best.marked().split())
    return f"{f'{CUT} ' if best.start else ''}{line}{f' {CUT}' if best.end < len(text) else ''}"
