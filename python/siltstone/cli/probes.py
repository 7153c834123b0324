"""Checks whether facts in messages that left the context are still in context, found by a search, or lost.

A probe is a number, a path, an error or a decision in a message that is no longer in the context. It is still
in the context if a summary or a later message has it. Else a search is asked for it. The query for a number
is made of the words beside it, the query for a path of its file name and the words before it, and the query
for an error or a decision of its first half.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["KINDS", "Probe", "Retention", "probes_of", "retention"]

MOST: Final = 40  #: the maximum probes of one kind in one session, evenly spread
LIMIT: Final = 5  #: the hits of a search
SHORTEST_QUERY: Final = 3  # words: the minimum of a query
LONGEST: Final = 160  # characters: the maximum of a probe

_NUMBER: Final = re.compile(r"(?<![\w.])\d[\d,._]{2,}\d(?![\w.])")
_PATH: Final = re.compile(r"(?<![\w/])(?:[\w.-]+)?(?:/[\w.-]+){2,}")
_ERROR: Final = re.compile(
    r"\b(?:\w*Error|\w*Exception|error|failed|failure|refused|denied)\b[:\s]", re.ASCII
)
_DECISION: Final = re.compile(
    r"\b(?:decided|let's|we(?:'ll| will)|I(?:'ll| will)|instead of|must|should|use the|prefer)\b",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")


@dataclass(frozen=True, slots=True)
class Probe:
    """A fact in a message.

    Attributes:
        kind: One of ``KINDS``.
        text: The text that must be found word for word.
        query: The query of the search for it.
    """

    kind: str
    text: str
    query: str


@dataclass(slots=True)
class Retention:
    """The numbers of probes in context, found by a search, and lost."""

    in_context: int = 0
    found: int = 0
    lost: int = 0

    def add(self, other: Retention) -> None:
        """Adds the numbers of *other*."""
        self.in_context += other.in_context
        self.found += other.found
        self.lost += other.lost

    @property
    def total(self) -> int:
        """The number of all probes."""
        return self.in_context + self.found + self.lost


def _numbers(text: str) -> Iterator[Probe]:
    for line in text.splitlines():
        for found in _NUMBER.finditer(line):
            query = _words(line[: found.start()][-120:] + " " + line[found.end() :][:120])
            if query:
                yield Probe("numbers", found[0], query)


def _paths(text: str) -> Iterator[Probe]:
    for line in text.splitlines():
        for found in _PATH.finditer(line):
            if len(found[0]) <= LONGEST:
                name = found[0].rsplit("/", 1)[-1]
                yield Probe("paths", found[0], f"{name} {_words(line[: found.start()])}".strip())


def _errors(text: str) -> Iterator[Probe]:
    for line in text.splitlines():
        said = line.strip()
        if len(said) <= LONGEST and _ERROR.search(said) and (query := _half(said)):
            yield Probe("errors", said, query)


def _decisions(text: str) -> Iterator[Probe]:
    for line in text.splitlines():
        for sentence in _SENTENCE.split(line):
            said = sentence.strip()
            if len(said) <= LONGEST and _DECISION.search(said) and (query := _half(said)):
                yield Probe("decisions", said, query)


KINDS: Final[dict[str, Callable[[str], Iterator[Probe]]]] = {
    "numbers": _numbers,
    "paths": _paths,
    "errors": _errors,
    "decisions": _decisions,
}
"""The kinds of probes, each with the function that finds them in a text."""


def probes_of(texts: Iterable[str]) -> list[Probe]:
    """The probes of *texts*: at most ``MOST`` of each kind, evenly spread, each text once."""
    told = list(texts)
    chosen: list[Probe] = []
    for find in KINDS.values():
        found = {probe.text: probe for text in told for probe in find(text)}
        probes = list(found.values())
        step = max(1, -(-len(probes) // MOST))
        chosen += probes[::step]
    return chosen


def retention(
    probes: Sequence[Probe], context: str, search: Callable[[str, int], Iterable[str]]
) -> dict[str, Retention]:
    """The numbers of *probes* by kind: in *context*, in the hits of *search* for their queries, or lost."""
    kept = {kind: Retention() for kind in KINDS}
    for probe in probes:
        of_kind = kept[probe.kind]
        if probe.text in context:
            of_kind.in_context += 1
        elif any(probe.text in text for text in search(probe.query, LIMIT)):
            of_kind.found += 1
        else:
            of_kind.lost += 1
    return kept


def _half(said: str) -> str:
    """The first half of the words of *said*; empty if it has too few words for a query."""
    words = said.split()
    return _words(" ".join(words[: (len(words) + 1) // 2]))


def _words(text: str) -> str:
    words = _WORD.findall(text)
    return " ".join(words[:20]) if len(words) >= SHORTEST_QUERY else ""
