"""Search hits in the order of their messages, instead of best first: how a topic developed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final, TypeAlias

from siltstone.errors import ConfigError
from siltstone.memory.entry import SearchHit, SearchOrder

__all__ = ["in_time", "is_in_time", "looked_at"]

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
        raise ConfigError(f"order must be 'score' or 'time', got {order!r}", field="order", value=order)
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
