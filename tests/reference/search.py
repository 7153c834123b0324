"""Cosine search by brute force: the query against every text."""

import math
from collections.abc import Mapping, Sequence

from reference.embed import counts


def search(query: str, texts: Sequence[str], limit: int, hash_rule: str = "xxh3") -> list[tuple[int, float]]:
    """Places of the *limit* nearest texts with their distances, the nearest first, ties by place.

    Texts that share no bucket with the query are left out.
    """
    wanted = counts(query, hash_rule)
    rows = [counts(text, hash_rule) for text in texts]
    found = [(distance(wanted, row), place) for place, row in enumerate(rows) if dot(wanted, row)]
    return [(place, far) for far, place in sorted(found)[:limit]]


def distance(a: Mapping[int, int], b: Mapping[int, int]) -> float:
    """Cosine distance of two bags of counts: 0 for the same direction, 1 for nothing in common.

    ``1 - a.b / sqrt(a.a * b.b)``; neither bag may be empty.
    """
    return 1 - dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def similarity(far: float) -> float:
    """The score of a distance: 1 for the same direction, 0.5 for nothing in common."""
    return 1 - far / 2


def dot(a: Mapping[int, int], b: Mapping[int, int]) -> int:
    """The sum of the products of the counts of common buckets."""
    return sum(count * b.get(bucket, 0) for bucket, count in a.items())
