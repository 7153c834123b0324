"""BM25 over the words of ``words-1``, by the book.

Terms are 64-bit hashes of words. ``idf`` is Lucene's, which is never negative::

    idf(t)      = ln(1 + (N - df(t) + 0.5) / (df(t) + 0.5))
    part(t, d)  = qtf(t) * idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * dl / avgdl))
    score(d)    = min(1, sum of part(t, d) / (0.75 * (k1 + 1) * sum of qtf(t) * idf(t)))

A term that no text has counts below the line, with ``df = 0``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from siltstone._reference.embed import word_hash
from siltstone._reference.tokenize import words

__all__ = ["K1", "B", "search", "terms"]

K1 = 1.2
B = 0.75
CEILING = 0.75  # the part of the largest possible sum that already counts as 1


def terms(text: str) -> Counter[int]:
    """How often *text* has each term."""
    return Counter(word_hash(word) for word in words(text))


def search(query: str, texts: Sequence[str], limit: int) -> list[tuple[int, float]]:
    """Places of the *limit* best texts with their scores, the best first, ties by place."""
    documents = [terms(text) for text in texts]
    wanted = terms(query)
    average = sum(document.total() for document in documents) / len(documents) if documents else 0.0
    idf = {term: _idf(term, documents) for term in wanted}
    weights = 0.0
    for term in sorted(wanted):  # not sum(): it compensates its rounding from Python 3.12 on
        weights += wanted[term] * idf[term]
    ceiling = CEILING * (K1 + 1) * weights
    found = []
    for place, document in enumerate(documents):
        total = 0.0
        for term in sorted(wanted):
            if tf := document[term]:
                length = 1 - B + B * document.total() / average
                total += wanted[term] * idf[term] * tf * (K1 + 1) / (tf + K1 * length)
        if total > 0:
            found.append((-min(1.0, total / ceiling), place))
    return [(place, -score) for score, place in sorted(found)[:limit]]


def _idf(term: int, documents: Sequence[Counter[int]]) -> float:
    df = sum(term in document for document in documents)
    return math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
