"""The ranker ``lexical``: BM25 over passages, each entry lifted by its neighbours, day and speaker.

The formula, ``t`` being the terms of the query, BM25 with ``k3`` 2 and a ceiling of 1.2::

    own(e)     = the largest sum of BM25 over the passages of the entry
    part(t, e) = the part of t in that passage, the first of equal ones
    near(e)    = sum over t of sqrt(part(t, e)**2 + share(k)**2 * (lent(t, e-k) + lent(t, e+k)) ...)
    lent(t, e) = part(t, e)**2 * min(1, 100 / length of that passage)
    day(e)     = the sum of BM25 of all that was said on the day of the entry, among all days,
                 times min(1, 25 / mean length of entries)**2
    speaker(e) = 1.5 where the query names exactly one speaker, who said the entry; else 1.
                 Where it is about the one who asks: 1 of what that one said, else 1 / 1.5
    score(e)   = min(1, (near(e) * speaker(e) + day(e)) / ceiling)

Neighbours follow each other in the order of the messages they came from, with at most two messages
missing between them; those up to four places away count. Entries whose ``near`` is 0 are not found.

A word of the query that no entry has stands for one that entries have, one typo away, and weighs 0.8 of that.

Words that only say that something is asked, as ``mention``, weigh half in an English query.

A query names a speaker by a term that is in no other name. Speakers are people: a name that also stands for a
tool, or for what an assistant said, is none. Where there is one person, who said a part of it but not all, a
query that names nobody and says ``I`` before ``you`` is about that one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reference import analyse, bm25
from reference.correct import corrections
from reference.embed import word_hash

SQUARES = (0.1681, 0.16, 0.09, 0.04)  # of the shares of the nearest neighbour on either side, and of the next
MAX_GAP = 2  # messages that may be missing between neighbours
K3 = 2.0  # how soon a repeated term of a query stops counting for more
CEILING = 1.2  # what scores 1, in parts of the most that a passage can have of the query by itself
K1_OF_DAYS = 2.0
SPEAKER = 1.5
ASKS = 0.7  # what is left of the score of a text that only asks what the query asks
SHORT = 25  # terms of an entry in the mean, up to which a day weighs as much as what an entry has by itself
LENDS = 100  # terms of the longest passage that lends its whole share
NEAR = 0.8  # what a word near an unknown one weighs
ASKING = 0.5  # what a word weighs that only says that something is asked
PART = 4  # the person of a dialogue said at least one in so many entries
MILLISECONDS_OF_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Entry:
    """The fields of an entry that are searched. An entry that came from no message has an empty range."""

    content: str
    source_range: tuple[int, int] = (0, 0)
    role: str = "user"
    name: str | None = None
    created_at: int = 0  # milliseconds since 1970
    kind: str = "message"
    among: str = "auto"  # the languages that it may be of


def search(queries: Sequence[str], entries: Sequence[Entry]) -> list[list[tuple[int, float]]]:
    """For each query, places of the entries with their scores: best first, then newer, then by place.

    A text that only asks what the query asks scores less. Of equal texts the best one is found.
    """
    found = scores(queries, entries)
    return [each_once(of_query, entries, query) for query, of_query in zip(queries, found, strict=True)]


def each_once(
    found: Sequence[tuple[int, float]], entries: Sequence[Entry], query: str, *, asks: bool = True
) -> list[tuple[int, float]]:
    """What a store makes of scores. The documented rankers do not know what *asks*."""
    scored = []
    for place, score in found:
        factor = ASKS if asks and _asks(entries[place].content, query) else 1.0
        scored.append((-score * factor, -entries[place].created_at, place))
    best = [(place, -score) for score, _, place in sorted(scored)]
    return analyse.each_once(best, [entry.content for entry in entries], query)


def scores(queries: Sequence[str], entries: Sequence[Entry]) -> list[list[tuple[int, float]]]:
    """For each query the scores by the formula alone."""
    passages = [_passages(entry) for entry in entries]
    languages = _languages(entries)
    days = _days(entries, passages)
    beside = neighbors(entries)
    names = [frozenset(analyse.terms(analyse.name_of(entry.role, entry.name))) for entry in entries]
    people = _people(entries, names)
    telling = {name: _telling(name, names) for name in people}
    speaks = [_is_anybody(entry, name) for entry, name in zip(entries, names, strict=True)]
    found = []
    frequencies = _frequencies(passages)
    for query in queries:
        asked, spare = terms_of(query, languages, frequencies)
        known = corrections(query, asked, languages, frequencies)
        terms = [known.get(term, term) for term in asked]
        named = [name for name in telling if not telling[name].isdisjoint(terms)]
        asking = analyse.asking(query)
        factors = {
            word_hash(term): (NEAR if term in known.values() else 1.0) * (ASKING if term in asking else 1.0)
            for term in terms
        }
        if named:
            speakers = [SPEAKER if named == [name] else 1.0 for name in names]
        elif len(people) == 1 and analyse.is_about_asker(query):
            of_asker = [speaks[at] and name == people[0] for at, name in enumerate(names)]
            is_part = sum(of_asker) < len(entries) <= PART * sum(of_asker)
            speakers = [1 / SPEAKER if is_part and not own else 1.0 for own in of_asker]
        else:
            speakers = [1.0] * len(entries)
        wanted = Wanted(_bag(terms), factors, spare)
        found.append(_search(wanted, entries, passages, beside, days, speakers))
    return found


def _asks(text: str, query: str) -> bool:
    """Whether a text only asks, and what the query asks: at most one word in four is of one of them alone."""
    asked = (analyse.asked(each) for each in (analyse.questions(text), [query]))
    one, other = ({word_hash(term) % 64 for term in each} for each in asked)
    return bool(one) and all(4 * len(a - b) <= len(a) for a, b in ((one, other), (other, one)))


def terms_of(
    query: str, languages: list[str], frequencies: Mapping[int, int]
) -> tuple[list[str], frozenset[int]]:
    """The terms of *query* where entries are of English and of *languages*, and the spare ones.

    A word has the terms that entries have, of those that it has in each language. Of several the most
    frequent one counts for the ceiling; others are spare, unless another word of the query needs them. A word
    that no entry has is left out where a language takes it for one that says nothing.
    """
    words = analyse.alternatives(query, languages)
    kept, needed = [], set()
    for _, terms, is_silent in words:
        known = [term for term in terms if frequencies.get(word_hash(term))]
        if known:
            needed.add(max(known, key=lambda term: frequencies[word_hash(term)]))
        elif not is_silent:
            known = terms[:1]
            needed.add(terms[0])
        kept += known
    if not kept:
        kept = [terms[0] for _, terms, _ in words]
        needed = set(kept)
    numbers = dict.fromkeys(number for _, number in analyse.grouped(query))
    kept += [number for number in numbers if number not in kept]
    return kept, frozenset(word_hash(term) for term in kept if term not in needed)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A query: its terms, what some of them are multiplied by, and those that are spare."""

    terms: Counter[int]
    factors: dict[int, float]
    spare: frozenset[int]


def _search(
    query: Wanted,
    entries: Sequence[Entry],
    passages: Sequence[list[Passage]],
    beside: Sequence[tuple[list[int], list[int]]],
    days: dict[int, Passage],
    speakers: Sequence[float],
) -> list[tuple[int, float]]:
    every = [passage for each in passages for passage in each]
    rows, ceiling = bm25.parts(
        query.terms,
        [passage.terms for passage in every],
        k3=K3,
        ceiling=CEILING,
        factors=query.factors,
        lengths=[passage.length for passage in every],
        spare=query.spare,
    )
    parts = _best(rows, passages)
    lends = _lending(rows, passages)
    of_days = _sums_of_days(query, days, sum(map(_came_from_messages, entries)))
    found = []
    for place, entry in enumerate(entries):
        near = bm25.total(
            math.sqrt(_square(term, parts, lends, place, beside[place])) for term in range(len(query.terms))
        )
        if near > 0:
            day = of_days.get(_day(entry), 0.0) if _came_from_messages(entry) else 0.0
            found.append((-min(1.0, (near * speakers[place] + day) / ceiling), -entry.created_at, place))
    return [(place, -score) for score, _, place in sorted(found)]


def _people(entries: Sequence[Entry], names: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """The names that stand for people alone, each once; an empty one for users without a name."""
    things = {
        name
        for entry, name in zip(entries, names, strict=True)
        if name and not analyse.is_person(entry.role, entry.kind)
    }
    anybody = (name for entry, name in zip(entries, names, strict=True) if _is_anybody(entry, name))
    return [name for name in dict.fromkeys(anybody) if name not in things]


def _is_anybody(entry: Entry, name: frozenset[str]) -> bool:
    """Whether it is known who said an entry: somebody with a name, or a user."""
    return bool(name) or analyse.is_person(entry.role, entry.kind)


def _telling(name: frozenset[str], names: Sequence[frozenset[str]]) -> frozenset[str]:
    """The terms of a name that are in no other."""
    return name.difference(*(other for other in set(names) if other != name))


def own(query: str, entries: Sequence[Entry]) -> tuple[list[float], float]:
    """The score of each entry by itself, as plain BM25 counts it, and the ceiling of these scores."""
    passages = [_passages(entry) for entry in entries]
    every = [passage for each in passages for passage in each]
    terms, spare = terms_of(query, _languages(entries), _frequencies(passages))
    rows, ceiling = bm25.parts(
        _bag(terms),
        [passage.terms for passage in every],
        lengths=[passage.length for passage in every],
        spare=spare,
    )
    return [bm25.total(row) for row in _best(rows, passages)], ceiling


def _languages(entries: Sequence[Entry]) -> list[str]:
    """The languages that enough entries are of, but English."""
    counts = Counter(analyse.language_of(entry.content, entry.among) for entry in entries)
    is_enough = {code for code, count in counts.items() if count >= 16 or count * 50 > len(entries)}
    return sorted(is_enough - {"en"})


def _frequencies(passages: Sequence[list[Passage]]) -> Counter[int]:
    """How many passages have each term."""
    return Counter(term for each in passages for passage in each for term in passage.terms)


def _best(rows: Sequence[list[float]], passages: Sequence[list[Passage]]) -> list[list[float]]:
    """For each entry those of its best passage, the first of equal ones, of the *rows* of all passages."""
    taken = iter(rows)
    return [max((next(taken) for _ in each), key=bm25.total) for each in passages]


def _lending(rows: Sequence[list[float]], passages: Sequence[list[Passage]]) -> list[float]:
    """For each entry what it lends of the square of its share, by the length of its best passage."""
    taken = iter(rows)
    best = [max(((next(taken), passage) for passage in each), key=_total) for each in passages]
    return [min(1.0, LENDS / passage.length) if passage.length else 1.0 for _, passage in best]


def _total(scored: tuple[list[float], Passage]) -> float:
    return bm25.total(scored[0])


def _square(
    term: int,
    parts: Sequence[list[float]],
    lends: Sequence[float],
    place: int,
    sides: tuple[list[int], list[int]],
) -> float:
    """The part of an entry for a term, squared, and the shares of its neighbours."""
    square = parts[place][term] * parts[place][term]
    for step, share in enumerate(SQUARES):
        before, after = (
            lends[side[step]] * (parts[side[step]][term] * parts[side[step]][term])
            if step < len(side)
            else 0.0
            for side in sides
        )
        square += share * (before + after)
    return square


@dataclass(frozen=True, slots=True)
class Passage:
    """The terms of a passage or of a day; characters inside of words are no part of the length."""

    terms: Counter[int]
    length: int


def _passages(entry: Entry) -> list[Passage]:
    """Each passage of the text, with the name and the date."""
    name = analyse.terms(analyse.name_of(entry.role, entry.name))
    date = [term for word in analyse.date_words(entry.created_at) for term in analyse.terms(word)]
    language = analyse.language_of(entry.content, entry.among)
    terms = analyse.terms(entry.content, language)
    characters = analyse.characters(entry.content, language)
    found = []
    for start, passage in analyse.passages(terms):
        # The last one stands behind all terms.
        places = range(start, start + len(passage))
        inside = [c for at, c in characters if min(at, len(terms) - 1) in places]
        bag = passage + name + date
        found.append(Passage(_bag(bag + inside), len(bag)))
    return found


def _days(entries: Sequence[Entry], passages: Sequence[list[Passage]]) -> dict[int, Passage]:
    """All that was said on a day, for each day in the order they come."""
    days: dict[int, Passage] = {}
    for entry, each in zip(entries, passages, strict=True):
        if _came_from_messages(entry):
            for passage in each:
                day = days.setdefault(_day(entry), Passage(Counter(), 0))
                day.terms.update(passage.terms)
                days[_day(entry)] = Passage(day.terms, day.length + passage.length)
    return days


def _sums_of_days(query: Wanted, days: dict[int, Passage], count: int) -> dict[int, float]:
    """The addend of each day of *count* entries; nothing where all was said on one day."""
    if len(days) < 2:
        return {}
    rows, _ = bm25.parts(
        query.terms,
        [day.terms for day in days.values()],
        k1=K1_OF_DAYS,
        k3=K3,
        factors=query.factors,
        lengths=[day.length for day in days.values()],
    )
    share = min(1.0, SHORT * count / words) if (words := sum(day.length for day in days.values())) else 1.0
    return {day: bm25.total(row) * (share * share) for day, row in zip(days, rows, strict=True)}


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
