"""Which facts fit a query?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from siltstone.documented import bm25, matching, tokens
from siltstone.knowledge.base import Fact, FactStore, now_ms

__all__ = ["find_facts", "find_text", "history_of"]


@runtime_checkable
class WordStore(Protocol):
    """What remembers the tokens of its facts, so that not every search makes them."""

    def words(self, fact: Fact) -> Sequence[str]:
        """The documented tokens of what *fact* says."""


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
    """The facts that hold and fit *query*, best first, each with its score of BM25; newer first where equal.

    A fact must have all of up to 2 distinct tokens of the query, half of up to 8, else 30 %, 6 at most. A
    store with a single fact is searched as any other.

    Args:
        store: Where to look.
        query: Any text.
        limit: The most facts.
        as_of: What held at that time, in milliseconds since 1970; else what holds now.
        types: Facts of these types alone.
        topic: Facts of that topic alone.
        entity: Facts with that entity alone.
        any_overlap: One token in common is enough.
    """
    moment = now_ms() if as_of is None else as_of
    held = [
        fact
        for fact in store.facts()
        if fact.holds_at(moment)
        and (not types or fact.type in types)
        and (topic is None or topic in fact.topics)
        and (entity is None or entity in fact.entities)
    ]
    texts = words_of(store, held)
    scores = bm25(query, texts)
    if any_overlap:
        places = [place for place, score in enumerate(scores) if score > 0]
    else:
        places = matching(query, texts)
    ranked = sorted(places, key=lambda place: (-scores[place], -held[place].created_at, held[place].id))
    return [(held[place], scores[place]) for place in ranked[: max(0, limit)]]


def words_of(store: FactStore, facts: Sequence[Fact]) -> list[Sequence[str]]:
    """The documented tokens of what each of *facts* says, as *store* has them worked out."""
    if isinstance(store, WordStore):
        return [store.words(fact) for fact in facts]
    return [tokens(f"{fact.content} {fact.context}") for fact in facts]


def find_text(store: FactStore, query: str, limit: int = 20) -> list[Fact]:
    """The facts that hold and have *query* in their text or as a tag, newest first."""
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
    """The facts that came one in the place of the other, oldest first, to the one that holds."""
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
