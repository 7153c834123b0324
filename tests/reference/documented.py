"""BM25 of the documented archive, over lists of words.

The formula::

    idf(t)   = ln((N - n(t) + 0.5) / (n(t) + 0.5) + 1)
    score(d) = sum over t of idf(t) * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length(d) / average))

A term that a query has twice counts twice. Sums are taken in the order of the query's terms.
"""

import math
from collections.abc import Sequence

K1, B = 1.2, 0.75


def scores(texts: Sequence[Sequence[str]], query: Sequence[str]) -> list[float]:
    """The score of each text."""
    sums = [0.0] * len(texts)
    average = sum(map(len, texts)) / len(texts) if texts else 0.0
    for term in query:
        holding = [place for place, words in enumerate(texts) if term in words]
        idf = math.log((len(texts) - len(holding) + 0.5) / (len(holding) + 0.5) + 1)
        for place in holding:
            tf = texts[place].count(term)
            length = len(texts[place]) / average
            sums[place] += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length))
    return sums


def best(
    texts: Sequence[Sequence[str]], query: Sequence[str], least: int, limit: int
) -> list[tuple[int, float]]:
    """The *limit* best texts with at least *least* different words of the query, one at the least."""
    found = [
        (place, score)
        for place, score in enumerate(scores(texts, query))
        if len({*query} & {*texts[place]}) >= max(1, least)
    ]
    return sorted(found, key=lambda each: (-each[1], each[0]))[:limit]
