"""Searches of a store, as the compiled core has them.

The other names of the compiled module are in ``_native.pyi``, which has these as well.
"""

from typing import Any, Final, Protocol, final

from siltstone.memory.entry import Fusion, Ranker, SearchIndex

__all__ = ["Found", "Hit", "SearchOptions"]

class _Decay(Protocol):
    @property
    def per_day(self) -> float: ...
    @property
    def floor(self) -> float: ...

@final
class SearchOptions:
    """What may be asked of a search: what *base* says, and what is given besides.

    Args:
        base: What holds where nothing is given; None is ``lexical``, 5 hits, of every score.
        limit: At most so many hits.
        ranker: How to score.
        index: What the ranker ``cosine`` looks into.
        min_score: 0..1.
        explain: Whether to say how scores came about.
        decay: What a day leaves of a score, and what is left at least. Without one it is the ranker's own.
        now: From when days are counted.
        fusion: How the ranker ``fused`` makes one score of two.
        since: Only what was said then or later; those of *base* do not hold, nor do the next four.
        until: Only what was said before.
        role: Only what has this role.
        kind: Only what is of this kind.
        name: Only what has this name.

    Raises:
        ConfigError: an unknown ranker, index or fusion, or a decay out of 0..1.
    """

    def __new__(
        cls,
        base: SearchOptions | None = None,
        *,
        limit: int | None = None,
        ranker: Ranker | None = None,
        index: SearchIndex | None = None,
        min_score: float | None = None,
        explain: bool | None = None,
        decay: _Decay | None = None,
        now: int | None = None,
        fusion: Fusion | None = None,
        since: int | None = None,
        until: int | None = None,
        role: str | None = None,
        kind: str | None = None,
        name: str | None = None,
    ) -> SearchOptions: ...
    ranker: Final[Ranker]
    @property
    def wants_vector(self) -> bool:
        """Whether the query's vector makes a difference."""

@final
class Asked:
    """The terms that a search looked for: where a text has them. It can be pickled, and compared."""

    def __new__(cls, terms: list[int], languages: str) -> Asked:
        """Of hashes of terms, in any order, held against texts of those languages.

        Raises:
            ConfigError: *languages* is not ``auto``, or known codes with commas between them.
        """

    @staticmethod
    def of(query: str) -> Asked:
        """The terms of a query that was held against nothing, read as English."""

    def best_part(self, text: str, size: int) -> tuple[int, int, list[tuple[int, int]]]:
        """The part of *text* that has most of the terms: where it begins and ends, and where they stand.

        All places count code points of *text*, and halve no grapheme. Each term counts once, and the rarer in
        the text the more; of equal parts the first. Without a term it is the beginning.

        Args:
            text: The text of an entry.
            size: Code points of the part, at most.
        """

    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[type[Asked], tuple[list[int], str]]: ...

@final
class Hit:
    """An entry that a search found."""

    entry_id: Final[int]
    content: Final[str]
    start: Final[int]
    end: Final[int]
    role: Final[str]
    name: Final[str | None]
    kind: Final[str]
    created_at: Final[int]
    score: Final[float]
    explain: Final[dict[str, Any] | None]
    session_id: Final[str | None]

@final
class Found:
    """The hits, who ranked them, and how many entries lack vectors, where that was looked at."""

    hits: Final[list[Hit]]
    ranker: Final[Ranker]
    lacking: Final[int]
    asked: Final[Asked]
