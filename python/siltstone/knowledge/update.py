"""Compares a new fact with known ones: it is new, known already, better said, or a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from siltstone.knowledge.base import Fact, FactStore, now_ms
from siltstone.knowledge.words import (
    conflicting,
    contains_half,
    gives_up,
    says_change,
    subject,
    values,
    words,
)
from siltstone.values import dataclass, replace

__all__ = ["Action", "Held", "Learned", "decide", "learn"]

Action: TypeAlias = Literal["ADD", "UPDATE", "SUPERSEDE", "NONE"]

_SAME = 0.5  #: overlap above which two facts say the same
_NEAR = 0.2  #: overlap above which they speak of the same
_LONGER = 1.2  #: times as long, so that the new one says it better


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of a batch of facts.

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
    return _decide(new, Held(known))


def learn(store: FactStore, batch: Sequence[Fact]) -> Learned:
    """Brings *batch* into *store*, one fact after the other, in one write.

    Of a contradiction inside the batch the later fact holds; of one with a fact that is known, the one that
    was said later, where both tell their places. Nothing is deleted: what is superseded stays
    as history. What was known already gains the new source ranges, so a batch that was learned before
    changes nothing. What another session said better takes the place of the old fact, which becomes
    history: so a fact is of one session alone, and goes when that is forgotten.
    """
    known = {fact.id: fact for fact in store.facts()} if batch else {}
    held = Held(known.values())
    first = dict(known)
    added: dict[str, None] = {}
    already = 0
    for new in batch:
        action, old = _decide(new, held)
        if action == "UPDATE" and old is not None and old.session_id != new.session_id:
            action = "SUPERSEDE"
        if action == "ADD" or old is None:
            added[new.id] = None
            changed = [new]
        elif action == "SUPERSEDE" and _was_said_before(new, old):  # it was read late, and is history already
            added[new.id] = None
            changed = [replace(new, superseded_by=old.id, superseded_at=old.created_at)]
        elif action == "SUPERSEDE":
            added[new.id] = None
            changed = [replace(old, superseded_by=new.id, superseded_at=new.created_at or now_ms()), new]
        else:
            already += action == "NONE"
            said = _said_again(old, new)
            changed = [said if action == "NONE" else replace(said, content=new.content, context=new.context)]
        for fact in changed:
            known[fact.id] = fact
            held.put(fact)
    written = [fact for fact in known.values() if first.get(fact.id) != fact]
    store.put(written)
    return Learned(
        tuple(fact for fact in written if fact.id in added),
        tuple(fact for fact in written if fact.id in first and fact.content != first[fact.id].content),
        tuple(fact for fact in written if fact.superseded_by and not _was_superseded(first.get(fact.id))),
        already,
    )


class Held:
    """The facts that hold, by their words: a new one is compared with those alone that share one with it."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._facts: dict[str, Fact] = {}
        self._places: dict[str, int] = {}  # of equals the one that came first goes first
        self._same: dict[bytes, dict[str, None]] = {}
        self._by_word: dict[tuple[str, str], dict[str, None]] = {}
        for fact in facts:
            self.put(fact)

    def put(self, fact: Fact) -> None:
        """Takes *fact* in, in the place of the one of its id; lets go of it where it holds no more."""
        old = self._facts.get(fact.id)
        if old is not None and (old.content, old.type) != (fact.content, fact.type):
            self._let_go(old)
        if fact.superseded_by is not None or fact.deleted_at is not None:
            if fact.id in self._facts:
                self._let_go(self._facts.pop(fact.id))
            return
        self._facts[fact.id] = fact
        self._places.setdefault(fact.id, len(self._places))
        self._same.setdefault(_digest(fact.content), {})[fact.id] = None
        for word in words(fact.content):
            self._by_word.setdefault((fact.type, word), {})[fact.id] = None

    def same(self, content: str) -> Fact | None:
        """The first fact with that text, but for case."""
        return next((self._facts[name] for name in self._same.get(_digest(content), ())), None)

    def near(self, new: Fact) -> list[tuple[Fact, float]]:
        """The facts of its type that share a word with *new*, each with the overlap; the nearest first."""
        asked = words(new.content)
        shared: Counter[str] = Counter()
        for word in asked:
            shared.update(list(self._by_word.get((new.type, word), ())))
        found = []
        for name, count in shared.items():
            fact = self._facts[name]
            found.append((fact, count / (len(asked) + len(words(fact.content)) - count)))
        return sorted(found, key=lambda each: (-each[1], -each[0].created_at, self._places[each[0].id]))

    def _let_go(self, fact: Fact) -> None:
        self._same[_digest(fact.content)].pop(fact.id, None)
        for word in words(fact.content):
            self._by_word[fact.type, word].pop(fact.id, None)


def _decide(new: Fact, held: Held) -> tuple[Action, Fact | None]:
    same = held.same(new.content)
    if same is not None:
        return "NONE", same
    if _is_of_a_tool(new):
        return "ADD", None
    ranked = [(fact, overlap) for fact, overlap in held.near(new) if not _is_of_a_tool(fact)]
    for fact, overlap in ranked:
        longer = len(new.content) > _LONGER * len(fact.content)
        says_it = overlap > _SAME or (longer and contains_half(new.content, fact.content))
        same_values = not conflicting(new.content, fact.content)
        if says_it and same_values and not _other_subject(new, fact) and not _gives_up(new, fact):
            return ("UPDATE" if longer else "NONE"), fact
    for fact, overlap in ranked:
        if overlap > _NEAR and _changes(new, fact):
            return "SUPERSEDE", fact
    return "ADD", None


def _is_of_a_tool(fact: Fact) -> bool:
    """Whether it says what a tool has given: that was so, whatever the tool gives later."""
    return fact.source.startswith("tool:")


def _changes(new: Fact, old: Fact) -> bool:
    """Whether *new*, which speaks of what *old* speaks of, says otherwise."""
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
    """*old* with the places of *new*; as it is where it is of those places already."""
    if old.session_id != new.session_id:
        return replace(old, support=old.support + 1)
    places = tuple(each for each in new.source_ranges if each not in old.source_ranges)
    if new.source_ranges and not places:
        return old
    return replace(old, source_ranges=(*old.source_ranges, *places), support=old.support + 1)


def _was_said_before(new: Fact, old: Fact) -> bool:
    """Whether all of *new* was said before *old*, in the same session."""
    if new.session_id != old.session_id or not new.source_ranges or not old.source_ranges:
        return False
    return max(end for _, end in new.source_ranges) <= min(start for start, _ in old.source_ranges)


def _was_superseded(fact: Fact | None) -> bool:
    return fact is not None and fact.superseded_by is not None


def _digest(content: str) -> bytes:
    from hashlib import sha256  # with OpenSSL: only who learns needs it

    return sha256(content.strip().lower().encode("utf-8", "replace")).digest()


_POINTS = {ord(char): " " for char in ".,;:!?()[]\"'`"}
