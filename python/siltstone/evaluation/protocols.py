"""The methods of a store that a measurement needs: few, so that other stores can be measured too."""

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
        """One of the ids that ``index`` returned."""

    @property
    def score(self) -> float:
        """Higher is better; only abstention compares scores of different queries."""

    @property
    def content(self) -> str:
        """The text of the hit."""


class Measurable(Protocol):
    """A store that can be measured: ``MemoryStore``, ``SimpleMemoryStore``, or your own store.

    A store that works in the background also has a method ``flush``, which waits for that work and returns
    whether it is done; it is called before the first search.
    """

    def index(self, session_id: str, entries: Sequence[Entry], /) -> Indexed:
        """Adds *entries*, so that the next search finds them."""

    def search(self, session_id: str, query: str, /, *, limit: int) -> Sequence[Ranked]:
        """At most *limit* hits, best first.

        ``ranker`` and ``min_score`` are passed too, each only if it was given to :func:`siltstone.evaluate`.
        """

    def close(self) -> None:
        """Releases all resources."""
