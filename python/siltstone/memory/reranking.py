"""Reorders the best hits of a search by a model of the host, if the model answers in time."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Final, TypeAlias

from siltstone.errors import ConfigError
from siltstone.events import SearchDegraded, StoreHook, notify
from siltstone.hooks import started
from siltstone.memory.entry import SearchHit

__all__ = ["Reranker", "Scorer", "as_reranker"]

_log: Final = logging.getLogger(__name__)

Scorer: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]
"""A function of the query and texts. Returns a finite number for each text; higher is better."""

MAX_DEPTH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Reranker:
    """A model that orders the best hits of a search, such as a cross-encoder.

    Attributes:
        score: A function that scores texts. It runs in a thread of its own, and several searches may call it
            at once.
        depth: The number of best hits that it scores: 2 to 1,000.
        timeout: Seconds that a search waits for it.

    Raises:
        ConfigError: *score* is not callable or is async, or a number is out of its bounds.
    """

    score: Scorer
    depth: int = 20
    timeout: float = 2.0

    def __post_init__(self) -> None:
        if not callable(self.score) or inspect.iscoroutinefunction(self.score):
            _refuse("reranker", "a function of a query and texts, and not async", self.score)
        if type(self.depth) is not int or not 2 <= self.depth <= MAX_DEPTH:
            _refuse("depth", f"an integer of 2..{MAX_DEPTH}", self.depth)
        is_number = isinstance(self.timeout, int | float) and not isinstance(self.timeout, bool)
        if not is_number or not 0 < self.timeout < inf:
            _refuse("timeout", "a finite number of seconds above 0", self.timeout)

    def reranked(
        self, session_id: str, query: str, hits: list[SearchHit], ranker: str, hooks: Sequence[StoreHook]
    ) -> list[SearchHit]:
        """*hits* with the first ``depth`` ones in the order of ``score``. Equal scores keep their order.

        The hits keep the scores of the ranker. If the model raises, takes too long, or does not return a
        finite number for each text, all hits keep their order, and *hooks* are told.

        Args:
            session_id: The session of the search.
            query: The query.
            hits: The hits, best first.
            ranker: The ranker that ordered them.
            hooks: Hooks for a :class:`~siltstone.SearchDegraded`.
        """
        first = hits[: self.depth]
        if len(first) < 2:
            return hits
        try:
            scores = self._scores(query, [hit.content for hit in first])
        except Exception as error:
            _log.warning("the reranker was not followed: %s", self._told(error))
            notify(hooks, SearchDegraded(session_id, ranker, "no_reranking"))
            return hits
        order = sorted(range(len(first)), key=lambda place: -scores[place])
        return [*(first[place] for place in order), *hits[self.depth :]]

    def _scores(self, query: str, texts: list[str]) -> list[float]:
        asked = started(lambda texts: self.score(query, texts), texts, "siltstone-reranker")
        answer: Any = asked.result(self.timeout)
        scores = [float(score) for score in answer]
        if len(scores) != len(texts):
            raise ValueError(f"it gave {len(scores)} scores for {len(texts)} texts")
        if not all(map(isfinite, scores)):
            raise ValueError("it gave a score that is not finite")
        return scores

    def _told(self, error: Exception) -> str:
        if isinstance(error, TimeoutError) and not str(error):
            return f"it gave no answer within {self.timeout:g} s"
        return f"{type(error).__name__}: {error}"


def as_reranker(given: Reranker | Scorer) -> Reranker:
    """*given* as a reranker; a plain function gets the default depth and time.

    Raises:
        ConfigError: *given* is neither.
    """
    return given if isinstance(given, Reranker) else Reranker(given)


def _refuse(field: str, bound: str, value: object) -> None:
    raise ConfigError(f"{field} must be {bound}, got {value!r}", field=field, value=value)
