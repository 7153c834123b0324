"""Two scores of an entry made into one, and what age takes of it.

The ranker ``fused``, over all entries of a session, with ``l`` the score of ``lexical``, ``c`` the cosine
of the nearest vector, and means and deviations over the session::

    lost     = from 0 to 1 while the best l, times words / 6 for a longer query, falls from 0.3 to 0.15
    alone    = from 0 to 1 while the z-score of the best c, over sqrt(2 ln n) of n, rises from 0.8 to 1.1
    v        = alone * (0.5 + 0.4 * lost)
    w_l, w_c = (1 - v) * d_c / ((1 - v) * d_c + v * d_l), 1 - w_l
    mix(e)   = w_l * l(e) + w_c * c(e)
    score(e) = mix(e) + 0.3 * (rise(e-1) + rise(e+1)) + 0.15 * (rise(e-2) + rise(e+2)), cut to 0..1
    rise(e)  = w_c * (1 - lost) * (c(e) - mean of c); 0 for an entry without a vector, which has the mean

This orders as the weighted sum of both z-scores does, that of the vectors smoothed. By reciprocal ranks it is
``(1 / (60 + rank by lexical) + 1 / (60 + rank by cosine)) * 61 / 2``.

The documented hybrid::

    v        = max(0, cosine)
    b        = bm25 / best bm25 of the query
    score(e) = (0.7 * v + 0.3 * b) * 0.995 ** days

BM25 is that of an entry by itself, without what stands beside it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from reference import lexical, search, tokenize
from reference.embed import counts
from reference.lexical import Entry

VECTOR, BM25 = 0.7, 0.3
PER_DAY, FLOOR = 0.995, 0.0
DAY = 86_400_000  # milliseconds
RRF_K = 60
SHARES = (0.3, 0.15)  # of the nearest neighbour on either side, and of the one behind it

Vectors: TypeAlias = Sequence[Sequence[float]] | None
"""The numbers of an entry; None if it has none yet."""


def hybrid(
    query: str, entries: Sequence[Entry], limit: int, now: int, hash_rule: str = "xxh3"
) -> list[tuple[int, float]]:
    """Places of the *limit* best entries with their scores: best first, then newer, then by place."""
    wanted = counts(query, hash_rule)
    rows = [counts(entry.content, hash_rule) for entry in entries]
    near = [1 - search.distance(wanted, row) if search.dot(wanted, row) else 0.0 for row in rows]
    said, _ = lexical.own(query, entries)
    most = max(said, default=0.0) or 1.0
    found = []
    for place, (same, words) in enumerate(zip(near, said, strict=True)):
        if same <= 0.0 and words <= 0.0:
            continue
        score = VECTOR * same + BM25 * (words / most)
        score = min(1.0, score) * decayed(entries[place].created_at, now, PER_DAY, FLOOR)
        found.append((-score, -entries[place].created_at, place))
    best = [(place, -score) for score, _, place in sorted(found)]
    return lexical.each_once(best, entries, query, asks=False)[:limit]


def decayed(created_at: int, now: int, per_day: float, floor: float) -> float:
    """The score that is left at an age; both times in milliseconds since 1970."""
    return float(max(floor, per_day ** (max(0, now - created_at) / DAY)))


def dense(
    terms: str, query: Sequence[float], entries: Sequence[Entry], vectors: Sequence[Vectors]
) -> list[tuple[int, float]]:
    """Places of the entries that have vectors, with their scores: best first, then newer, then by place."""
    return lexical.each_once(_dense(query, entries, vectors), entries, terms)


def _dense(
    query: Sequence[float], entries: Sequence[Entry], vectors: Sequence[Vectors]
) -> list[tuple[int, float]]:
    near = _near(query, vectors)
    return _ordered({place: 1 - (1 - far) / 2 for place, far in enumerate(near) if far is not None}, entries)


def fused(
    terms: str, query: Sequence[float], entries: Sequence[Entry], vectors: Sequence[Vectors]
) -> list[tuple[int, float]]:
    """The same by the terms of the query and by its vector, made one by z-scores."""
    (ranked,) = lexical.scores([terms], entries)
    words = dict(ranked)
    said = [words.get(place, 0.0) for place in range(len(entries))]
    near = _near(query, vectors)
    _, deviation = _spread(said)
    known = [each for each in near if each is not None]
    mean, far = _spread(known)
    lost = 1 - _ramp(max(said) * max(1.0, len(tokenize.words(terms)) / 6), 0.15, 0.3)
    z = (max(known) - mean) / far if far > 0 else 0.0
    share = (0.5 + (0.9 - 0.5) * lost) * _ramp(z / math.sqrt(2 * math.log(max(2, len(known)))), 0.8, 1.1)
    of_terms, of_vectors = _weights(deviation, far, share)
    rise = [0.0 if each is None else of_vectors * (1 - lost) * (each - mean) for each in near]
    found = {}
    for place, sides in enumerate(lexical.neighbors(entries)):
        own = near[place]
        score = of_terms * said[place] + of_vectors * (mean if own is None else own)
        for step, share in enumerate(SHARES):
            before, after = (sum(rise[each] for each in side[step : step + 1]) for side in sides)
            score += share * (before + after)
        if score > 0:
            found[place] = min(1.0, score)
    return lexical.each_once(_ordered(found, entries), entries, terms)


def reciprocal(
    terms: str, query: Sequence[float], entries: Sequence[Entry], vectors: Sequence[Vectors]
) -> list[tuple[int, float]]:
    """The same by reciprocal ranks."""
    (said,) = lexical.scores([terms], entries)
    ranks: dict[int, list[float]] = {}
    for side in (said, _dense(query, entries, vectors)):
        for rank, (place, _) in enumerate(side, 1):
            ranks.setdefault(place, []).append(1 / (RRF_K + rank))
    scored = {place: sum(each) / (2 / (RRF_K + 1)) for place, each in ranks.items()}
    return lexical.each_once(_ordered(scored, entries), entries, terms)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Of two vectors; 0 where one of them is zero."""
    norms = math.sqrt(_dot(one, one)) * math.sqrt(_dot(other, other))
    return max(-1.0, min(1.0, _dot(one, other) / norms)) if norms > 0 else 0.0


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    """Eight sums side by side, which is the order in which the core adds."""
    s = [0.0] * 8
    for place, (a, b) in enumerate(zip(one, other, strict=True)):
        s[place % 8] += a * b
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))


def _near(query: Sequence[float], vectors: Sequence[Vectors]) -> list[float | None]:
    return [max(cosine(query, each) for each in rows) if rows else None for rows in vectors]


def _spread(scores: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation, summed up one after another."""
    if not scores:
        return 0.0, 0.0
    total = squares = 0.0
    for score in scores:
        total += score
    mean = total / len(scores)
    for score in scores:
        squares += (score - mean) * (score - mean)
    return mean, math.sqrt(squares / len(scores))


def _ramp(value: float, low: float, high: float) -> float:
    return max(0.0, min(1.0, (value - low) / (high - low)))


def _weights(one: float, other: float, share: float) -> tuple[float, float]:
    if one > 0 and other > 0:
        terms, vectors = (1 - share) * other, share * one
        return terms / (terms + vectors), vectors / (terms + vectors)
    return (1.0, 0.0) if one > 0 else (0.0, 1.0) if other > 0 else (0.5, 0.5)


def _ordered(scores: Mapping[int, float], entries: Sequence[Entry]) -> list[tuple[int, float]]:
    order = sorted((-score, -entries[place].created_at, place) for place, score in scores.items())
    return [(place, -score) for score, _, place in order]
