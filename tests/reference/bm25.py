"""BM25 by the book, over bags of terms.

Terms are known by their 64-bit hashes. ``idf`` is Lucene's, which is never negative::

    idf(t)     = ln(1 + (N - df(t) + 0.5) / (df(t) + 0.5))
    w(t)       = qtf(t) * idf(t)
    part(t, d) = w(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * dl / avgdl))
    sum(d)     = sum of part(t, d)
    ceiling    = 0.75 * (k1 + 1) * sum of w(t)

A term that no text has counts for the ceiling, with ``df = 0``. With ``k3`` what the query repeats counts for
less each time: ``w(t) = qtf(t) * (k3 + 1) / (qtf(t) + k3) * idf(t)``.

``dl`` is the number of terms, unless it is given.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

K1 = 1.2
B = 0.75
CEILING = 0.75  # the part of the largest possible sum that already counts as 1


def parts(
    wanted: Counter[int],
    documents: Sequence[Counter[int]],
    *,
    k1: float = K1,
    k3: float | None = None,
    ceiling: float = CEILING,
    factors: Mapping[int, float] | None = None,
    lengths: Sequence[int] | None = None,
    spare: AbstractSet[int] = frozenset(),
) -> tuple[list[list[float]], float]:
    """For each document the part of each term, in ascending order of hash; and the ceiling.

    *factors* has what the weights of some terms are multiplied by; terms in *spare* stand beside another one
    for the same word, and count for no more than that in the ceiling.
    """
    lengths = [document.total() for document in documents] if lengths is None else lengths
    average = sum(lengths) / len(documents) if documents else 0.0
    terms = sorted(wanted)
    by = factors or {}
    weights = {
        term: _saturated(wanted[term], k3) * _idf(term, documents) * by.get(term, 1.0) for term in terms
    }
    found = []
    for document, terms_in_it in zip(documents, lengths, strict=True):
        length = 1 - B + B * terms_in_it / average if document else 1.0
        row = [
            weights[term] * tf * (k1 + 1) / (tf + k1 * length) if (tf := document[term]) else 0.0
            for term in terms
        ]
        found.append(row)
    return found, ceiling * (k1 + 1) * total(weights[term] for term in terms if term not in spare)


def sums(wanted: Counter[int], documents: Sequence[Counter[int]]) -> tuple[list[float], float]:
    """The sum of each document, in order, and the ceiling."""
    rows, ceiling = parts(wanted, documents)
    return [total(row) for row in rows], ceiling


def total(addends: Iterable[float]) -> float:
    """Their sum from the first to the last. Python's own compensates its rounding from 3.12 on."""
    found = 0.0
    for addend in addends:
        found += addend
    return found


def _saturated(count: int, k3: float | None) -> float:
    return float(count) if k3 is None else count * (k3 + 1) / (count + k3)


def _idf(term: int, documents: Sequence[Counter[int]]) -> float:
    df = sum(term in document for document in documents)
    return math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
