"""The documented search over facts: full text and hashed words, both normalised, in order of rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from siltstone.documented import bm25, cosine, word_vector
from siltstone.errors import ConfigError
from siltstone.knowledge.base import Fact, FactStore, now_ms
from siltstone.knowledge.search import find_text, words_of

__all__ = ["MAX_RESULTS", "HybridFacts", "VectorStore"]

MAX_RESULTS: Final = 1_000


@runtime_checkable
class VectorStore(Protocol):
    """A store of facts that also stores their vectors."""

    def vectors(self) -> Mapping[str, Sequence[float]]:
        """The vectors, by the ids of facts."""


@dataclass(frozen=True, slots=True)
class HybridFacts:
    """Finds facts by ``full_text_weight * bm25 / best + vector_weight * max(0, cosine)``.

    Operators of query languages count as plain text. If nothing is found, facts with the whole query in their
    text or as a tag are returned, newest first.

    Attributes:
        store: The facts. Vectors that it has stored are used, others are computed.
        full_text_weight: The weight of BM25, 0..1.
        vector_weight: The weight of the cosine, 0..1; one of the two weights is above 0.
        dimensions: The length of a vector, 8 or more.
        max_results: The most facts of a search, 1..1000.
        enabled: If False, only the search for the whole query is left.

    Raises:
        ConfigError: a value is out of its bounds.
    """

    store: FactStore
    full_text_weight: float = 0.5
    vector_weight: float = 0.5
    dimensions: int = 128
    max_results: int = 20
    enabled: bool = True

    def __post_init__(self) -> None:
        for name in ("full_text_weight", "vector_weight"):
            weight = getattr(self, name)
            if type(weight) not in (int, float) or not 0 <= weight <= 1:
                raise _wrong(name, "in 0..1", weight)
        if self.full_text_weight + self.vector_weight <= 0:
            raise _wrong("vector_weight", "above 0 where full_text_weight is 0", self.vector_weight)
        if type(self.dimensions) is not int or self.dimensions < 8:
            raise _wrong("dimensions", "an integer >= 8", self.dimensions)
        if type(self.max_results) is not int or not 1 <= self.max_results <= MAX_RESULTS:
            raise _wrong("max_results", f"an integer in 1..{MAX_RESULTS}", self.max_results)

    def __len__(self) -> int:
        """The number of facts that hold now."""
        return len(self._held(now_ms()))

    def search(
        self, query: str, limit: int | None = None, *, as_of: int | None = None
    ) -> list[tuple[Fact, float]]:
        """The facts that hold and fit *query*, each with its score in 0..1, best first, then newer first.

        A fact with a score of 0 is not a hit. Facts that only contain the whole query are returned with the
        score 0.
        """
        most = self.max_results if limit is None else max(0, min(limit, self.max_results))
        moment = now_ms() if as_of is None else as_of
        if not query.strip() or not most:
            return []
        held = self._held(moment) if self.enabled else []
        scores = self._scores(query, held)
        found = [(fact, score) for fact, score in zip(held, scores, strict=True) if score > 0]
        if found:
            found.sort(key=lambda each: (-each[1], -each[0].created_at, each[0].id))
            return found[:most]
        return [(fact, 0.0) for fact in find_text(self.store, query, most)]

    def _held(self, moment: int) -> list[Fact]:
        return [fact for fact in self.store.facts() if fact.holds_at(moment)]

    def _scores(self, query: str, held: Sequence[Fact]) -> list[float]:
        texts = [f"{fact.content} {fact.context}" for fact in held]
        words = bm25(query, words_of(self.store, held))
        best = max(words, default=0.0)
        kept = self.store.vectors() if isinstance(self.store, VectorStore) else {}
        asked = word_vector(query, self.dimensions)
        scores = []
        for fact, text, matched in zip(held, texts, words, strict=True):
            vector = kept.get(fact.id, ())
            if len(vector) != self.dimensions:
                vector = word_vector(text, self.dimensions)
            similar = min(1.0, max(0.0, cosine(asked, vector)))
            share = matched / best if best > 0 else 0.0
            scores.append(self.full_text_weight * share + self.vector_weight * similar)
        return scores


def _wrong(field: str, bound: str, value: object) -> ConfigError:
    return ConfigError(f"{field} must be {bound}, got {value!r}", field=field, value=value)
