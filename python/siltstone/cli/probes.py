"""What became of the facts in messages that left the context: still there, found by a search, or lost?

A probe is a number, a path, an error or a decision that was said in a message which is not in the context
any more. It is in the context where a summary or a later message says it. Else a search is asked for it in
the words beside it, never in its own: a path is asked for by its line, an error by how it begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from siltstone.values import dataclass

__all__ = ["KINDS", "Probe", "Retention", "probes_of", "retention"]

MOST: Final = 40  #: probes of one kind in one session, evenly taken
LIMIT: Final = 5  #: hits that a search gives
SHORTEST_QUERY: Final = 3  # words
LONGEST: Final = 160  # characters of a probe

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
    """Something that was said.

    Attributes:
        kind: One of ``KINDS``.
        text: What must be there word for word.
        query: What a search is asked.
    """

    kind: str
    text: str
    query: str


@dataclass(slots=True)
class Retention:
    """How many probes there were, and where they are."""

    in_context: int = 0
    found: int = 0
    lost: int = 0

    def add(self, other: Retention) -> None:
        """Counts those of *other* as well."""
        self.in_context += other.in_context
        self.found += other.found
        self.lost += other.lost

    @property
    def total(self) -> int:
        """All of them."""
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
"""What is looked for, and how."""


def probes_of(texts: Iterable[str]) -> list[Probe]:
    """The probes of *texts*: of each kind at most ``MOST``, each text once, taken evenly."""
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
    """By kind where the *probes* are: in *context*, in what *search* gives for their queries, or nowhere."""
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
    """The first half of the words of *said*; empty where they are too few to ask for."""
    words = said.split()
    return _words(" ".join(words[: (len(words) + 1) // 2]))


def _words(text: str) -> str:
    words = _WORD.findall(text)
    return " ".join(words[:20]) if len(words) >= SHORTEST_QUERY else ""
