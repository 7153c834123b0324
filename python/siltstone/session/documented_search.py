"""The documented search of a session: by words, hashed vectors, age, and a minimum score."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from siltstone.documented import bm25, cosine, hash_vector, hybrid_scores, passes, tokens
from siltstone.memory.base import Store
from siltstone.memory.entry import SourceRange, StoredEntry
from siltstone.memory.paging import entries_of
from siltstone.recall import Detail, RecallConfig

__all__ = ["DocumentedSearch"]

DAY: Final = 86_400.0  #: seconds


@dataclass(frozen=True, slots=True)
class _Known:
    """The tokens and the vector of an entry, computed once."""

    tokens: list[str]
    vector: list[float]


class DocumentedSearch:
    """The documented search over the entries of sessions. Each query reads all entries.

    Formulas and constants are in ``siltstone.documented``. siltstone's default search ranks better, and takes
    microseconds at any size. Tokens and vectors of an entry are computed once.

    Args:
        store: The store.
        config: The minimum score, the maximum number of entries, and their maximum age in days.
        now: The time, in seconds since 1970.
    """

    def __init__(self, store: Store, config: RecallConfig, now: Callable[[], float]) -> None:
        self._store, self._config, self._now = store, config, now
        self._known: dict[int, _Known] = {}

    def find(
        self,
        query: str,
        limit: int,
        sessions: Iterable[str],
        is_shown: Callable[[str, SourceRange], bool],
    ) -> list[Detail]:
        """The entries of *sessions* that pass the documented filter, best first.

        Entries whose messages are in context are left out last, since they count in the weights of words.
        """
        entries = self._entries(sessions)
        known = [self._of(entry) for entry in entries]
        # Words of entries that left, as those of a forgotten text, leave here too.
        self._known = {entry.entry_id: each for entry, each in zip(entries, known, strict=True)}
        asked = hash_vector(query)
        words = dict(enumerate(bm25(query, [each.tokens for each in known])))
        vectors = {place: cosine(asked, each.vector) for place, each in enumerate(known)}
        by_words = _best({place: score for place, score in words.items() if score > 0}, 2 * limit)
        by_vector = _best({place: score for place, score in vectors.items() if score > 0}, 2 * limit)
        moment = self._now()
        ages = {place: (moment - entry.created_at.timestamp()) / DAY for place, entry in enumerate(entries)}
        scores = hybrid_scores(by_vector, by_words, ages)
        kept = [
            (score, entries[place])
            for place, score in scores.items()
            if passes(score, self._config.min_score, by_vector=place in by_vector, by_words=place in by_words)
        ]
        kept.sort(key=lambda each: (-each[0], -each[1].created_at.timestamp(), each[1].entry_id))
        return [
            Detail(entry.content, score, entry.role, entry.created_at, entry.entry_id)
            for score, entry in kept
            if not is_shown(entry.session_id, entry.source_range)
        ][:limit]

    def _entries(self, sessions: Iterable[str]) -> list[StoredEntry]:
        """The newest entries, at most ``max_segments``, without entries that are too old."""
        config, found = self._config, list[StoredEntry]()
        for session in sessions:
            found += entries_of(self._store, session)
        if config.eviction_days:
            oldest = self._now() - config.eviction_days * DAY
            found = [entry for entry in found if entry.created_at.timestamp() >= oldest]
        found.sort(key=lambda entry: (entry.created_at, entry.entry_id))
        return found[-config.max_segments :]

    def _of(self, entry: StoredEntry) -> _Known:
        known = self._known.get(entry.entry_id)
        if known is None:
            known = self._known[entry.entry_id] = _Known(tokens(entry.content), hash_vector(entry.content))
        return known


def _best(scores: dict[int, float], count: int) -> dict[int, float]:
    """The *count* best of *scores*."""
    ranked = sorted(scores, key=lambda place: (-scores[place], place))
    return {place: scores[place] for place in ranked[:count]}
