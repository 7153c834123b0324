"""Two scores of an entry made into one, and what age takes of it.

The documented hybrid::

    v        = max(0, cosine), for the 2 * limit nearest; 0 for all others
    b        = bm25 / best bm25 of the query, for the 2 * limit best; 0 for all others
    score(e) = (0.7 * v + 0.3 * b) * 0.995 ** days

BM25 is that of the ranker ``lexical``, without what stands beside an entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from siltstone._reference import lexical, search
from siltstone._reference.embed import counts
from siltstone._reference.lexical import Entry

__all__ = ["decayed", "hybrid"]

VECTOR, BM25 = 0.7, 0.3
PER_DAY, FLOOR = 0.995, 0.0
DAY = 86_400_000  # milliseconds


def hybrid(
    query: str, entries: Sequence[Entry], limit: int, now: int, hash_rule: str = "xxh3"
) -> list[tuple[int, float]]:
    """Places of the *limit* best entries with their scores: best first, then newer, then by place."""
    wanted = counts(query, hash_rule)
    rows = [counts(entry.text, hash_rule) for entry in entries]
    near = [1 - search.distance(wanted, row) if search.dot(wanted, row) else 0.0 for row in rows]
    said, _ = lexical.own(query, entries)
    vectors, words = _best(near, entries, 2 * limit), _best(said, entries, 2 * limit)
    most = max(words.values(), default=1.0)
    found = []
    for place in sorted(vectors.keys() | words.keys()):
        score = VECTOR * vectors.get(place, 0.0) + BM25 * (words.get(place, 0.0) / most)
        score = min(1.0, score) * decayed(entries[place].created_at, now, PER_DAY, FLOOR)
        found.append((-score, -entries[place].created_at, place))
    return [(place, -score) for score, _, place in sorted(found)[:limit]]


def decayed(created_at: int, now: int, per_day: float, floor: float) -> float:
    """What age leaves of a score; both times in milliseconds since 1970."""
    return float(max(floor, per_day ** (max(0, now - created_at) / DAY)))


def _best(scores: Sequence[float], entries: Sequence[Entry], limit: int) -> dict[int, float]:
    order = sorted(
        (-score, -entries[place].created_at, place) for place, score in enumerate(scores) if score > 0
    )
    return {place: -score for score, _, place in order[:limit]}
