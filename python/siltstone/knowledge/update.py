"""What does a new fact do to those that are known: is it added, known already, better said, or a change?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal, TypeAlias

from siltstone.knowledge.base import Fact, FactStore, now_ms
from siltstone.knowledge.words import (
    conflicting,
    contains_half,
    gives_up,
    jaccard,
    says_change,
    subject,
    values,
    words,
)

__all__ = ["Action", "Learned", "decide", "learn"]

Action: TypeAlias = Literal["ADD", "UPDATE", "SUPERSEDE", "NONE"]

_SAME = 0.5  #: overlap above which two facts say the same
_NEAR = 0.2  #: overlap above which they speak of the same
_LONGER = 1.2  #: times as long, so that the new one says it better


@dataclass(frozen=True, slots=True)
class Learned:
    """What a batch of facts came to.

    Attributes:
        added: Facts that are new, those that took the place of another included.
        updated: Facts that are better said now; their ids are those they had.
        superseded: Facts that are history now.
        known: How many were known already.
    """

    added: tuple[Fact, ...] = ()
    updated: tuple[Fact, ...] = ()
    superseded: tuple[Fact, ...] = ()
    known: int = 0


def decide(new: Fact, known: Sequence[Fact]) -> tuple[Action, Fact | None]:
    """What *new* does to the facts of *known* that hold, and which of them it is about.

    It supersedes a fact of its type only where it names what changed: the same subject, or a word of change
    beside the old subject or the old value. "Metrics now on port 9090" says
    nothing of "API on port 3000".
    """
    digest = _digest(new.content)
    held = [fact for fact in known if fact.superseded_by is None and fact.deleted_at is None]
    for fact in held:
        if _digest(fact.content) == digest:
            return "NONE", fact
    same = [fact for fact in held if fact.type == new.type]
    ranked = sorted(same, key=lambda fact: (-jaccard(new.content, fact.content), -fact.created_at))
    longer = {fact.id: len(new.content) > _LONGER * len(fact.content) for fact in ranked}
    for fact in ranked:
        overlap = jaccard(new.content, fact.content)
        says_it = overlap > _SAME or (longer[fact.id] and contains_half(new.content, fact.content))
        same_values = not conflicting(new.content, fact.content)
        if says_it and same_values and not _other_subject(new, fact) and not _gives_up(new, fact):
            return ("UPDATE" if longer[fact.id] else "NONE"), fact
    for fact in ranked:
        if _changes(new, fact):
            return "SUPERSEDE", fact
    return "ADD", None


def learn(store: FactStore, batch: Sequence[Fact]) -> Learned:
    """Brings *batch* into *store*, one fact after the other, in one write.

    Of a contradiction inside the batch the later fact holds. Nothing is deleted: what is superseded stays
    as history. What was known already gains the new source ranges.
    """
    known = {fact.id: fact for fact in store.facts()}
    first = dict(known)
    added: dict[str, None] = {}
    already = 0
    for new in batch:
        action, old = decide(new, list(known.values()))
        if action == "ADD" or old is None:
            known[new.id] = new
            added[new.id] = None
        elif action == "SUPERSEDE":
            known[new.id] = new
            added[new.id] = None
            moment = new.created_at or now_ms()
            known[old.id] = replace(old, superseded_by=new.id, superseded_at=moment)
        else:
            already += action == "NONE"
            said = _said_again(old, new)
            known[old.id] = (
                said if action == "NONE" else replace(said, content=new.content, context=new.context)
            )
    changed = [fact for fact in known.values() if first.get(fact.id) != fact]
    store.put(changed)
    return Learned(
        tuple(fact for fact in changed if fact.id in added),
        tuple(fact for fact in changed if fact.id in first and fact.content != first[fact.id].content),
        tuple(fact for fact in changed if fact.superseded_by and not _was_superseded(first.get(fact.id))),
        already,
    )


def _changes(new: Fact, old: Fact) -> bool:
    """Whether *new* speaks of what *old* speaks of, and says otherwise."""
    if jaccard(new.content, old.content) <= _NEAR:
        return False
    if subject(new.content) == subject(old.content) != "":
        return True
    if not says_change(new.content):
        return False
    return _names(new, subject(old.content)) or bool(values(old.content) & values(new.content))


def _other_subject(new: Fact, old: Fact) -> bool:
    """Whether the two are siblings: of another subject each, where neither speaks of the other's."""
    mine, theirs = subject(new.content), subject(old.content)
    return mine != theirs and not _names(old, mine) and not _names(new, theirs)


def _gives_up(new: Fact, old: Fact) -> bool:
    """Whether *new* says in words that the subject of *old* is no more: "instead of" it, "no longer" it."""
    given_up = gives_up(new.content)
    return subject(new.content) != subject(old.content) != "" and subject(old.content) in given_up


def _names(fact: Fact, word: str) -> bool:
    return bool(word) and word in words(fact.content.translate(_POINTS))


def _said_again(old: Fact, new: Fact) -> Fact:
    ranges = (*old.source_ranges, *(each for each in new.source_ranges if each not in old.source_ranges))
    return replace(old, source_ranges=ranges, support=old.support + 1)


def _was_superseded(fact: Fact | None) -> bool:
    return fact is not None and fact.superseded_by is not None


def _digest(content: str) -> bytes:
    return sha256(content.strip().lower().encode("utf-8", "replace")).digest()


_POINTS = {ord(char): " " for char in ".,;:!?()[]\"'`"}
