"""Searches of a store, as the compiled core provides them.

The other names of the compiled module are in ``_native.pyi``, which exports these as well.
"""

from typing import Any, Final, TypeAlias, final

from siltstone._native_store import Store
from siltstone.memory.entry import Decay, Fusion, Ranker, SearchIndex
from siltstone.tools.base import AnswerLimit

# content, score, messages, entry_id, role, created_at (ms), explain, session_id where several were searched,
# and where it was said more than once: how often, the first and the last time (ms)
_Repeated: TypeAlias = tuple[int, int, int] | None
_Hit: TypeAlias = tuple[
    str, float, tuple[int, int], int, str, int, dict[str, Any] | None, str | None, _Repeated
]

@final
class SearchOptions:
    """The options of a search: those of *base*, with the given ones in their place.

    Args:
        base: The options that are not given otherwise; None is ``lexical``, 5 hits, of every score.
        limit: The most hits.
        ranker: The way hits are scored.
        index: The index that the ranker ``cosine`` searches.
        min_score: The least score of a hit, 0..1.
        explain: Whether hits explain their scores.
        decay: The share of a score that each day leaves, and the least share; None is the ranker's own.
        now: The moment from which days are counted back.
        fusion: The way the ranker ``fused`` makes one score of two.
        since: Only entries said then or later. This filter and the next four are not taken from *base*.
        until: Only entries said before.
        role: Only entries of this role.
        kind: Only entries of this kind.
        name: Only entries with this name.

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
        decay: Decay | None = None,
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
        """Whether the search uses the query's vector."""

@final
class Asked:
    """The terms that a search looked for, to find them in texts. It can be pickled and compared."""

    def __new__(cls, terms: list[int], languages: str) -> Asked:
        """The terms of these hashes, in any order, for texts in those languages.

        Raises:
            ConfigError: *languages* is not ``auto``, or known codes with commas between them.
        """

    @staticmethod
    def of(query: str) -> Asked:
        """The terms of a query that was not run in an index: it is read as English."""

    def best_part(self, text: str, size: int) -> tuple[int, int, list[tuple[int, int]]]:
        """The part of *text* that best matches the terms: its bounds, and the places of the terms.

        All places are in code points of *text*, between graphemes. Each term counts once, and terms that
        are rare in the text count more; of equal parts the first is taken. Without a term it is the
        beginning.

        Args:
            text: The text of an entry.
            size: The most code points of the part.
        """

    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[type[Asked], tuple[list[int], str]]: ...

@final
class Found:
    """The hits, the ranker, the number of entries without vectors where it was checked, and the terms."""

    hits: Final[list[_Hit]]
    ranker: Final[Ranker]
    lacking: Final[int]
    asked: Final[Asked]

def answer(
    store: Store, session: str, query: str, base: SearchOptions, limit: int, now: int, most: AnswerLimit
) -> tuple[str | None, Found | None, int, str | None]:
    """The best entries of the session as the JSON text that ``memory_search`` answers, best first.

    Args:
        store: The store.
        session: The session.
        query: Natural language.
        base: The options of the search, apart from the other arguments. Its vectors are not used.
        limit: The most hits.
        now: The moment from which days are counted back.
        most: The limit of the text.

    Returns:
        The text, or None and the hits where it would be too long; the number of entries that do not match
        their checksums; and the store's ``facts_revision``, of the same state as the hits.
    """
