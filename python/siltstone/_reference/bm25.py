"""BM25 by the book, over bags of terms.

Terms are known by their 64-bit hashes. ``idf`` is Lucene's, which is never negative::

    idf(t)     = ln(1 + (N - df(t) + 0.5) / (df(t) + 0.5))
    part(t, d) = qtf(t) * idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * dl / avgdl))
    sum(d)     = sum of part(t, d)
    ceiling    = 0.75 * (k1 + 1) * sum of qtf(t) * idf(t)

A term that no text has counts for the ceiling, with ``df = 0``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

__all__ = ["K1", "B", "sums"]

K1 = 1.2
B = 0.75
CEILING = 0.75  # the part of the largest possible sum that already counts as 1


def sums(wanted: Counter[int], documents: Sequence[Counter[int]]) -> tuple[list[float], float]:
    """The sum of each document, in order, and the ceiling; terms are taken in ascending order of hash."""
    average = sum(document.total() for document in documents) / len(documents) if documents else 0.0
    idf = {term: _idf(term, documents) for term in wanted}
    weights = 0.0
    for term in sorted(wanted):  # not sum(): it compensates its rounding from Python 3.12 on
        weights += wanted[term] * idf[term]
    found = []
    for document in documents:
        total = 0.0
        for term in sorted(wanted):
            if tf := document[term]:
                length = 1 - B + B * document.total() / average
                total += wanted[term] * idf[term] * tf * (K1 + 1) / (tf + K1 * length)
        found.append(total)
    return found, CEILING * (K1 + 1) * weights


def _idf(term: int, documents: Sequence[Counter[int]]) -> float:
    df = sum(term in document for document in documents)
    return math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
