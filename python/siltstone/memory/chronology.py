"""The mentions of a topic in the order in which they were said, instead of the best first."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final, TypeAlias

from siltstone.errors import ConfigError
from siltstone.memory.entry import SearchHit, SearchOrder

__all__ = ["in_time", "is_in_time", "looked_at"]

POOL: Final = 4  #: hits that are looked at for each one that is given back
REACH: Final = 4  #: messages: as far as neighbours lend to each other
KEPT: Final = 0.95  #: of the score of a hit for each chosen one within reach

_Place: TypeAlias = tuple[str | None, int]


def is_in_time(order: SearchOrder) -> bool:
    """Whether a search of that order gives hits in order of time.

    Raises:
        ConfigError: no such order.
    """
    if order not in ("score", "time"):
        raise ConfigError(f"order must be 'score' or 'time', got {order!r}", field="order", value=order)
    return order == "time"


def looked_at(limit: int) -> int:
    """How many hits, best first, :func:`in_time` wants for *limit* of them."""
    return POOL * max(0, limit)


def in_time(hits: Sequence[SearchHit], limit: int, *, explain: bool = False) -> list[SearchHit]:
    """*limit* of *hits*, in the order in which they were said.

    The best is chosen first. A hit counts 0.95 of its score for each chosen one within four messages of it,
    so that what is chosen spreads over the session; of equal ones the first of *hits* is better. The order is
    that of the messages, and that of times where hits are of several sessions, or of no message.

    Args:
        hits: The best first, by whatever ranked them.
        limit: How many to choose at most.
        explain: Whether explanations tell of it: ``"order": {"rank", "kept"}``, the place among *hits*, from
            1, and what was left of the score when it was chosen, 0..1.
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
    """The places of *limit* hits, the best first, each with what was left of its score."""
    # The place is what counts: a reranker may have changed the order, and left the scores.
    weights = sorted((hit.score for hit in hits), reverse=True)
    # Hits of one message lose alike, so each message has its next one in the heap, at most too high.
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
            heapreplace(heap, (-weights[at] * kept, at, place))  # one beside it was chosen since
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
