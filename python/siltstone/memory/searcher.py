"""How a store searches: by which ranker, with the vector of the query where there is one, and what if not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from siltstone import _native
from siltstone.embedding.base import Embedder, check_embedder
from siltstone.errors import ConfigError, StoreConflictError
from siltstone.events import SearchDegraded, StoreHook, notify
from siltstone.memory.convert import hit_from_row
from siltstone.memory.entry import Decay, Fusion, Ranker, SearchHit, SearchIndex
from siltstone.memory.limits import Limits
from siltstone.memory.vectors import Vectors

__all__ = ["Options", "Searcher"]

Found: TypeAlias = tuple[list[tuple[Any, ...]], str, int]
"""Rows, who ranked them, and how many entries of the session lack vectors."""

DENSE = ("dense", "fused")  # the rankers that need an embedder


@dataclass(frozen=True, slots=True)
class Options:
    """What of a search a store decides, where the search does not."""

    ranker: Ranker
    index: SearchIndex
    decay: Decay | None
    fusion: Fusion
    embed_timeout: float
    limits: Limits

    @classmethod
    def of(
        cls,
        ranker: Ranker | None,
        embedder: Embedder | None,
        index: SearchIndex,
        decay: Decay | None,
        fusion: Fusion,
        embed_timeout: float,
        limits: Limits,
    ) -> Options:
        """These, checked; the ranker that fits the embedder, where None is given."""
        if ranker is None:
            ranker = "lexical" if embedder is None else "fused"
        _check("ranker", ranker, get_args(Ranker))
        _check_embedder(ranker, embedder)
        if embedder is not None:
            check_embedder(embedder)
        _check("index", index, get_args(SearchIndex))
        _check("fusion", fusion, get_args(Fusion))
        if not 0 < embed_timeout < math.inf:
            raise ConfigError(
                f"embed_timeout must be a finite number of seconds above 0, got {embed_timeout!r}",
                field="embed_timeout",
                value=embed_timeout,
            )
        if not isinstance(limits, Limits):
            raise ConfigError(f"limits must be Limits, got {limits!r}", field="limits", value=limits)
        return cls(ranker, index, decay, fusion, embed_timeout, limits)


@dataclass(frozen=True, slots=True)
class Searcher:
    """Searches of one store."""

    native: _native.Store
    options: Options
    vectors: Vectors | None
    hooks: tuple[StoreHook, ...]

    @classmethod
    def of(
        cls,
        native: _native.Store,
        options: Options,
        embedder: Embedder | None,
        reembed: bool,
        hooks: tuple[StoreHook, ...],
    ) -> Searcher:
        """Over *native*, which from now on has the vectors of *embedder* and of no other."""
        if embedder is None:
            return cls(native, options, None, hooks)
        key = native.use_embedder(embedder.id, embedder.dimension, reembed)
        vectors = Vectors(native, embedder, key, options.embed_timeout, hooks)
        return cls(native, options, vectors, hooks)

    def search(
        self,
        session_id: str,
        query: str,
        limit: int,
        ranker: Ranker | None,
        min_score: float,
        explain: bool,
        decay: Decay | None,
        now: int,
    ) -> tuple[list[SearchHit], int]:
        """The hits, and how many entries of the session were found to lack vectors."""
        ranker = self.options.ranker if ranker is None else ranker
        decay = self.options.decay if decay is None else decay
        _check_embedder(ranker, self.vectors)
        self.options.limits.check_query(query)
        vector = self._vector(session_id, query, ranker) if limit > 0 else None

        def find(vector: tuple[int, bytes] | None) -> Found:
            rows, ranked_by, lacking = self.native.search(
                session_id,
                query,
                max(-1, min(limit, self.options.limits.hits)),
                ranker,
                self.options.index,
                min_score,
                explain,
                None if decay is None else (decay.per_day, decay.floor),
                now,
                self.options.fusion,
                vector,
            )
            return [*rows], ranked_by, lacking

        try:
            rows, ranked_by, lacking = find(vector)
        except StoreConflictError:  # another embedder took the place of this one just now
            rows, ranked_by, lacking = find(None)
        if vector is not None and ranked_by != ranker and (lacking or rows):
            notify(self.hooks, SearchDegraded(session_id, ranker, "no_vectors" if lacking else "stale"))
        return [hit_from_row(row) for row in rows], lacking

    def _vector(self, session_id: str, query: str, ranker: Ranker) -> tuple[int, bytes] | None:
        """The query as the embedder sees it; None where it is not asked, or does not answer."""
        if self.vectors is None or ranker not in DENSE:
            return None
        if not _native.whitespace_words(query):
            return None  # nothing to find
        numbers = self.vectors.query(query)
        if numbers is None:
            notify(self.hooks, SearchDegraded(session_id, ranker, "no_query_vector"))
            return None
        return self.vectors.key, numbers


def _check(field: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{field} must be one of {known!r}, got {value!r}", field=field, value=value)


def _check_embedder(ranker: Ranker, embedder: object) -> None:
    if ranker in DENSE and embedder is None:
        raise ConfigError(
            f"ranker {ranker!r} needs an embedder: MemoryStore.open(path, embedder=...)",
            field="ranker",
            value=ranker,
        )
