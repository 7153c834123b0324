"""Searches facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from siltstone.documented import DocumentedBm25, least_matches, tokens
from siltstone.knowledge.base import Fact, FactStore, now_ms
from siltstone.knowledge.topics import has_entity

__all__ = [
    "Held",
    "HeldStore",
    "WordStore",
    "find_facts",
    "find_text",
    "history_of",
    "is_about",
    "words_of",
]


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


@runtime_checkable
class HeldStore(Protocol):
    """A store of facts that keeps an index of them until they change."""

    def held(self, moment: int) -> Held:
        """The facts that hold at *moment*."""


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
    if isinstance(store, HeldStore) and not is_filtered:
        held = store.held(moment)
    else:
        held = Held.at(store, moment, fits if is_filtered else None)
    asked = tokens(query)
    least = 1 if any_overlap else least_matches(len(set(asked)))
    return [(held.facts[place], score) for place, score in held.index.best(asked, least, max(0, limit))]


def is_about(fact: Fact, *, types: Sequence[str], topic: str | None, entity: str | None) -> bool:
    """Whether *fact* has one of *types*, the *topic* and the *entity*; () and None: any."""
    return (
        (not types or fact.type in types)
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
