"""Searches facts, and finds the topics of a text by rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol, runtime_checkable

from siltstone import checks
from siltstone._native import DocumentedBm25
from siltstone.documented import bm25, cosine, least_matches, tokens, word_vector
from siltstone.knowledge.base import Fact, FactStore, now_ms, patterns, rows

# Finds the topics of a text, and its names, addresses, dates and amounts, by rules and without a model.
#
# The tables are data: a topic is a list of words, in English and in Chinese.

TOPICS: Final = dict(rows("topic"))
"""The words that indicate each topic. Chinese words are searched anywhere in a text."""

_ENGLISH: Final = {
    word: topic for topic, line in TOPICS.items() for word in line.split() if word.isascii()
}  # fmt: skip
_CHINESE: Final = [
    (word, topic) for topic, line in TOPICS.items() for word in line.split() if not word.isascii()
]  # fmt: skip
_WORD: Final = re.compile(r"[A-Za-z0-9]+(?:-[A-Za-z]+)*")

_PATTERNS: Final = patterns("entity")


class Entity(NamedTuple):
    """A found entity: its kind, and its text."""

    kind: str
    text: str


def topics_of(text: str) -> tuple[str, ...]:
    """The topics of *text*, in the order of the table."""
    found = {topic for word in _WORD.findall(text.lower()) for part in (word, *word.split("-"))
             if (topic := _ENGLISH.get(part))}  # fmt: skip
    found |= {topic for word, topic in _CHINESE if word in text}
    return tuple(topic for topic in TOPICS if topic in found)


def entities_of(text: str) -> tuple[Entity, ...]:
    """The entities of *text*, each once, by place: person, stock, url, date, amount, project, email."""
    found: dict[Entity, int] = {}
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            name = next((group for group in match.groups() if group), match.group())
            found.setdefault(Entity(kind, name.strip()), match.start())
    return tuple(sorted(found, key=lambda entity: (found[entity], entity)))


def named(entities: tuple[Entity, ...]) -> tuple[str, ...]:
    """*entities* in the form of facts: ``person:Ann``."""
    return tuple(f"{entity.kind}:{entity.text}" for entity in entities)


def has_entity(entities: tuple[str, ...], wanted: str) -> bool:
    """Whether *wanted* is one of *entities*, with its kind or without: ``person:Ann`` or ``Ann``."""
    return any(wanted in (each, each.partition(":")[2]) for each in entities)


@runtime_checkable
class WordStore(Protocol):
    """A store of facts that caches their tokens, so that not every search computes them."""

    def words(self, fact: Fact) -> Sequence[str]:
        """The documented tokens of the text of *fact*."""


@dataclass(frozen=True, slots=True)
class Held:
    """The facts that hold at a time, with an index over their texts.

    Attributes:
        facts: The facts, newest first; of the same time by id.
        index: The index; its places are those of *facts*.
        since: The time from which on exactly these facts hold, in milliseconds since 1970; None for ever.
        until: The time when that ends; None for never.
    """

    facts: Sequence[Fact]
    index: DocumentedBm25
    since: int | None = None
    until: int | None = None

    @classmethod
    def at(cls, store: FactStore, moment: int, fits: Callable[[Fact], bool] | None = None) -> Held:
        """The facts of *store* that hold at *moment*; with *fits*, only those that it accepts."""
        known = store.facts()
        held = [fact for fact in known if fact.holds_at(moment) and (fits is None or fits(fact))]
        held.sort(key=lambda fact: (-fact.created_at, fact.id))
        changes = [change for fact in known for change in _changes(fact)]
        since = max((change for change in changes if change <= moment), default=None)
        until = min((change for change in changes if change > moment), default=None)
        return cls(held, DocumentedBm25(words_of(store, held)), since, until)

    def is_at(self, moment: int) -> bool:
        """Whether these are the facts that hold at *moment*."""
        return (self.since is None or self.since <= moment) and (self.until is None or moment < self.until)


def find_facts(
    store: FactStore,
    query: str,
    limit: int = 10,
    *,
    as_of: int | None = None,
    types: Sequence[str] = (),
    topic: str | None = None,
    entity: str | None = None,
    any_overlap: bool = False,
) -> list[tuple[Fact, float]]:
    """The facts that hold and fit *query*, best first, with their BM25 scores; equal ones newest first.

    A fact must have all distinct tokens of a query of up to 2, half of them for up to 8, and otherwise 30 %,
    but never more than 6. This holds for a store with a single fact too.

    Args:
        store: The facts to search.
        query: Any text.
        limit: The most facts.
        as_of: Search the facts that held at this time, in milliseconds since 1970; None is now.
        types: Only facts of these types.
        topic: Only facts of this topic.
        entity: Only facts with this entity, with its kind or without: ``person:Ann`` or ``Ann``.
        any_overlap: Whether one common token is enough.
    """
    moment = now_ms() if as_of is None else as_of
    fits = partial(is_about, types=types, topic=topic, entity=entity)
    is_filtered = bool(types) or topic is not None or entity is not None
    kept: Callable[[int], Held] | None = getattr(store, "held", None)  # an index that a store keeps itself
    if kept is not None and not is_filtered:
        held = kept(moment)
    else:
        held = Held.at(store, moment, fits if is_filtered else None)
    asked = tokens(query)
    least = 1 if any_overlap else least_matches(len(set(asked)))
    return [(held.facts[place], score) for place, score in held.index.best(asked, least, max(0, limit))]


def is_about(
    fact: Fact, *, types: Sequence[str], topic: str | None, entity: str | None, session_id: str = ""
) -> bool:
    """Whether *fact* is of the session, and has one of *types*, the *topic* and the *entity*; empty: any."""
    return (
        (not types or fact.type in types)
        and session_id in ("", fact.session_id)
        and (topic is None or topic in fact.topics)
        and (entity is None or has_entity(fact.entities, entity))
    )


def words_of(store: FactStore, facts: Sequence[Fact]) -> list[Sequence[str]]:
    """The documented tokens of the text of each of *facts*, from the cache of *store* if it has one."""
    if isinstance(store, WordStore):
        return [store.words(fact) for fact in facts]
    return [tokens(f"{fact.content} {fact.context}") for fact in facts]


def find_text(store: FactStore, query: str, limit: int = 20) -> list[Fact]:
    """The facts that hold and have *query* in their text or in a tag, newest first."""
    folded, moment = query.lower(), now_ms()
    found = [
        fact
        for fact in store.facts()
        if fact.holds_at(moment)
        and folded
        and (folded in fact.content.lower() or any(folded in tag.lower() for tag in fact.tags))
    ]
    return sorted(found, key=lambda fact: (-fact.created_at, fact.id))[: max(0, limit)]


def history_of(store: FactStore, fact_id: str) -> list[Fact]:
    """The chain of facts that replaced one another, oldest first, up to the one that holds."""
    known = {fact.id: fact for fact in store.facts()}
    before = {fact.superseded_by: fact for fact in known.values() if fact.superseded_by}
    first = fact_id
    seen = {first}
    while (earlier := before.get(first)) is not None and earlier.id not in seen:
        first = earlier.id
        seen.add(first)
    line: list[Fact] = []
    at: str | None = first
    while at is not None and at in known and known[at] not in line:
        line.append(known[at])
        at = known[at].superseded_by
    return line


def _changes(fact: Fact) -> Sequence[int]:
    """The times when *fact* begins to hold, and when it may cease to."""
    ends = (fact.superseded_at, fact.valid_until, fact.deleted_at)
    return (fact.created_at, *(end for end in ends if end is not None))


# The documented search over facts: full text and hashed words, both normalised, in order of rank.

MAX_RESULTS: Final = 1_000


@runtime_checkable
class VectorStore(Protocol):
    """A store of facts that also stores their vectors."""

    def vectors(self) -> Mapping[str, Sequence[float]]:
        """The vectors, by the ids of facts."""


@dataclass(frozen=True, slots=True)
class HybridFacts:
    """Finds facts by ``full_text_weight * bm25 / best + vector_weight * max(0, cosine)``.

    Operators of query languages count as plain text. If nothing is found, facts with the whole query in their
    text or as a tag are returned, newest first.

    Attributes:
        store: The facts. Vectors that it has stored are used, others are computed.
        full_text_weight: The weight of BM25, 0..1.
        vector_weight: The weight of the cosine, 0..1; one of the two weights is above 0.
        dimensions: The length of a vector, 8 or more.
        max_results: The most facts of a search, 1..1000.
        enabled: If False, only the search for the whole query is left.

    Raises:
        ConfigError: a value is out of its bounds.
    """

    store: FactStore
    full_text_weight: float = 0.5
    vector_weight: float = 0.5
    dimensions: int = 128
    max_results: int = 20
    enabled: bool = True

    def __post_init__(self) -> None:
        checks.each(self, "full_text_weight vector_weight", checks.share)
        if self.full_text_weight + self.vector_weight <= 0:
            checks.refuse("vector_weight", "above 0 where full_text_weight is 0", self.vector_weight)
        checks.each(self, "dimensions", checks.at_least, 8)
        checks.each(self, "max_results", checks.within, 1, MAX_RESULTS)

    def __len__(self) -> int:
        """The number of facts that hold now."""
        return len(self._held(now_ms()))

    def search(
        self, query: str, limit: int | None = None, *, as_of: int | None = None
    ) -> list[tuple[Fact, float]]:
        """The facts that hold and fit *query*, each with its score in 0..1, best first, then newer first.

        A fact with a score of 0 is not a hit. Facts that only contain the whole query are returned with the
        score 0.
        """
        most = self.max_results if limit is None else max(0, min(limit, self.max_results))
        moment = now_ms() if as_of is None else as_of
        if not query.strip() or not most:
            return []
        held = self._held(moment) if self.enabled else []
        scores = self._scores(query, held)
        found = [(fact, score) for fact, score in zip(held, scores, strict=True) if score > 0]
        if found:
            found.sort(key=lambda each: (-each[1], -each[0].created_at, each[0].id))
            return found[:most]
        return [(fact, 0.0) for fact in find_text(self.store, query, most)]

    def _held(self, moment: int) -> list[Fact]:
        return [fact for fact in self.store.facts() if fact.holds_at(moment)]

    def _scores(self, query: str, held: Sequence[Fact]) -> list[float]:
        texts = [f"{fact.content} {fact.context}" for fact in held]
        words = bm25(query, words_of(self.store, held))
        best = max(words, default=0.0)
        kept = self.store.vectors() if isinstance(self.store, VectorStore) else {}
        asked = word_vector(query, self.dimensions)
        scores = []
        for fact, text, matched in zip(held, texts, words, strict=True):
            vector = kept.get(fact.id, ())
            if len(vector) != self.dimensions:
                vector = word_vector(text, self.dimensions)
            similar = min(1.0, max(0.0, cosine(asked, vector)))
            share = matched / best if best > 0 else 0.0
            scores.append(self.full_text_weight * share + self.vector_weight * similar)
        return scores
