"""The hits of a search: their order, their best part, and a second ranking by a model of the host."""

from __future__ import annotations

import inspect
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from math import isfinite
from typing import Any, Final, TypeAlias

from siltstone import checks
from siltstone._native import Asked
from siltstone.errors import ConfigError, refuse
from siltstone.events import SearchDegraded, StoreHook
from siltstone.hooks import notify, started
from siltstone.memory.entry import SearchHit, SearchOrder

# Search hits in the order of their messages, instead of best first: how a topic developed.

POOL: Final = 4  #: candidate hits for each returned hit
REACH: Final = 4  #: distance in messages within which a chosen hit lowers its neighbours
KEPT: Final = 0.95  #: factor on the score of a hit, for each chosen hit within reach

_Place: TypeAlias = tuple[str | None, int]


def is_in_time(order: SearchOrder) -> bool:
    """Whether *order* is the order of time.

    Raises:
        ConfigError: no such order.
    """
    if order not in ("score", "time"):
        refuse("order", "'score' or 'time'", order)
    return order == "time"


def looked_at(limit: int) -> int:
    """The number of candidates, best first, from which :func:`in_time` chooses *limit* hits."""
    return POOL * max(0, limit)


def in_time(hits: Sequence[SearchHit], limit: int, *, explain: bool = False) -> list[SearchHit]:
    """*limit* of *hits*, in the order of their messages.

    The best hit is chosen first. Each chosen hit within four messages multiplies the score of a hit by 0.95,
    so the chosen hits spread over the session. Of equal scores the first of *hits* wins. The result is in the
    order of the messages; in order of time, if the hits are from several sessions, or from no message.

    Args:
        hits: The candidates, best first.
        limit: The maximum number of hits.
        explain: Whether explanations get ``"order": {"rank", "kept"}``: the place among *hits*, from 1, and
            the remaining share of the score when the hit was chosen, 0..1.
    """
    if limit >= len(hits) and not explain:
        return _in_order(hits)
    chosen = _chosen(hits, limit)
    if explain:
        for at, kept in chosen:
            if (explanation := hits[at].explain) is not None:
                explanation["order"] = {"rank": at + 1, "kept": kept}
    return _in_order([hits[at] for at, _ in chosen])


def _chosen(hits: Sequence[SearchHit], limit: int) -> list[tuple[int, float]]:
    """The places of *limit* hits, best first, each with the remaining share of its score."""
    # The sorted scores are given out by place: a reranker may have changed the order, but not the scores.
    weights = sorted((hit.score for hit in hits), reverse=True)
    # Hits of one message lose the same share, so the heap has only the next hit of each message. Its weight
    # in the heap may be outdated, but only too high.
    waiting: dict[_Place, deque[int]] = {}
    for at, hit in enumerate(hits):
        waiting.setdefault(_place(hit, at), deque()).append(at)
    heap = [(-weights[of[0]], of[0], place) for place, of in waiting.items()]
    heapify(heap)
    taken: Counter[_Place] = Counter()
    chosen: list[tuple[int, float]] = []
    while heap and len(chosen) < limit:
        known, at, place = heap[0]
        session, start = place
        kept = KEPT ** sum(taken[session, start + beside] for beside in range(-REACH, REACH + 1))
        if -weights[at] * kept > known:
            heapreplace(heap, (-weights[at] * kept, at, place))  # a neighbour was chosen since: correct it
            continue
        chosen.append((at, kept))
        if session is not None:
            taken[place] += 1
        waiting[place].popleft()
        if waiting[place]:
            heapreplace(heap, (-weights[waiting[place][0]] * kept, waiting[place][0], place))
        else:
            heappop(heap)
    return chosen


def _place(hit: SearchHit, at: int) -> _Place:
    """The session and the message of a hit; a place of its own for a hit of no message."""
    return (hit.session_id, hit.source_range[0]) if _has_messages(hit) else (None, at * (2 * REACH + 1))


def _in_order(found: Sequence[SearchHit]) -> list[SearchHit]:
    is_one = len({hit.session_id for hit in found}) == 1 and all(map(_has_messages, found))
    if is_one:
        return sorted(found, key=lambda hit: (hit.source_range, hit.entry_id))
    return sorted(found, key=lambda hit: (hit.created_at, hit.session_id, hit.source_range, hit.entry_id))


def _has_messages(hit: SearchHit) -> bool:
    start, end = hit.source_range
    return start < end


# The best part of a hit, with marks on the words of the query.

PASSAGE: Final = 1_000  #: the maximum characters of the passage of a hit
SNIPPET: Final = 240  #: the maximum characters of its snippet, without marks
CUT: Final = "…"  #: marks a cut


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text, and the places of the query's words in it.

    All places count characters (code points) of the whole text. No place splits a visible character, such as
    a letter with its accents.

    Attributes:
        text: The part.
        start: The place of its first character.
        end: The place after its last character; ``text == content[start:end]``.
        marks: The places of words of the query, in order: half-open ranges that neither touch nor overlap.
            Other forms of a word are marked too, and the corrections of typing errors.
    """

    text: str
    start: int
    end: int
    marks: tuple[tuple[int, int], ...]

    def marked(
        self, before: str = "**", after: str = "**", escape: Callable[[str], str] | None = None
    ) -> str:
        """The text with *before* and *after* around each mark.

        Args:
            before: The text before a mark.
            after: The text after a mark.
            escape: A function for the pieces of the text, such as ``html.escape``. Without it the text stays
                as it is, and may contain characters that look like marks.
        """
        escaped = escape or str
        edges = [self.start, *(at for mark in self.marks for at in mark), self.end]
        pieces = [self.text[start - self.start : end - self.start] for start, end in pairwise(edges)]
        shown = [escaped(piece) for piece in pieces]
        shown[1::2] = [f"{before}{piece}{after}" for piece in shown[1::2]]
        return "".join(shown)


def best_passage(text: str, asked: Asked | None, size: int = PASSAGE) -> Passage:
    """The part of *text* that matches the query *asked* best, of at most *size* characters.

    Args:
        text: The text of an entry.
        asked: The query of a search; None marks nothing, and takes the beginning.
        size: The maximum number of characters, 1 or more.

    Raises:
        ConfigError: *size* is below 1.
    """
    if type(size) is not int or size < 1:
        raise ConfigError(
            f"the size of a passage must be an integer of at least 1 character, got {size!r}", "size", size
        )
    start, end, marks = (asked or Asked([], "auto")).best_part(text, size)
    return Passage(text[start:end], start, end, tuple(marks))


def snippet(text: str, asked: Asked | None) -> str:
    """One line for people: the best part, with query words between ``**``, and an ellipsis at a cut."""
    best = best_passage(text, asked, SNIPPET)
    line = " ".join(best.marked().split())
    return f"{f'{CUT} ' if best.start else ''}{line}{f' {CUT}' if best.end < len(text) else ''}"


# Reorders the best hits of a search by a model of the host, if the model answers in time.

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
            refuse("reranker", "a function of a query and texts, and not async", self.score)
        checks.within("depth", self.depth, 2, MAX_DEPTH)
        checks.seconds("timeout", self.timeout, "")

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
            hooks: Hooks for a :class:`~siltstone.events.SearchDegraded`.
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
