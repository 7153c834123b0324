"""The ranker ``lexical``: BM25 over passages, each entry lifted by its neighbours, day and speaker.

The formula, ``t`` being the terms of the query, BM25 with ``k3`` 2 and a ceiling of 1.2::

    own(e)     = the largest sum of BM25 over the passages of the entry
    part(t, e) = the part of t in that passage, the first of equal ones
    near(e)    = sum over t of sqrt(part(t, e)**2 + share(k)**2 * (part(t, e-k)**2 + part(t, e+k)**2) ...)
    day(e)     = the sum of BM25 of all that was said on the day of the entry, among all days
    speaker(e) = 1.5 where the query names exactly one speaker, who said the entry; else 1
    score(e)   = min(1, (near(e) * speaker(e) + day(e)) / ceiling)

Neighbours follow each other in the order of the messages they came from, with at most two messages
missing between them; those up to four places away count. Entries whose ``near`` is 0 are not found.

A word of the query that no entry has stands for one that entries have, one typo away, and weighs 0.8 of that.

A query names a speaker by a term that is in no other name. Speakers are people: a name that also stands for a
tool, or for what an assistant said, is none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from siltstone._reference import analyse, bm25
from siltstone._reference.correct import corrections
from siltstone._reference.embed import word_hash

__all__ = ["Entry", "neighbors", "own", "search"]

SQUARES = (0.1681, 0.16, 0.09, 0.04)  # of the shares of the nearest neighbour on either side, and of the next
MAX_GAP = 2  # messages that may be missing between neighbours
K3 = 2.0  # how soon a repeated term of a query stops counting for more
CEILING = 1.2  # what scores 1, in parts of the most that a passage can have of the query by itself
K1_OF_DAYS = 2.0
SPEAKER = 1.5
NEAR = 0.8  # what a word near an unknown one weighs
MILLISECONDS_OF_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Entry:
    """What is searched of an entry; an empty range is that of one which came from no message."""

    content: str
    source_range: tuple[int, int] = (0, 0)
    role: str = "user"
    name: str | None = None
    created_at: int = 0  # milliseconds since 1970
    kind: str = "message"


def search(queries: Sequence[str], entries: Sequence[Entry]) -> list[list[tuple[int, float]]]:
    """For each query, places of the entries with their scores: best first, then newer, then by place."""
    passages = [_passages(entry) for entry in entries]
    days = _days(entries, passages)
    beside = neighbors(entries)
    names = [frozenset(analyse.terms(analyse.name_of(entry.role, entry.name))) for entry in entries]
    telling = {name: _telling(name, names) for name in _people(entries, names)}
    found = []
    frequencies = Counter(term for each in passages for passage in each for term in passage)
    for query in queries:
        known = corrections(query, frequencies)
        terms = [known.get(term, term) for term in analyse.terms(query)]
        named = [name for name in telling if not telling[name].isdisjoint(terms)]
        factors = dict.fromkeys(map(word_hash, known.values()), NEAR)
        found.append(_search(_bag(terms), factors, entries, passages, beside, days, names, named))
    return found


def _search(
    query: Counter[int],
    factors: dict[int, float],
    entries: Sequence[Entry],
    passages: Sequence[list[Counter[int]]],
    beside: Sequence[tuple[list[int], list[int]]],
    days: dict[int, Counter[int]],
    names: Sequence[frozenset[str]],
    named: Sequence[frozenset[str]],
) -> list[tuple[int, float]]:
    every = [passage for each in passages for passage in each]
    rows, ceiling = bm25.parts(query, every, k3=K3, ceiling=CEILING, factors=factors)
    parts = _best(rows, passages)
    of_days = _sums_of_days(query, days, factors)
    found = []
    for place, entry in enumerate(entries):
        near = bm25.total(math.sqrt(_square(term, parts, place, beside[place])) for term in range(len(query)))
        if near > 0:
            day = of_days.get(_day(entry), 0.0) if _came_from_messages(entry) else 0.0
            speaker = SPEAKER if list(named) == [names[place]] else 1.0
            found.append((-min(1.0, (near * speaker + day) / ceiling), -entry.created_at, place))
    return [(place, -score) for score, _, place in sorted(found)]


def _people(entries: Sequence[Entry], names: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """The names that stand for people alone, each once."""
    things = {
        name
        for entry, name in zip(entries, names, strict=True)
        if not analyse.is_person(entry.role, entry.kind)
    }
    return [name for name in dict.fromkeys(names) if name and name not in things]


def _telling(name: frozenset[str], names: Sequence[frozenset[str]]) -> frozenset[str]:
    """The terms of a name that are in no other."""
    return name.difference(*(other for other in set(names) if other != name))


def own(query: str, entries: Sequence[Entry]) -> tuple[list[float], float]:
    """What each entry has of the query by itself, as plain BM25 counts it, and the ceiling of that."""
    passages = [_passages(entry) for entry in entries]
    rows, ceiling = bm25.parts(_bag(analyse.terms(query)), [passage for each in passages for passage in each])
    return [bm25.total(row) for row in _best(rows, passages)], ceiling


def _best(rows: Sequence[list[float]], passages: Sequence[list[Counter[int]]]) -> list[list[float]]:
    """For each entry those of its best passage, the first of equal ones, of the *rows* of all passages."""
    taken = iter(rows)
    return [max((next(taken) for _ in each), key=bm25.total) for each in passages]


def _square(term: int, parts: Sequence[list[float]], place: int, sides: tuple[list[int], list[int]]) -> float:
    """What an entry has of a term, squared, and the shares of its neighbours."""
    square = parts[place][term] * parts[place][term]
    for step, share in enumerate(SQUARES):
        before, after = (parts[side[step]][term] if step < len(side) else 0.0 for side in sides)
        square += share * (before * before + after * after)
    return square


def _passages(entry: Entry) -> list[Counter[int]]:
    """Each passage of the text, with the name and the date."""
    name = analyse.terms(analyse.name_of(entry.role, entry.name))
    date = [term for word in analyse.date_words(entry.created_at) for term in analyse.terms(word)]
    return [_bag(passage + name + date) for passage in analyse.passages(analyse.terms(entry.content))]


def _days(entries: Sequence[Entry], passages: Sequence[list[Counter[int]]]) -> dict[int, Counter[int]]:
    """All that was said on a day, for each day in the order they come."""
    days: dict[int, Counter[int]] = {}
    for entry, each in zip(entries, passages, strict=True):
        if _came_from_messages(entry):
            day = days.setdefault(_day(entry), Counter())
            for passage in each:
                day += passage
    return days


def _sums_of_days(
    query: Counter[int], days: dict[int, Counter[int]], factors: dict[int, float]
) -> dict[int, float]:
    """The sum of BM25 of each day; none where all was said on one."""
    if len(days) < 2:
        return {}
    rows, _ = bm25.parts(query, list(days.values()), k1=K1_OF_DAYS, k3=K3, factors=factors)
    return {day: bm25.total(row) for day, row in zip(days, rows, strict=True)}


def _day(entry: Entry) -> int:
    return entry.created_at // MILLISECONDS_OF_DAY


def _came_from_messages(entry: Entry) -> bool:
    return entry.source_range[0] < entry.source_range[1]


def neighbors(entries: Sequence[Entry]) -> list[tuple[list[int], list[int]]]:
    """For each entry those before it and those after it, the nearest first, as far as there are any."""
    order = [place for place, entry in enumerate(entries) if _came_from_messages(entry)]
    order.sort(key=lambda place: (entries[place].source_range[0], place))
    reach = len(SQUARES)
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in entries]
    for at, place in enumerate(order):
        found[place] = (
            _chain(entries, order[max(0, at - reach) : at + 1][::-1])[1:],
            _chain(entries, order[at : at + reach + 1])[1:],
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
