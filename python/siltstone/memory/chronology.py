"""The mentions of a topic in the order in which they were said, instead of the best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from siltstone.errors import ConfigError
from siltstone.memory.entry import SearchHit, SearchOrder

__all__ = ["in_time", "is_in_time", "looked_at"]

POOL: Final = 4  #: hits that are looked at for each one that is given back
REACH: Final = 4  #: messages: as far as neighbours lend to each other
KEPT: Final = 0.95  #: of the score of a hit for each chosen one within reach


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
    # The place is what counts: a reranker may have changed the order, and left the scores.
    weights = sorted((hit.score for hit in hits), reverse=True)
    kept = [1.0] * len(hits)
    left, chosen = set(range(len(hits))), list[int]()
    while left and len(chosen) < limit:
        best = max(left, key=lambda at: (weights[at] * kept[at], -at))
        left.discard(best)
        chosen.append(best)
        for at in left:
            if _is_near(hits[at], hits[best]):
                kept[at] *= KEPT
    if explain:
        for at in chosen:
            if (explanation := hits[at].explain) is not None:
                explanation["order"] = {"rank": at + 1, "kept": kept[at]}
    found = [hits[at] for at in chosen]
    is_one = len({hit.session_id for hit in found}) == 1 and all(map(_has_messages, found))
    if is_one:
        return sorted(found, key=lambda hit: (hit.source_range, hit.entry_id))
    return sorted(found, key=lambda hit: (hit.created_at, hit.session_id, hit.source_range, hit.entry_id))


def _is_near(hit: SearchHit, other: SearchHit) -> bool:
    """Whether both are of one session, and of messages that stand near each other."""
    apart = abs(hit.source_range[0] - other.source_range[0])
    is_said = _has_messages(hit) and _has_messages(other)
    return is_said and hit.session_id == other.session_id and apart <= REACH


def _has_messages(hit: SearchHit) -> bool:
    start, end = hit.source_range
    return start < end
