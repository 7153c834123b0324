"""Measures of a ranking: each is a function with its formula."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

__all__ = [
    "area_under_curve",
    "first_rank",
    "hit",
    "margin",
    "mean",
    "ndcg",
    "percentile",
    "recall",
    "reciprocal_rank",
]


def recall(ranked: Sequence[str], evidence: Collection[str], k: int) -> float:
    """The share of the evidence among the first *k*: ``|E ∩ top k| / |E|``, 0..1."""
    wanted = set(evidence)
    return len(wanted.intersection(ranked[:k])) / len(wanted)


def hit(ranked: Sequence[str], evidence: Collection[str], k: int) -> float:
    """1.0 if any evidence is among the first *k*, otherwise 0.0."""
    return float(0 < first_rank(ranked, evidence) <= k)


def ndcg(ranked: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain of binary relevance, 0..1.

    ``sum of 1 / log2(rank + 1) over the evidence in the top k``, as a share of the same sum with the
    evidence on the ranks 1 to ``min(k, |E|)``. Source: Järvelin and Kekäläinen 2002, with a gain of 1.
    """
    wanted = set(evidence)
    found = [rank for rank, each in enumerate(ranked[:k], start=1) if each in wanted]
    return _gain(found) / _gain(range(1, min(k, len(wanted)) + 1))


def _gain(ranks: Iterable[int]) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in ranks)


def reciprocal_rank(ranked: Sequence[str], evidence: Collection[str], depth: int) -> float:
    """``1 / rank`` of the first evidence; 0.0 if it comes after *depth*, or not at all."""
    rank = first_rank(ranked, evidence)
    return 1 / rank if 0 < rank <= depth else 0.0


def first_rank(ranked: Sequence[str], evidence: Collection[str]) -> int:
    """The rank of the first evidence, from 1; 0 if there is none."""
    return next((rank for rank, each in enumerate(ranked, start=1) if each in evidence), 0)


def area_under_curve(positive: Sequence[float], negative: Sequence[float]) -> float:
    """How often a positive score exceeds a negative score, 0..1; equal scores count one half.

    ``(sum of the positives' ranks - p (p + 1) / 2) / (p n)``, where equal scores share their mean rank: the
    area under the ROC curve, by Mann and Whitney. Guessing reaches 0.5. Both arguments must have at least one
    score.
    """
    counts: dict[float, tuple[int, int]] = {}
    for score in positive:
        above, below = counts.get(score, (0, 0))
        counts[score] = above + 1, below
    for score in negative:
        above, below = counts.get(score, (0, 0))
        counts[score] = above, below + 1
    # Counted in halves, so that the sum is of integers and exact.
    halves, passed = 0, 0
    for _, (above, below) in sorted(counts.items()):
        halves += above * (2 * passed + below)
        passed += below
    return halves / (2 * len(positive) * len(negative))


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, independent of the order of *values*; 0.0 without values."""
    return math.fsum(values) / len(values) if values else 0.0


def margin(values: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of their mean: 1.96 standard errors.

    It is the normal approximation, with ``n - 1`` degrees of freedom; 0.0 for fewer than two values.
    """
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    squares = math.fsum((value - middle) ** 2 for value in values)
    return 1.96 * math.sqrt(squares / (len(values) - 1) / len(values))


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that is at least as large as *share* (0..1) of all; 0.0 without samples."""
    if not samples:
        return 0.0
    return sorted(samples)[max(math.ceil(len(samples) * share), 1) - 1]
