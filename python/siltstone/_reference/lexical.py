"""The ranker ``lexical``: BM25 over passages, each entry lifted by what stands beside it.

The formula::

    own(e)   = the largest sum of BM25 over the passages of the entry
    sum(e)   = own(e) + 0.3 * (own(e-1) + own(e+1)) + 0.15 * (own(e-2) + own(e+2))
    score(e) = min(1, sum(e) / ceiling)

Neighbours follow each other in the order of the messages they came from, with at most two messages
missing between them. Entries with a score of 0 are not found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from siltstone._reference import analyse, bm25
from siltstone._reference.embed import word_hash

__all__ = ["Entry", "neighbors", "own", "search"]

SHARES = (0.3, 0.15)  # of the nearest neighbour on either side, and of the one behind it
MAX_GAP = 2  # messages that may be missing between neighbours


@dataclass(frozen=True, slots=True)
class Entry:
    """What is searched of an entry; an empty range is that of one which came from no message."""

    text: str
    source_range: tuple[int, int] = (0, 0)
    role: str = "user"
    name: str | None = None
    created_at: int = 0  # milliseconds since 1970


def search(queries: Sequence[str], entries: Sequence[Entry]) -> list[list[tuple[int, float]]]:
    """For each query, places of the entries with their scores: best first, then newer, then by place."""
    passages, beside = _passages(entries), neighbors(entries)
    return [_search(query, entries, passages, beside) for query in queries]


def own(query: str, entries: Sequence[Entry]) -> tuple[list[float], float]:
    """What each entry has of the query by itself, and the ceiling of that."""
    return _own(query, len(entries), _passages(entries))


def _search(
    query: str,
    entries: Sequence[Entry],
    passages: tuple[list[Counter[int]], list[int]],
    beside: Sequence[tuple[list[int], list[int]]],
) -> list[tuple[int, float]]:
    alone, ceiling = _own(query, len(entries), passages)
    found = []
    for place, entry in enumerate(entries):
        smoothed = alone[place]
        for step, share in enumerate(SHARES):
            before, after = (sum(alone[each] for each in side[step : step + 1]) for side in beside[place])
            smoothed += share * (before + after)
        if smoothed > 0:
            found.append((-min(1.0, smoothed / ceiling), -entry.created_at, place))
    return [(place, -score) for score, _, place in sorted(found)]


def _own(
    query: str, entries: int, passages: tuple[list[Counter[int]], list[int]]
) -> tuple[list[float], float]:
    documents, owners = passages
    sums, ceiling = bm25.sums(_bag(analyse.terms(query)), documents)
    alone = [0.0] * entries
    for owner, total in zip(owners, sums, strict=True):
        alone[owner] = max(alone[owner], total)
    return alone, ceiling


def _passages(entries: Sequence[Entry]) -> tuple[list[Counter[int]], list[int]]:
    """Every passage, and the place of the entry that it is of."""
    documents, owners = [], []
    for place, entry in enumerate(entries):
        for document in _documents(entry):
            documents.append(document)
            owners.append(place)
    return documents, owners


def _documents(entry: Entry) -> list[Counter[int]]:
    """Each passage of the text, with the name and the date."""
    name = analyse.terms(analyse.name_of(entry.role, entry.name))
    date = [term for word in analyse.date_words(entry.created_at) for term in analyse.terms(word)]
    return [_bag(passage + name + date) for passage in analyse.passages(analyse.terms(entry.text))]


def neighbors(entries: Sequence[Entry]) -> list[tuple[list[int], list[int]]]:
    """For each entry the two before it and the two after it, the nearest first, as far as there are any."""
    order = [place for place, entry in enumerate(entries) if entry.source_range[0] < entry.source_range[1]]
    order.sort(key=lambda place: (entries[place].source_range[0], place))
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in entries]
    for at, place in enumerate(order):
        found[place] = (
            _chain(entries, order[max(0, at - 2) : at + 1][::-1])[1:],
            _chain(entries, order[at : at + 3])[1:],
        )
    return found


def _chain(entries: Sequence[Entry], places: list[int]) -> list[int]:
    """*places*, cut where too much is missing between one and the next."""
    for at in range(1, len(places)):
        pair = sorted((entries[place].source_range[0], place) for place in places[at - 1 : at + 1])
        one, other = (entries[place].source_range for _, place in pair)
        if other[0] - one[1] > MAX_GAP:
            return places[:at]
    return places


def _bag(found: list[str]) -> Counter[int]:
    return Counter(word_hash(term) for term in found)
