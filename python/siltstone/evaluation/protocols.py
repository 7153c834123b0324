"""The parts of a store that a measurement needs: few, so that stores of others can be measured too."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from siltstone.memory.entry import Entry

__all__ = ["Indexed", "Measurable", "Ranked"]


class Indexed(Protocol):
    """The answer of ``index``, such as a :class:`~siltstone.memory.entry.Receipt`."""

    @property
    def entry_ids(self) -> Sequence[Hashable | None]:
        """An id for each entry, in order; None for an entry that was not kept."""


class Ranked(Protocol):
    """A hit. A :class:`~siltstone.memory.entry.SearchHit` is one."""

    @property
    def entry_id(self) -> Hashable:
        """One of the ids that ``index`` gave."""

    @property
    def score(self) -> float:
        """Higher is better; compared between queries for abstention alone."""

    @property
    def content(self) -> str:
        """What is handed over."""


class Measurable(Protocol):
    """A store that can be measured: ``MemoryStore``, ``SimpleMemoryStore``, or one of your own.

    One that makes itself ready in the background has a method ``flush`` as well, which waits for that and
    says whether it is done; it is called before the first search.
    """

    def index(self, session_id: str, entries: Sequence[Entry], /) -> Indexed:
        """Makes *entries* found by the next search."""

    def search(self, session_id: str, query: str, /, *, limit: int) -> Sequence[Ranked]:
        """At most *limit* hits, best first.

        It is also given ``ranker`` and ``min_score``, each only where :func:`siltstone.evaluate` was.
        """

    def close(self) -> None:
        """Releases everything."""
